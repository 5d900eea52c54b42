"""What we use of Dagster that it does not call public, in one place.

A test runs each of these against the installed Dagster, so that a new version that changes one of
them fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg


def set_data_version(context: dg.OutputContext, version: str) -> None:
    """Give the materialization of this output a data version of ours."""
    context.step_context.set_data_version(context.asset_key, dg.DataVersion(version))


def input_data_version(context: dg.InputContext) -> str | None:
    """The upstream's data version that Dagster records as this step's provenance."""
    if not _has_step(context):
        return None
    info = context.step_context.maybe_fetch_and_get_input_asset_version_info(context.asset_key)
    version = info.data_version if info is not None else None
    return version.value if version is not None else None


def record_read(context: dg.InputContext, name: str, version: int) -> None:
    """Note on the assets that this step materialises which version of an input it read."""
    if not _has_step(context):
        return
    step = context.step_context
    for key in step.get_output_asset_keys():
        step.add_asset_metadata({name: version}, asset_key=key)


def dagster_run(context: dg.OutputContext) -> dg.DagsterRun | None:
    """The run that writes this output; None outside of a run."""
    return context.step_context.dagster_run if _has_step(context) else None


def dagster_instance(context: dg.OutputContext) -> dg.DagsterInstance:
    """The instance of the run that writes this output."""
    return context.step_context.instance


def asset_events_of_run(instance: dg.DagsterInstance, run_id: str) -> Sequence[dg.EventLogEntry]:
    """Materializations and observations that a run has logged, oldest first."""
    kinds = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}
    return instance.all_logs(run_id, of_type=kinds)


def _has_step(context: Any) -> bool:
    try:
        return context.step_context is not None
    except dg.DagsterInvariantViolationError:
        return False
