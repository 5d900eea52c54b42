"""Versions: what is installed, and which way each engine takes, for reports of errors."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("pyarrow", "fsspec", "s3fs", "gcsfs", "adlfs", "dagster", "dagster-pyspark")


def installed_parts() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each part."""
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    for name in _PACKAGES:
        yield name, _version_of(name) or "not installed"
    yield "Arrow engine", "runs in this process; delta-ops uses it"
    yield from _spark()


def _spark() -> Iterator[tuple[str, str]]:
    try:
        from delta_ops.spark.installation import installation
    except ImportError as error:
        yield "Spark engine", f"cannot be used: {error}"
        return
    yield from installation()


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
