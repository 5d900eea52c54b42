"""Refs at risk: expired branches, vacuums of other engines, and files that are gone."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, HOUR_MS, system_clock
from delta_ops.maintenance import clean_up_log, create_checkpoint, health, vacuum
from delta_ops.versioning import (
    create_branch,
    create_tag,
    delete_branch,
    open_branch,
    publish,
    verify_refs,
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Version 0 has the row 1, and version 1 only the row 2."""
    da.write(tmp_path / "t", rows(1))
    da.write(tmp_path / "t", rows(2), mode="overwrite")
    return DeltaLog(tmp_path / "t")


def risks(log: DeltaLog, *, days: float = 0) -> list[tuple[str, bool, tuple[int, ...]]]:
    """Refs at risk after some days."""
    report = health(log, clock=lambda: system_clock() + round(days * DAY_MS))
    return [(r.ref, r.has_expired, r.vacuums) for r in report.figures.refs_at_risk]


def finding(log: DeltaLog) -> Any:
    (found,) = [each for each in health(log).findings if each.measure == "refs_at_risk"]
    return found


def vacuum_by_deltalake(log: DeltaLog) -> None:
    """Delete all files that main lacks, however young, as a careless user does."""
    deltalake.DeltaTable(log.uri).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
    )


def test_a_table_without_refs_has_none_at_risk(log: DeltaLog) -> None:
    assert (risks(log), verify_refs(log), finding(log).verdict) == ([], [], "ok")


def test_refs_are_not_at_risk_after_our_vacuum(log: DeltaLog) -> None:
    create_tag(log, "first", version=0)
    da.write(_branch(log), rows(3))
    for number in (4, 5):
        da.write(log, rows(number), mode="overwrite")
    vacuum(log, retention=timedelta(0), enforce_retention=False, log_commits=True)
    assert "VACUUM END" in {each.operation for each in log.history()}
    assert risks(log) == []
    assert [(each.ref, each.is_readable) for each in verify_refs(log)] == [
        ("tag:first", True),
        ("branch:x", True),
    ]


def _branch(log: DeltaLog) -> DeltaLog:
    create_branch(log, "x")
    return open_branch(log, "x")


def test_the_vacuum_of_another_engine_is_a_risk_and_its_missing_files_are_named(
    log: DeltaLog,
) -> None:
    create_tag(log, "first", version=0)
    da.write(_branch(log), rows(3))
    (old,) = [add.path for add in log.snapshot(0).add_files()]
    (new,) = {add.path for add in log.snapshot(ref="branch:x").add_files()} - {
        add.path for add in log.snapshot().add_files()
    }
    vacuum_by_deltalake(log)
    missing = {each.ref: each.missing_files for each in verify_refs(log)}
    assert missing == {"tag:first": (old,), "branch:x": (new,)}
    assert risks(log) == [("tag:first", False, (2,)), ("branch:x", False, (2,))]
    assert finding(log).value == ("tag:first", "branch:x")
    assert "another engine has vacuumed the table (version 2)" in finding(log).advice


def test_a_tag_of_the_latest_version_is_safe_from_any_vacuum(log: DeltaLog) -> None:
    create_tag(log, "latest")
    vacuum_by_deltalake(log)
    assert verify_refs(log)[0].is_readable
    assert [each for each in risks(log) if 1 in each[2]] == []


def test_a_vacuum_before_a_ref_was_made_is_no_risk(log: DeltaLog) -> None:
    vacuum_by_deltalake(log)
    create_tag(log, "now")
    da.write(log, rows(5), mode="overwrite")
    assert risks(log) == []


def test_a_vacuum_that_keeps_young_files_is_no_risk(log: DeltaLog) -> None:
    create_tag(log, "first", version=0)
    info = {
        "timestamp": system_clock() + HOUR_MS,
        "operation": "VACUUM START",
        "engineInfo": "Apache-Spark/4.0 Delta-Lake/4.0",
        "operationParameters": {"specifiedRetentionMillis": str(7 * DAY_MS)},
    }
    path = Path(log.uri) / "_delta_log" / f"{2:020}.json"
    path.write_text(json.dumps({"commitInfo": info}))
    assert risks(log) == []


def test_a_branch_that_expired_is_at_risk(log: DeltaLog) -> None:
    create_branch(log, "x")
    assert risks(log, days=5.9) == []
    assert risks(log, days=6.1) == [("branch:x", True, ())]


def test_a_published_or_deleted_branch_is_not_at_risk(log: DeltaLog) -> None:
    da.write(_branch(log), rows(3))
    publish(log, "x")
    assert risks(log, days=7) == []
    delete_branch(log, "x")
    assert verify_refs(log) == []


def test_a_version_that_cannot_be_opened_is_named(log: DeltaLog) -> None:
    create_tag(log, "first", version=0)
    create_checkpoint(log)
    (Path(log.uri) / "_delta_log" / f"{0:020}.json").unlink()
    (verified,) = verify_refs(log)
    assert (verified.is_readable, verified.missing_files) == (False, ())
    assert "version 0" in str(verified.problem)


def test_nothing_is_read_of_the_history_without_refs(log: DeltaLog) -> None:
    clean_up_log(log)
    assert finding(log).verdict == "ok"
