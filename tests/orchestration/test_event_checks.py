"""Checks of the latest materialization beside the one before it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager, TableRef, build_event_checks

FOUR = pa.table({"x": [1, 2, 3, 4], "y": [1, 2, 3, 4]})


def evaluations(
    root: Path, instance: dg.DagsterInstance, *written: pa.Table
) -> dict[str, dg.AssetCheckEvaluation]:
    """What the checks come to after these outputs, one after the other."""
    outputs = list(written)

    @dg.asset(metadata={"delta/overwrite_schema": True})
    def orders() -> pa.Table:
        return outputs.pop(0)

    ref = TableRef(asset_key=dg.AssetKey("orders"), uri=str(root / "orders"))
    checks = build_event_checks([ref])
    defs = dg.Definitions(
        assets=[orders],
        asset_checks=checks,
        jobs=[
            dg.define_asset_job(
                "write", selection=dg.AssetSelection.assets(orders).without_checks()
            ),
            dg.define_asset_job("look", selection=dg.AssetSelection.checks(*checks)),
        ],
        resources={"io_manager": DeltaIOManager(root=str(root))},
    )
    for _ in written:
        assert defs.resolve_job_def("write").execute_in_process(instance=instance).success
    # Another writer's commit, as the sensor tells of it.
    instance.report_runless_asset_event(dg.AssetMaterialization("orders"))
    result = defs.resolve_job_def("look").execute_in_process(instance=instance)
    return {each.check_name: each for each in result.get_asset_check_evaluations()}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        pytest.param(FOUR, "", id="the same columns"),
        pytest.param(FOUR.select(["x"]), "removed y", id="a column less"),
        pytest.param(FOUR.append_column("z", FOUR["x"]), "added z", id="a column more"),
        pytest.param(
            FOUR.set_column(1, "y", FOUR["y"].cast(pa.string())),
            "changed y: int64 to string",
            id="another type",
        ),
    ],
)
def test_columns_that_changed_are_named(
    tmp_path: Path, instance: dg.DagsterInstance, second: pa.Table, says: str
) -> None:
    found = evaluations(tmp_path, instance, FOUR, second)["columns_are_unchanged"]
    assert found.passed is not bool(says)
    assert found.severity == dg.AssetCheckSeverity.WARN
    assert found.description == (says or "as before")


@pytest.mark.parametrize(
    ("rows", "passed"),
    [
        pytest.param(4, True, id="as many"),
        pytest.param(2, True, id="half"),
        pytest.param(1, False, id="less than half"),
        pytest.param(0, False, id="none"),
    ],
)
def test_rows_that_are_fewer_are_a_warning(
    tmp_path: Path, instance: dg.DagsterInstance, rows: int, passed: bool
) -> None:
    found = evaluations(tmp_path, instance, FOUR, FOUR.slice(0, rows))["rows_are_not_fewer"]
    assert (found.passed, found.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert found.metadata["delta/value"].value == rows
    assert found.metadata["delta/before"].value == 4
    assert found.metadata["delta/limit"].value == 2.0


@pytest.mark.parametrize(
    ("written", "says"),
    [
        pytest.param((), "no event tells of it yet", id="no event"),
        pytest.param((FOUR,), "there is one event to go by", id="one event"),
    ],
)
def test_without_two_events_nothing_is_compared(
    tmp_path: Path, instance: dg.DagsterInstance, written: tuple[pa.Table, ...], says: str
) -> None:
    found = evaluations(tmp_path, instance, *written)
    assert [(each.passed, each.description) for each in found.values()] == [(True, says)] * 2


def test_a_share_is_from_0_to_1() -> None:
    with pytest.raises(InvalidRequestError, match=r"from 0 to 1, not 1\.5"):
        build_event_checks([], fewer_rows=1.5)
