"""Versions of Dagster: what is required, and what each older version lacks.

Source: Dagster's changelog. `dagster_compat` has the uses of Dagster's non-public API.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from delta_ops.errors import MissingDependencyError

Version = tuple[int, ...]
"""Major and minor version, and the patch where it decides."""

OLDEST: Version = (1, 10)
COMPONENTS: Version = (1, 12)
"""First version with components that keep a state."""
JOB_OWNERS: Version = (1, 12)
"""First version with owners of jobs."""
EVALUATIONS: Version = (1, 11)
"""First version with `AssetCheckEvaluation` in its public API, and in `log_event` of an op."""
RUN_OF_RESOURCES: Version = (1, 11)
"""First version with `InitResourceContext.run`; before, it is `dagster_run`."""
TEMPLATES_OF_DAGSTER: Version = (1, 12, 7)
"""First version with `context`, `dg` and `datetime` in the templates of YAML."""
DOTTED_KEYS: Version = (1, 13, 4)
"""First version that can check an asset whose key has a dot."""
NUMBERS_AS_TAGS: Version = (1, 13, 8)
"""First version that converts numbers in the tags of YAML to strings."""
BUILD_DEFS: Version = (1, 13, 8)
"""First version with `ComponentLoadContext.build_defs`; before, it is `build_defs_at_path`."""
PRODUCES: Version = (1, 13, 19)
"""First version with `produces` of `ComponentTypeSpec`."""


def version_of(text: str) -> Version:
    """Parse major, minor and patch version; 0.0.0 for a string that is not a version."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


VERSION = version_of(dg.__version__)
"""Version of the installed Dagster."""
KEY_PUNCTUATION = "_-." if VERSION >= DOTTED_KEYS else "_-"
"""Characters that the key of a checked asset may have besides letters and digits."""
COMPARES_TARGETS = VERSION < EVALUATIONS
"""Whether an evaluation without a target counts as out of date, unless its run has logged the
newest materialization. Later versions compare times instead."""

PROJECT_ROOT = (
    "{{ context.project_root }}" if VERSION >= TEMPLATES_OF_DAGSTER else "{{ project_root }}"
)
"""The folder of the project in the templates of YAML."""

if TYPE_CHECKING or VERSION >= EVALUATIONS:
    from dagster import AssetCheckEvaluation, BetaWarning
elif VERSION >= OLDEST:  # else `delta_ops.orchestration` rejects this Dagster
    from dagster._core.definitions.asset_check_evaluation import AssetCheckEvaluation
    from dagster._utils.warnings import BetaWarning

__all__ = [
    "BUILD_DEFS",
    "COMPARES_TARGETS",
    "COMPONENTS",
    "DOTTED_KEYS",
    "EVALUATIONS",
    "JOB_OWNERS",
    "KEY_PUNCTUATION",
    "NUMBERS_AS_TAGS",
    "OLDEST",
    "PRODUCES",
    "PROJECT_ROOT",
    "RUN_OF_RESOURCES",
    "TEMPLATES_OF_DAGSTER",
    "VERSION",
    "AssetCheckEvaluation",
    "BetaWarning",
    "build_defs_at",
    "component_spec",
    "job_owners",
    "log_check_evaluation",
    "require_dagster",
    "run_of_resource",
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


def component_spec(
    description: str, *, tags: Sequence[str], produces: Sequence[str]
) -> dg.ComponentTypeSpec:
    """The description of a component for `dg list components`.

    Args:
        description: One sentence.
        tags: By which users find the component.
        produces: Kinds of definitions, which older versions of Dagster do not show.
    """
    more: dict[str, Any] = {"produces": list(produces)} if VERSION >= PRODUCES else {}
    return dg.ComponentTypeSpec(
        description=description, tags=tags, owners=["team:delta_ops"], **more
    )


def build_defs_at(context: dg.ComponentLoadContext, place: str) -> dg.Definitions:
    """Build the definitions of a file or folder below the folder of definitions."""
    if VERSION >= BUILD_DEFS:
        return context.build_defs(place)
    older: Any = context
    definitions: dg.Definitions = older.build_defs_at_path(Path(place))
    return definitions


def run_of_resource(context: dg.InitResourceContext) -> dg.DagsterRun | None:
    """The run that initializes a resource; None outside a run."""
    return context.run if VERSION >= RUN_OF_RESOURCES else context.dagster_run


def log_check_evaluation(context: dg.OpExecutionContext, evaluation: AssetCheckEvaluation) -> None:
    """Log the evaluation of an asset check in a run, after the events that the op has logged.

    Dagster before 1.11 stores only evaluations of checks that the run selected, so they are
    reported without a run there.
    """
    event: Any = evaluation  # the annotation of log_event omits this kind
    if VERSION >= EVALUATIONS:
        context.log_event(event)
    else:
        context.instance.report_runless_asset_event(event)


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
