"""Automation: assets that run when the tables they are made of have other rows.

`dg.AutomationCondition.eager` runs on every materialization. A data version of ours changes with
the rows alone, so that compaction and vacuum, whoever does them, start nothing.
"""

from __future__ import annotations

from typing import Any

import dagster as dg


def on_new_table_version() -> dg.AutomationCondition[Any]:
    """The asset runs when the data version of one of its inputs has changed, or when a partition of
    it begins to be missing; not before all inputs are there, and not while one of them or the asset
    itself is being written.

    No version is passed over: one of the time of a run starts another run when it has ended, since
    the first may have read before it. A version starts none if its own run was asked for both
    assets; a schedule that runs a whole job does not ask for assets.

    Any partition runs whose inputs changed, also one of long ago: add
    `& dg.AutomationCondition.in_latest_time_window()` for the latest alone.
    """
    condition = dg.AutomationCondition
    has_new_version = condition.any_deps_match(
        condition.data_version_changed() & ~condition.executed_with_root_target()
    ).with_label("any_deps_have_new_table_version")
    # Dagster's own since_last_handled() forgets a version that is seen before or with the end of a
    # run, be it that the run has read an earlier one.
    is_handled = (condition.newly_requested() & ~has_new_version) | condition.initial_evaluation()
    return (
        (has_new_version.since(is_handled) | condition.newly_missing().since_last_handled())
        & ~condition.any_deps_missing()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("on_new_table_version")
