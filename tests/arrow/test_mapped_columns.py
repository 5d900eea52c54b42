"""Tables with column mapping, written by the Arrow engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.maintenance import optimize, restore
from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.columns.ids import assign_column_ids
from delta_ops.protocol.schema import (
    LONG,
    ArrayType,
    DataType,
    StructField,
    StructType,
    schema_from_json,
    schema_to_json,
)
from delta_ops.protocol.schema.evolution import merge_schemas
from tests.support.tables import rows

MODE, MAX_ID = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
ID, NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"


def data(*ids: int, part: str = "a") -> pa.Table:
    nested = [{"x": i / 2, "inner": [{"z": i}]} for i in ids]
    pairs = pa.array([[("k", {"u": i})] for i in ids], pa.map_(pa.string(), _VALUE))
    return pa.table({"my id": ids, "part": [part] * len(ids), "s": nested, "pairs": pairs})


_VALUE = pa.struct([("u", pa.int64())])


def set_mode(root: Path, mode: str | None) -> None:
    transaction = begin(DeltaLog(root))
    transaction.set_properties({MODE: mode})
    transaction.commit(operation="SET TBLPROPERTIES")


def fields_of(data_type: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a schema in JSON by its dotted name."""
    match data_type:
        case {"type": "struct", "fields": fields}:
            for each in fields:
                yield f"{path}{each['name']}", each["metadata"]
                yield from fields_of(each["type"], f"{path}{each['name']}.")
        case {"type": "array", "elementType": element}:
            yield from fields_of(element, f"{path}element.")
        case {"type": "map", "valueType": value}:
            yield from fields_of(value, f"{path}value.")


def mapping(snapshot: Snapshot) -> dict[str, tuple[int, str]]:
    fields = fields_of(json.loads(snapshot.metadata.schema_string))
    return {path: (metadata[ID], metadata[NAME]) for path, metadata in fields}


