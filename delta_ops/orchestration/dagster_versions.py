"""Versions of Dagster: what is required, and what each older version lacks.

Source: Dagster's changelog. `dagster_compat` has the uses of Dagster's non-public API.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from delta_ops.errors import MissingDependencyError

Version = tuple[int, int]
"""Major and minor version."""

OLDEST: Version = (1, 10)
COMPONENTS: Version = (1, 12)
"""First version with components that keep a state."""
JOB_OWNERS: Version = (1, 12)
"""First version with owners of jobs."""
EVALUATIONS: Version = (1, 11)
"""First version with `AssetCheckEvaluation` in its public API, and in `log_event` of an op."""


def version_of(text: str) -> Version:
    """Parse the major and minor version; 0.0 for a string that is not a version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


VERSION = version_of(dg.__version__)
"""Version of the installed Dagster."""

if TYPE_CHECKING or VERSION >= EVALUATIONS:
    from dagster import AssetCheckEvaluation, BetaWarning
else:
    from dagster._core.definitions.asset_check_evaluation import AssetCheckEvaluation
    from dagster._utils.warnings import BetaWarning

__all__ = [
    "COMPONENTS",
    "EVALUATIONS",
    "JOB_OWNERS",
    "OLDEST",
    "VERSION",
    "AssetCheckEvaluation",
    "BetaWarning",
    "job_owners",
    "require_dagster",
    "version_of",
]


def job_owners(owners: Sequence[str]) -> dict[str, Any]:
    """The argument of `dg.job` for owners; empty without owners.

    Raises:
        MissingDependencyError: This Dagster has no owners of jobs.
    """
    if owners:
        require_dagster(JOB_OWNERS, "An owner of a maintenance job")
    return {"owners": list(owners)} if owners else {}


def require_dagster(since: Version, what: str, found: str = dg.__version__) -> None:
    """Require a version of Dagster.

    Raises:
        MissingDependencyError: The installed version is older.
    """
    if version_of(found) < since:
        needed = ".".join(map(str, since))
        raise MissingDependencyError(
            f"{what} needs Dagster {needed} or later, and Dagster {found} is installed; install "
            f"another one with: pip install 'dagster>={needed}'"
        )
