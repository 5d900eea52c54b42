"""Unfinished runs: which tables have a queued or running maintenance run.

The sensor skips such tables to save work, and people see why. Correctness does not depend on it:
the log of a table decides between two concurrent runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from delta_ops.orchestration.policies.maintenance_config import ALL
from delta_ops.orchestration.tags import JOB_TAG, TABLE_TAG

_WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
_UNFINISHED = (*_WAITING, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)


def unfinished_runs(
    instance: dg.DagsterInstance,
    tables_by_job: Mapping[str, Iterable[str]],
    except_run_id: str = "",
    *,
    after: datetime | None = None,
) -> dict[str, dg.RunRecord]:
    """The oldest unfinished run of a maintenance job for each table, by the table's name.

    Args:
        tables_by_job: The tables that a job's runs maintain if their config names no tables.
        except_run_id: The id of a run that does not count.
        after: Older runs do not count unless they are queued. A run whose process died stays
            unfinished for ever if no daemon monitors runs.
    """
    query = dg.RunsFilter(statuses=list(_UNFINISHED))
    found: dict[str, dg.RunRecord] = {}
    for record in instance.get_run_records(query, ascending=True):
        run = record.dagster_run
        is_ours = JOB_TAG in run.tags or run.job_name in tables_by_job
        is_queued = run.status is dg.DagsterRunStatus.QUEUED
        if not is_queued and after is not None and record.create_timestamp < after:
            continue
        if is_ours and run.run_id != except_run_id:
            for name in _table_names(run) or tables_by_job.get(run.job_name, ()):
                found.setdefault(name, record)
    return found


def run_sentence(record: dg.RunRecord) -> str:
    """Describe the unfinished run of a table: it is queued, or it maintains the table."""
    run_id = record.dagster_run.run_id[:8]
    if record.dagster_run.status in _WAITING:
        since = _time_text(record.create_timestamp)
        return (
            f"waits for run {run_id}, in the queue since {since}; if no queued run starts, check "
            "that Dagster's daemon runs"
        )
    began = record.create_timestamp
    if record.start_time is not None:
        began = datetime.fromtimestamp(record.start_time, UTC)
    return f"is being maintained by run {run_id} since {_time_text(began)}"


def _table_names(run: dg.DagsterRun) -> list[str]:
    """The tables of a run by its tag or its config; empty if neither names tables."""
    if TABLE_TAG in run.tags:
        return [run.tags[TABLE_TAG]]
    ops: Any = run.run_config.get("ops") or {}
    configs = [op.get("config") or {} for op in ops.values() if isinstance(op, Mapping)]
    names = [[*(c.get("tables") or ()), *([c["table"]] if "table" in c else ())] for c in configs]
    found = [str(name) for each in names for name in each]
    return [] if ALL in found else found


def _time_text(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"