def stored_ids(fields: Any) -> Iterator[tuple[str, int]]:
    """Every column of a Parquet file with its id."""
    for each in fields:
        number = (each.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            yield each.name, int(number)
        if pa.types.is_nested(each.type):
            yield from stored_ids([each.type.field(i) for i in range(each.type.num_fields)])


def parquet_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.parquet") if "_delta_log" not in str(path)]


@pytest.fixture(params=["name", "id"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    da.write(tmp_path, data(1, 2), partition_by=["part"], configuration={MODE: request.param})
    return tmp_path


def test_a_new_table_gets_ids_and_names_at_every_depth(table: Path) -> None:
    snapshot = DeltaLog(table).snapshot()
    found = mapping(snapshot)
    paths = ["my id", "part", "s", "s.x", "s.inner", "s.inner.element.z", "pairs", "pairs.value.u"]
    assert list(found) == paths
    assert [number for number, _ in found.values()] == list(range(1, 9))
    assert all(name.startswith("col-") for _, name in found.values())
    assert snapshot.metadata.configuration[MAX_ID] == "8"
    protocol = snapshot.protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (2, 7)
    assert protocol.writer_features == ("appendOnly", "invariants", "columnMapping")


def test_files_and_log_use_the_assigned_physical_names_and_ids(table: Path) -> None:
    found = mapping(DeltaLog(table).snapshot())
    (path,) = parquet_files(table)
    in_file = dict(stored_ids(pq.read_schema(path)))
    assert in_file == {name: number for key, (number, name) in found.items() if key != "part"}
    names = {key: name for key, (_, name) in found.items()}
    add = json.loads((table / "_delta_log" / f"{0:020}.json").read_text().splitlines()[-1])["add"]
    assert add["partitionValues"] == {names["part"]: "a"}
    stats = json.loads(add["stats"])
    assert stats["maxValues"] == {names["my id"]: 2, names["s"]: {names["s.x"]: 1.0}}
    assert add["path"].startswith(names["part"] + "=a/")


def test_rows_come_back_after_writes_of_every_kind(table: Path) -> None:
    da.write(table, data(3, 4, part="b"))
    da.write(table, data(1, 1), "overwrite", replace_where=col("my id") == 1)
    da.write(table, data(5, part="b"), "overwrite", partition_overwrite_mode="dynamic")
    da.write(table, data(6, part="b"))
    before = rows(da.to_table(table))
    assert sorted(each["my id"] for each in before) == [1, 1, 2, 5, 6]
    assert optimize(DeltaLog(table)).files_removed
    assert rows(da.to_table(table)) == before
    found = mapping(DeltaLog(table).snapshot())
    for path in parquet_files(table):
        assert {name for name, _ in stored_ids(pq.read_schema(path))} <= {
            name for _, name in found.values()
        }


def test_another_reader_finds_the_rows(tmp_path: Path) -> None:
    flat = pa.table({"my id": [1, 2], "part": ["a", "b"]})
    da.write(tmp_path, flat, partition_by=["part"], configuration={MODE: "name"})
    query = QueryBuilder().register("t", DeltaTable(str(tmp_path)))
    assert rows(pa.table(query.execute("SELECT * FROM t"))) == rows(flat)


def test_merged_columns_get_the_next_ids(table: Path) -> None:
    before = mapping(DeltaLog(table).snapshot())
    wider = pa.table({"my id": [3], "part": ["a"], "s": [{"y;": 1}], "new": [{"n": 1}]})
    da.write(table, wider, merge_schema=True)
    snapshot = DeltaLog(table).snapshot()
    after = mapping(snapshot)
    assert {path: after[path] for path in before} == before
    added = {path: number for path, (number, _) in after.items() if path not in before}
    assert added == {"s.y;": 9, "new": 10, "new.n": 11}
    assert snapshot.metadata.configuration[MAX_ID] == "11"
    assert da.to_table(table, predicate=col("my id") == 3)["new"].to_pylist() == [{"n": 1}]


def test_an_overwritten_schema_keeps_columns_of_the_same_name_and_type(table: Path) -> None:
    before = mapping(DeltaLog(table).snapshot())
    other = pa.table({"MY ID": [1], "part": ["a"], "s": [5]})
    da.write(table, other, "overwrite", overwrite_schema=True)
    snapshot = DeltaLog(table).snapshot()
    after = mapping(snapshot)
    assert (after["MY ID"], after["part"]) == (before["my id"], before["part"])
    assert after["s"][0] == 9
    assert after["s"][1] != before["s"][1]
    assert rows(da.to_table(table)) == rows(other)
    da.write(table, other, "overwrite", overwrite_schema=True)
    assert mapping(DeltaLog(table).snapshot()) == after


def test_a_table_that_becomes_mapped_keeps_its_files_and_names(tmp_path: Path) -> None:
    plain = data(1, 2).rename_columns(["id", "part", "s", "pairs"])
    da.write(tmp_path, plain, partition_by=["part"])
    set_mode(tmp_path, "name")
    snapshot = DeltaLog(tmp_path).snapshot()
    found = mapping(snapshot)
    assert all(path.endswith(name) for path, (_, name) in found.items())
    assert [number for number, _ in found.values()] == list(range(1, 9))
    assert snapshot.protocol.writer_features == ("appendOnly", "invariants", "columnMapping")
    da.write(tmp_path, plain.append_column("a b", pa.array([7, 8])), merge_schema=True)
    assert sorted(each["id"] for each in rows(da.to_table(tmp_path))) == [1, 1, 2, 2]
    assert mapping(DeltaLog(tmp_path).snapshot())["a b"][1].startswith("col-")


@pytest.mark.parametrize(
    ("first", "then"), [("none", "id"), ("name", "none"), ("name", None), ("id", "name")]
)
def test_no_other_change_of_the_mode_is_made(tmp_path: Path, first: str, then: str | None) -> None:
    da.write(tmp_path, pa.table({"id": [1]}), configuration={MODE: first})
    with pytest.raises(InvalidRequestError, match=r"cannot change from .* to"):
        set_mode(tmp_path, then)


def test_names_that_parquet_forbids_need_a_mapping(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"columnMapping\.mode"):
        da.write(tmp_path, pa.table({"a b": [1]}))


def test_statistics_are_of_the_columns_that_a_property_names(tmp_path: Path) -> None:
    names = {MODE: "name", "delta.dataSkippingStatsColumns": "s.x"}
    da.write(tmp_path, data(1, 2), configuration=names)
    snapshot = DeltaLog(tmp_path).snapshot()
    found = mapping(snapshot)
    (stats,) = snapshot.files(columns=("stats",))["stats"].to_pylist()
    assert json.loads(stats)["minValues"] == {found["s"][1]: {found["s.x"][1]: 0.5}}


def test_restored_rows_get_no_old_id(table: Path) -> None:
    da.write(table, pa.table({"my id": [3], "part": ["a"], "b": [1]}), merge_schema=True)
    assert restore(DeltaLog(table), version=0).version == 2
    assert sorted(da.to_table(table)["my id"].to_pylist()) == [1, 2]
    da.write(table, pa.table({"my id": [3], "part": ["a"], "c": [1]}), merge_schema=True)
    assert mapping(DeltaLog(table).snapshot())["c"][0] == 10


def test_writers_who_make_the_same_mapped_table_do_not_mix_their_files(tmp_path: Path) -> None:
    first, second = begin(DeltaLog(tmp_path)), begin(DeltaLog(tmp_path))
    da.write(first, pa.table({"id": [1]}), configuration={MODE: "name"})
    with pytest.raises(CommitConflictError):
        da.write(second, pa.table({"id": [2]}), configuration={MODE: "name"})
    assert da.to_table(tmp_path)["id"].to_pylist() == [1]


def test_rows_that_were_staged_for_another_column_of_the_name_are_refused(tmp_path: Path) -> None:
    plain = pa.table({"id": [1]})
    da.write(tmp_path, plain, configuration={MODE: "name"})
    staged = da.stage_write(tmp_path, plain)
    for other in (pa.table({"id": ["x"]}), plain):
        da.write(tmp_path, other, "overwrite", overwrite_schema=True)
    with pytest.raises(InvalidRequestError, match="write the rows again"):
        begin(DeltaLog(tmp_path)).stage(staged)


def test_a_name_that_a_renamed_column_leaves_is_free(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a": [1]}), configuration={MODE: "name"})
    transaction = begin(DeltaLog(tmp_path))
    (field,) = transaction.schema.fields
    schema = StructType((replace(field, name="b"), StructField("a", LONG)))
    metadata = replace(transaction.metadata, schema_string=schema_to_json(schema))
    transaction.set_metadata(metadata)
    transaction.commit(operation="CHANGE COLUMN")
    assert rows(da.to_table(tmp_path)) == [{"b": 1, "a": None}]
    assert mapping(DeltaLog(tmp_path).snapshot())["a"][0] == 2


_NAMES = st.sampled_from(["a", "b", "c", "d e"])


def structs_of(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    """Structs of one field or more, of these types."""
    return st.dictionaries(_NAMES, types, min_size=1).map(
        lambda fields: StructType(tuple(StructField(n, t) for n, t in fields.items()))
    )


def nested(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    """Types, and arrays and structs of them."""
    return st.one_of(types, types.map(ArrayType), structs_of(types))


_SCHEMAS = structs_of(nested(nested(st.just(LONG))))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["merge", "overwrite"]), _SCHEMAS), max_size=6))
def test_no_id_and_no_name_is_assigned_twice(changes: list[tuple[str, StructType]]) -> None:
    known: dict[object, tuple[str, str]] = {}
    table: Metadata | None = None
    for how, schema in changes:
        merged = schema
        if table is not None and how == "merge":
            merged = merge_schemas(schema_from_json(table.schema_string), schema)
        configuration = dict(table.configuration) if table else {MODE: "name"}
        made = Metadata(id="t", schema_string=schema_to_json(merged), configuration=configuration)
        table = assign_column_ids(made, table, "t")
        found = list(fields_of(json.loads(table.schema_string)))
        ids = [metadata[ID] for _, metadata in found]
        assert len(set(ids)) == len(ids)
        assert max(ids) <= int(table.configuration[MAX_ID])
        for path, metadata in found:
            for renamed in (metadata[ID], metadata[NAME]):
                assert known.setdefault(renamed, (path, metadata[NAME])) == (path, metadata[NAME])
