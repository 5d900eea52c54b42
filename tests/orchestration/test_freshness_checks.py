"""Checks of the time since rows changed, and Dagster's own policy beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.orchestration import TableRef, build_freshness_checks, external_table
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation

ROWS = pa.table({"x": [1, 2, 3]})
HOUR = timedelta(hours=1)
WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """One instance for all tests, because these checks have no state."""
    with dg.DagsterInstance.ephemeral() as real:
        yield real


def first_ms(place: Path) -> int:
    """Commit time of the first version of a table."""
    return list(DeltaLog(place).history())[-1].timestamp_ms


def look(
    place: Path, instance: dg.DagsterInstance, since_ms: int, after: timedelta
) -> AssetCheckEvaluation:
    """The check's evaluation this long after a given time."""
    ref = TableRef(asset_key=dg.AssetKey("t"), uri=str(place))
    now_ms = since_ms + after // timedelta(milliseconds=1)
    checks = build_freshness_checks(
        [ref], warn_after=6 * HOUR, fail_after=24 * HOUR, clock=lambda: now_ms
    )
    defs = dg.Definitions(assets=[external_table(ref)], asset_checks=checks)
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    (found,) = result.get_asset_check_evaluations()
    return found


@pytest.mark.parametrize(
    ("hours", "passed", "severity"),
    [
        pytest.param(1, True, WARN, id="fresh"),
        pytest.param(7, False, WARN, id="late"),
        pytest.param(25, False, ERROR, id="stale"),
    ],
)
def test_a_table_grows_late_and_then_stale(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    hours: int,
    passed: bool,
    severity: dg.AssetCheckSeverity,
) -> None:
    write_deltalake(tmp_path, ROWS)
    found = look(tmp_path, instance, first_ms(tmp_path), hours * HOUR)
    assert (found.passed, found.severity) == (passed, severity)
    if hours < 24:
        assert found.metadata["delta/hours_since_change"].value == hours
        assert found.metadata["delta/changed_in_version"].value == 0
    else:
        assert found.description == "no commit of the last 1 day, 0:00:00 changed rows"


def test_maintenance_does_not_make_a_table_fresh(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    for _ in range(2):
        da.write(tmp_path, ROWS)
    optimize(tmp_path)
    began_ms = first_ms(tmp_path)
    found = look(tmp_path, instance, began_ms, HOUR)
    assert (found.passed, found.metadata["delta/changed_in_version"].value) == (True, 1)
    later_ms = began_ms + 20 * 3_600_000
    newest = sorted((tmp_path / "_delta_log").glob("*.json"))[-1]
    os.utime(newest, (later_ms / 1000, later_ms / 1000))
    assert not look(tmp_path, instance, began_ms, 25 * HOUR).passed


def test_a_delete_is_a_change(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    da.write(tmp_path, ROWS)
    da.write(tmp_path, ROWS.slice(0, 0), mode="overwrite")
    found = look(tmp_path, instance, first_ms(tmp_path), HOUR)
    assert (found.passed, found.metadata["delta/changed_in_version"].value) == (True, 1)


def test_a_table_whose_commits_were_cleaned_up_is_stale(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path, ROWS)
    began_ms = first_ms(tmp_path)
    create_checkpoint(tmp_path)
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    found = look(tmp_path, instance, began_ms, HOUR)
    assert (found.passed, found.severity) == (False, ERROR)


def test_a_table_that_is_not_there_is_an_error(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found = look(tmp_path, instance, 0, HOUR)
    assert (found.passed, found.severity) == (False, ERROR)
    assert "not a Delta table" in str(found.description)


@pytest.mark.parametrize(
    ("warn_after", "fail_after"),
    [
        pytest.param(HOUR, HOUR, id="a warning that is no earlier"),
        pytest.param(None, timedelta(0), id="no time"),
        pytest.param(-HOUR, HOUR, id="a time before the change"),
    ],
)
def test_limits_that_can_never_be_stale_are_refused(
    warn_after: timedelta | None, fail_after: timedelta
) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be stale after"):
        build_freshness_checks([], fail_after=fail_after, warn_after=warn_after)
