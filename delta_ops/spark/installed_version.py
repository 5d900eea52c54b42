"""Installed version: which PySpark is installed, and whether it is supported.

This module is imported first, and imports nothing that an older version may lack.
"""

from __future__ import annotations

import re

import pyspark

from delta_ops.errors import MissingDependencyError

Version = tuple[int, int]
"""Major and minor version."""

OLDEST: Version = (3, 5)
NEWEST: Version = (4, 3)
"""The newest version that the tests run on. Later versions are treated like it."""


def version_of(text: str) -> Version:
    """Parse the major and minor version, also from a vendor's version such as `3.5.4-amzn-0`.

    Raises:
        MissingDependencyError: The string is not a version, or the version is too old.
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None or (version := (int(found[1]), int(found[2]))) < OLDEST:
        raise MissingDependencyError(
            f"delta_ops.spark needs PySpark {version_text(OLDEST)} or later, and PySpark {text} is "
            f"installed; install another one with: pip install 'pyspark>={version_text(OLDEST)}'"
        )
    return version


def version_text(version: Version) -> str:
    """Format a version, such as 3.5."""
    return ".".join(map(str, version))


VERSION = version_of(pyspark.__version__)
"""Version of the installed PySpark."""


def unexpected_lack(error: ImportError) -> MissingDependencyError:
    """The error for a PySpark whose modules differ from those of all known versions."""
    return MissingDependencyError(
        f"delta_ops runs on PySpark {version_text(OLDEST)} to {version_text(NEWEST)}, and PySpark "
        f"{pyspark.__version__} is installed, which lacks something ({error}); install one of these"
    )
