"""Edges of partitions: an hour that occurs twice, an empty range, contexts of unit tests."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.dagster_versions import VERSION
from delta_ops.orchestration.io_manager.partitions import partition_predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

HOURS = dg.HourlyPartitionsDefinition("2024-10-27-00:00", timezone="Europe/Berlin")
FIRST, SECOND = "2024-10-27-02:00", "2024-10-27-02:00+0100"
LOCAL = pa.timestamp("us")


def rows_of(data_type: pa.DataType, *keys: str) -> str:
    schema = schema_from_arrow(pa.schema([("at", data_type)]))
    return predicate_text(partition_predicate("at", schema, HOURS, keys))


def test_an_hour_that_occurs_twice_is_two_partitions_of_instants() -> None:
    instants = pa.timestamp("us", "UTC")
    assert "00:00:00" in rows_of(instants, FIRST)
    assert "01:00:00" in rows_of(instants, FIRST)
    assert "01:00:00" in rows_of(instants, SECOND)
    assert "02:00:00" in rows_of(instants, SECOND)


def test_an_hour_that_occurs_twice_has_two_texts() -> None:
    assert f"'{FIRST}'" in rows_of(pa.string(), FIRST)
    assert f"'{SECOND}'" in rows_of(pa.string(), SECOND)


@pytest.mark.parametrize("key", [FIRST, SECOND])
def test_local_times_cannot_distinguish_the_hours(key: str) -> None:
    with pytest.raises(InvalidRequestError, match="partitions of both hours in one run, or use a"):
        rows_of(LOCAL, key)


def test_local_times_have_both_hours_together_and_every_other_hour() -> None:
    both = rows_of(LOCAL, FIRST, SECOND)
    assert "02:00:00" in both
    assert "03:00:00" in both
    assert rows_of(LOCAL, "2024-10-27-01:00") != rows_of(LOCAL, "2024-10-27-03:00")


def test_a_run_writes_both_hours_at_once(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset(partitions_def=HOURS, metadata={"partition_expr": "at"})
    def readings() -> pa.Table:
        return pa.table({"at": pa.array([1_729_996_200_000_000], LOCAL)})

    tags = {
        "dagster/asset_partition_range_start": FIRST,
        "dagster/asset_partition_range_end": SECOND,
    }
    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    dg.materialize([readings], resources=resources, instance=instance, tags=tags)
    assert da.count_rows(tmp_path / "readings") == 1


GRID = dg.MultiPartitionsDefinition(
    {
        "x": dg.StaticPartitionsDefinition(["1", "2"]),
        "y": dg.DailyPartitionsDefinition("2026-01-01"),
    }
)


@pytest.mark.parametrize(
    ("partitions", "expression", "start", "end"),
    [
        (dg.DailyPartitionsDefinition("2026-01-01"), "day", "2026-01-05", "2026-01-02"),
        (GRID, {"x": "day", "y": "day"}, "2|2026-01-05", "1|2026-01-03"),
    ],
    ids=["days", "two dimensions"],
)
def test_an_empty_range_of_partitions_is_one_sentence(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    partitions: dg.PartitionsDefinition[Any],
    expression: Any,
    start: str,
    end: str,
) -> None:
    @dg.asset(partitions_def=partitions, metadata={"partition_expr": expression})
    def days() -> pa.Table:
        return pa.table({"day": ["x"]})

    tags = {
        "dagster/asset_partition_range_start": start,
        "dagster/asset_partition_range_end": end,
    }
    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    with pytest.raises(InvalidRequestError, match="has no partition of asset days; start a run"):
        dg.materialize([days], resources=resources, instance=instance, tags=tags)


@pytest.mark.skipif(VERSION < (1, 12, 22), reason="this Dagster builds no context with partitions")
def test_a_context_with_a_partition_needs_its_definition(tmp_path: Path) -> None:
    context = dg.build_output_context(
        asset_key="t", partition_key="a", definition_metadata={"partition_expr": "day"}
    )
    with pytest.raises(InvalidRequestError, match="give both to build_output_context"):
        DeltaIOManager(root=str(tmp_path)).handle_output(context, pa.table({"day": ["a"]}))


@pytest.mark.parametrize(
    "key",
    [
        None,
        pytest.param(
            "a",
            marks=pytest.mark.skipif(
                VERSION < (1, 12, 22), reason="this Dagster builds no context with partitions"
            ),
        ),
    ],
)
def test_a_context_of_an_input_takes_the_asset_of_its_upstream(
    tmp_path: Path, key: str | None
) -> None:
    partitions: dict[str, Any] = {}
    if key is not None:
        partitions = {
            "partition_key": key,
            "asset_partitions_def": dg.StaticPartitionsDefinition(["a", "b"]),
        }
    metadata = {} if key is None else {"partition_expr": "day"}
    output = dg.build_output_context(asset_key="t", definition_metadata=metadata, **partitions)
    manager, rows = DeltaIOManager(root=str(tmp_path)), pa.table({"day": ["a"]})
    manager.handle_output(output, rows)
    da.write(tmp_path / "t", pa.table({"day": ["b"]}), mode="append")
    found = manager.load_input(
        dg.build_input_context(
            upstream_output=output, dagster_type=dg.PythonObjectDagsterType(pa.Table)
        )
    )
    assert sorted(found["day"].to_pylist()) == (["a", "b"] if key is None else ["a"])
