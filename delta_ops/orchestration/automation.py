"""Automation: assets that run when the rows of their input tables change.

`dg.AutomationCondition.eager` runs on every materialization. A delta_ops data version changes only
if rows change, so compaction and vacuum by any writer start no run.
"""

from __future__ import annotations

from typing import Any

import dagster as dg


def on_new_table_version() -> dg.AutomationCondition[Any]:
    """Run the asset when the data version of an input changes, or a partition becomes missing.

    The asset waits until all inputs exist, and until neither the asset nor an input is being
    written.

    No version is skipped: if an input changes during a run, another run starts after it, because
    the first run may have read an earlier version. A version starts no run if the run that wrote it
    was requested for both assets. A schedule that runs a whole job requests no assets.

    Every partition with a changed input runs, however old: add
    `& dg.AutomationCondition.in_latest_time_window()` to run only the latest partition.

    Examples:
        >>> @dg.asset(deps=["orders"], automation_condition=on_new_table_version())
        ... def report() -> None:
        ...     print(da.count_rows("lake/orders"))
    """
    condition = dg.AutomationCondition
    has_new_version = condition.any_deps_match(
        condition.data_version_changed() & ~condition.executed_with_root_target()
    ).with_label("any_deps_have_new_table_version")
    # Dagster's own since_last_handled() drops a version that appears before or at the end of a run,
    # even if the run has read an earlier version.
    is_handled = (condition.newly_requested() & ~has_new_version) | condition.initial_evaluation()
    return (
        (has_new_version.since(is_handled) | condition.newly_missing().since_last_handled())
        & ~condition.any_deps_missing()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("on_new_table_version")
