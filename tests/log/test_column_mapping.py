"""Files of a mapped table: stored with physical names, read with logical names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delta_ops import DeltaLog, Snapshot, col
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    StructField,
    StructType,
    schema_to_json,
)
from tests.support.tables import SHARED, add, needs_shared

GOLDEN = SHARED / "data" / "tables" / "golden"


def named(physical: str, field: StructField) -> StructField:
    return StructField(
        field.name, field.data_type, metadata={"delta.columnMapping.physicalName": physical}
    )


INNER = StructType((named("c3", StructField("x", LONG)),))
SCHEMA = StructType(
    (
        named("c0", StructField("day", STRING)),
        named("c1", StructField("id", LONG)),
        named("c2", StructField("s", INNER)),
        # A logical name that is another column's physical name.
        named("c4", StructField("c1", LONG)),
    )
)


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Two days of two files; id and c1 ascend, s.x descends."""
    files = []
    for i in range(4):
        bounds = {"c1": i * 10, "c2": {"c3": -i}, "c4": 100 + i}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds}
        values: dict[str, str | None] = {"c0": "monday" if i < 2 else "tuesday"}
        files.append(add(f"{i}", partition_values=values, stats=json.dumps(stats)))
    metadata = Metadata(
        id="x",
        schema_string=schema_to_json(SCHEMA),
        partition_columns=("day",),
        configuration={"delta.columnMapping.mode": "name"},
    )
    log = DeltaLog(tmp_path)
    protocol = Protocol(min_reader_version=2, min_writer_version=5)
    create_commit(log.storage, log.log_directory, 0, [protocol, metadata, *files])
    return log.snapshot()


def test_partition_values_have_logical_names(snapshot: Snapshot) -> None:
    assert snapshot.partition_columns == ("day",)
    days = snapshot.files(["partition_values"])["partition_values"].to_pylist()
    assert days == [{"day": "monday"}] * 2 + [{"day": "tuesday"}] * 2


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        pytest.param(col("day") == "tuesday", {"2", "3"}, id="a partition column"),
        pytest.param(col("ID") == 10, {"1"}, id="a column"),
        pytest.param(col("s", "x") <= -2, {"2", "3"}, id="a field of a struct"),
        pytest.param(col("c1") == 101, {"1"}, id="a name that is another's physical one"),
        pytest.param((col("day") == "monday") & (col("id") > 5), {"1"}, id="both"),
        pytest.param(~(col("id") < 25) | (col("day") == "no day"), {"3"}, id="not and or"),
    ],
)
def test_predicates_go_by_logical_names(
    snapshot: Snapshot, predicate: Predicate, found: set[str]
) -> None:
    assert set(snapshot.files(["path"], predicate)["path"].to_pylist()) == found


@needs_shared
def test_tables_of_the_reference_are_pruned() -> None:
    name = "data-skipping-basic-stats-all-types-columnmapping-id"
    snapshot = DeltaLog(GOLDEN / name / "delta").snapshot()
    assert len(snapshot.files(["path"], col("as_int") == 0)) == 1
    for predicate in (
        col("as_int") == 1,
        col("as_string") > "0",
        col("as_date") < "2000-01-01",
        col("as_big_decimal") == 1,
    ):
        assert len(snapshot.files(["path"], predicate)) == 0
