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

    Any partition runs whose inputs changed, also one of long ago: add
    `& dg.AutomationCondition.in_latest_time_window()` for the latest alone.
    """
    has_new_version = dg.AutomationCondition.any_deps_match(
        dg.AutomationCondition.data_version_changed()
    ).with_label("any_deps_have_new_table_version")
    return (
        (has_new_version | dg.AutomationCondition.newly_missing()).since_last_handled()
        & ~dg.AutomationCondition.any_deps_missing()
        & ~dg.AutomationCondition.any_deps_in_progress()
        & ~dg.AutomationCondition.in_progress()
    ).with_label("on_new_table_version")
