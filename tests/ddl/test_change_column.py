"""Defaults, wider types and clustering columns: a metadata commit, and its effects."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.ddl import change_type, cluster_by, set_default, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.schema import LONG, StructField, StructType
from tests.support.tables import rows

WIDENING = {"delta.enableTypeWidening": "true"}


def field_of(snapshot: Snapshot, name: str) -> StructField:
    return next(each for each in snapshot.schema.fields if each.name == name)


def domain_of(log: DeltaLog) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        log.snapshot().domain_metadata()["delta.clustering"].configuration
    )
    return found


def test_new_rows_get_the_default_and_old_rows_keep_their_values(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "state": ["old"]}))
    assert set_default(tmp_path, "STATE", "'new'").version == 1
    da.write(tmp_path, pa.table({"id": [2]}))
    da.write(tmp_path, pa.table({"id": [3], "state": pa.array([None], pa.string())}))
    found = {row["id"]: row["state"] for row in rows(da.to_table(tmp_path))}
    assert found == {1: "old", 2: "new", 3: None}
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.definition.has("allowColumnDefaults")
    assert history(tmp_path, 1) == ["CHANGE COLUMN"]
    assert set_default(tmp_path, "state", "'new'").version is None
    assert set_default(tmp_path, "state", None).version == 4
    da.write(tmp_path, pa.table({"id": [4]}))
    assert {row["id"]: row["state"] for row in rows(da.to_table(tmp_path))}[4] is None


def history(root: Path, version: int) -> list[str | None]:
    return [each.operation for each in DeltaLog(root).history() if each.version == version]


@pytest.mark.parametrize(
    ("column", "default", "message"),
    [
        ("nope", "1", "no column nope"),
        ("s.x", "1", "only columns have defaults"),
        ("id", "'a'", "id"),
        ("id", "id + 1", "refers to the column id"),
        ("id", '"ID"', "may be read as a column.*write a string in single quotes"),
        ("id", 'length("s.x")', "may be read as a column"),
        ("id", "abs(-1)", "needs the Spark engine"),
        ("id", "1.5", "id"),
        ("n", "1", "is generated"),
    ],
)
def test_a_default_that_does_not_fit_is_refused(
    tmp_path: Path, column: str, default: str, message: str
) -> None:
    identity = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": True,
    }
    fields = (
        StructField("id", LONG),
        StructField("s", StructType((StructField("x", LONG),))),
        StructField("n", LONG, metadata=identity),
    )
    txn = begin(DeltaLog(tmp_path))
    txn.create_table(StructType(fields))
    txn.commit(operation="CREATE TABLE")
    with pytest.raises(InvalidRequestError, match=message):
        set_default(tmp_path, column, default)
    assert DeltaLog(tmp_path).snapshot().version == 0


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("mode", "by"), [("none", None), ("name", ["v"])], ids=["column", "mapped partition column"]
)
@pytest.mark.parametrize(
    ("argument", "wanted", "old", "new", "read"),
    [
        (pa.int8(), "smallint", 127, 300, 127),
        (pa.int16(), "bigint", -5, 2**40, -5),
        (pa.int32(), "double", 7, 0.5, 7.0),
        (pa.int32(), "decimal(12,2)", 7, Decimal("1.25"), Decimal("7.00")),
        (pa.int64(), "decimal(22,1)", 7, Decimal("0.5"), Decimal("7.0")),
        (pa.float32(), "double", 0.5, 1e300, 0.5),
        (pa.date32(), "timestamp_ntz", date(2026, 1, 31), datetime(2026, 2, 1, 5), None),
        (pa.decimal128(5, 2), "decimal(9,4)", Decimal("1.25"), Decimal("1.2345"), Decimal("1.25")),
    ],
)
def test_a_wider_type_is_read_from_old_files_and_written_to_new_files(
    tmp_path: Path, argument: Any, wanted: str, old: Any, new: Any, read: Any, mode: str, by: Any
) -> None:
    properties = {**WIDENING, "delta.columnMapping.mode": mode}
    first = pa.table({"id": [1], "v": pa.array([old], argument)})
    da.write(tmp_path, first, partition_by=by, configuration=properties)
    if by and argument == pa.float32():  # the text 0.1 is another number as a DOUBLE
        with pytest.raises(
            InvalidRequestError, match="v cannot change its type: the table is partition"
        ):
            change_type(tmp_path, "v", wanted)
        return
    assert change_type(tmp_path, "v", wanted).version == 1
    log = DeltaLog(tmp_path)
    data_type = log.snapshot().arrow_schema.field("v").type
    da.write(log, pa.table({"id": [2], "v": pa.array([new], data_type)}))
    create_checkpoint(log)
    found = {row["id"]: row["v"] for row in rows(da.to_table(DeltaLog(tmp_path)))}
    expected = datetime(2026, 1, 31) if read is None else read
    assert found == {1: expected, 2: new}
    kept = da.to_table(DeltaLog(tmp_path), predicate=col("v") == new)
    assert kept["id"].to_pylist() == [2]
    [change] = field_of(log.snapshot(), "v").metadata["delta.typeChanges"]
    assert set(change) == {"fromType", "toType"}
    assert log.snapshot().definition.has("typeWidening")
    da.delete(log, col("id") == 2)
    assert [row["v"] for row in rows(da.to_table(log))] == [expected]


def test_types_in_arrays_and_maps_are_widened(tmp_path: Path) -> None:
    inner = pa.list_(pa.struct([("x", pa.int16())]))
    types = {
        "l": pa.list_(pa.list_(pa.int8())),
        "s": pa.struct([("m", pa.map_(pa.int16(), inner))]),
    }
    first: dict[str, list[Any]] = {"l": [[[1]]], "s": [{"m": [(1, [{"x": 5}])]}]}
    data = {name: pa.array(first[name], types[name]) for name in types}
    da.write(tmp_path, pa.table(data), configuration=WIDENING)
    for column in ("l.element.element", "S.m.key", "s.m.value.element.x"):
        change_type(tmp_path, column, "int")
    change_type(tmp_path, "l.element.element", "bigint")
    with pytest.raises(InvalidRequestError, match=r"such as l\.element"):
        change_type(tmp_path, "l", "int")
    with pytest.raises(InvalidRequestError, match="is of type long and has no y"):
        change_type(tmp_path, "l.element.element.y", "int")
    snapshot = DeltaLog(tmp_path).snapshot()
    recorded = {name: field_of(snapshot, name).metadata.get("delta.typeChanges") for name in types}
    assert recorded["s"] is None  # the struct's field changed
    assert recorded["l"] == [
        {"fromType": "byte", "toType": "integer", "fieldPath": "element.element"},
        {"fromType": "integer", "toType": "long", "fieldPath": "element.element"},
    ]
    assert '{"fromType":"short","toType":"integer","fieldPath":"key"}' in (
        snapshot.metadata.schema_string
    )
    more: dict[str, list[Any]] = {"l": [[[2**40]]], "s": [{"m": [(2**20, [{"x": 2**20}])]}]}
    schema = snapshot.arrow_schema
    da.write(tmp_path, pa.table([pa.array(more[n], schema.field(n).type) for n in types], schema))
    assert rows(da.to_table(tmp_path)) == rows(
        pa.table([pa.array(first[n] + more[n], schema.field(n).type) for n in types], schema)
    )


def test_types_that_would_lose_values_or_break_a_rule_are_refused(tmp_path: Path) -> None:
    data = pa.table({"id": pa.array([1], pa.int32()), "s": ["a"], "l": [[1]]})
    properties = {**WIDENING, "delta.constraints.c": "id > 0"}
    da.write(tmp_path, data, configuration=properties)
    for column, wanted, reported in [
        ("id", "smallint", "cannot become short"),
        ("s", "int", "cannot become integer"),
        ("l", "array<double>", "nested"),
        ("id", "bigint", "the constraint c"),
        ("nope", "int", "no column nope"),
    ]:
        with pytest.raises(InvalidRequestError, match=reported):
            change_type(tmp_path, column, wanted)
    assert change_type(tmp_path, "id", "int").version is None
    set_properties(tmp_path, {"delta.enableTypeWidening": "false"})
    plain = tmp_path / "plain"
    da.write(plain, pa.table({"id": pa.array([1], pa.int32())}))
    with pytest.raises(InvalidRequestError, match=r"delta\.enableTypeWidening"):
        change_type(plain, "id", "bigint")
    assert DeltaLog(plain).snapshot().version == 0


@pytest.mark.parametrize("mode", ["none", "name"])
def test_new_files_of_a_clustered_table_have_statistics_of_its_columns(
    tmp_path: Path, mode: str
) -> None:
    properties = {"delta.dataSkippingNumIndexedCols": "0", "delta.columnMapping.mode": mode}
    data = pa.table({"id": [1], "s": [{"x": 2}], "v": ["c"]})
    da.write(tmp_path, data, configuration=properties)
    assert cluster_by(tmp_path, ["s.x", "V"]).version == 1
    log = DeltaLog(tmp_path)
    da.write(log, data)
    definition = log.snapshot().definition
    assert definition.has("clustering")
    assert definition.has("domainMetadata")
    paths = domain_of(log)["clusteringColumns"]
    assert len(paths[0]) == 2
    assert len(paths[1]) == 1
    stats = [json.loads(add.stats or "{}") for add in log.snapshot().add_files()]
    recorded = [each["minValues"] for each in stats if each.get("minValues")]
    assert len(recorded) == 1
    assert set(recorded[0]) == {paths[0][0], paths[1][0]}
    assert cluster_by(tmp_path, ["s.x", "v"]).version is None
    assert cluster_by(tmp_path, []).version == 3
    assert domain_of(log)["clusteringColumns"] == []
    entry = next(each for each in log.history() if each.version == 3)
    assert entry.operation_parameters == {
        "oldClusteringColumns": "s.x,v",
        "newClusteringColumns": "",
    }


def test_a_table_is_made_clustered_in_its_first_commit(tmp_path: Path) -> None:
    txn = begin(DeltaLog(tmp_path))
    txn.create_table(StructType((StructField("id", LONG), StructField("v", LONG))))
    txn.set_clustering([("v",)])
    txn.stage(da.stage_write(txn, pa.table({"id": [1], "v": [2]})))
    txn.commit(operation="CREATE TABLE AS SELECT")
    assert domain_of(DeltaLog(tmp_path))["clusteringColumns"] == [["v"]]


def test_clusterings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    data = pa.table({"id": [1], "b": [b"x"], "l": [[1]], "p": ["a"], "f": [True]})
    whole, partitioned = tmp_path / "whole", tmp_path / "partitioned"
    da.write(whole, data)
    da.write(partitioned, data, partition_by=["p"])
    for target, columns, reported in [
        (whole, ["nope"], "no column nope"),
        (whole, ["b"], "no statistics"),
        (whole, ["l"], "no statistics"),
        (whole, ["f"], "no statistics"),
        (whole, ["id", "ID"], "each named once"),
        (partitioned, ["id"], "either partitioned or clustered"),
    ]:
        with pytest.raises(InvalidRequestError, match=reported):
            cluster_by(target, columns)
        assert DeltaLog(target).snapshot().version == 0


def test_data_do_not_widen_a_float_partition_column(tmp_path: Path) -> None:
    first = pa.table({"id": [1], "v": pa.array([0.1], pa.float32())})
    da.write(tmp_path, first, partition_by=["v"], configuration=WIDENING)
    da.write(tmp_path, pa.table({"id": [2], "v": [0.5]}), merge_schema=True)
    found = da.to_table(tmp_path)
    assert found.schema.field("v").type == pa.float32()
    assert sorted(found["id"].to_pylist()) == [1, 2]
    with pytest.raises(InvalidRequestError, match="'v' is float in the table and double"):
        da.write(tmp_path, pa.table({"id": [3], "v": [0.1]}), merge_schema=True)
