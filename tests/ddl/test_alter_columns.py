"""Column changes: a commit without files, and the same rows for every reader."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.ddl import (
    NewColumn,
    add_columns,
    drop_columns,
    drop_not_null,
    rename_column,
    rename_table,
    reorder_columns,
    set_comment,
    set_properties,
    set_table_comment,
)
from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    TableNotFoundError,
)
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import CommitInfo, Protocol
from delta_ops.protocol.schema import LONG, STRING, StructType, schema_to_json
from tests.support.tables import rows, rows_by_deltalake

NESTED = pa.struct([("x", pa.int64()), ("y", pa.string())])


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    data = pa.table(
        {
            "id": pa.array([1], pa.int64()),
            "s": pa.array([{"x": 2, "y": "b"}], NESTED),
            "l": pa.array([[{"x": 3, "y": "c"}]], pa.list_(NESTED)),
            "p": ["a"],
        }
    )
    da.write(tmp_path, data, partition_by=["p"])
    return DeltaLog(tmp_path)


def names(log: DeltaLog) -> list[str]:
    return [field.name for field in log.snapshot().schema.fields]


def parameters(log: DeltaLog) -> tuple[str | None, dict[str, Any]]:
    entry = next(log.history())
    reported = dict(entry.operation_parameters or {})
    return entry.operation, {
        k: json.loads(v) if isinstance(v, str) and v[0] in "[{" else v for k, v in reported.items()
    }


def same_rows(log: DeltaLog) -> list[dict[str, Any]]:
    """Our rows, checked against the rows that deltalake reads."""
    ours: list[dict[str, Any]] = da.to_table(log).to_pylist()
    found = QueryBuilder().register("t", DeltaTable(log.uri)).execute("SELECT * FROM t")
    assert pa.table(found).to_pylist() == ours
    return ours


def test_columns_are_added_last_first_and_after_another(log: DeltaLog) -> None:
    result = add_columns(
        log,
        [
            NewColumn(name="last", data_type="decimal(10,2)", comment="the last one"),
            NewColumn(name="first", data_type=LONG, first=True),
            NewColumn(name="mid", data_type=pa.list_(pa.date32()), after="ID"),
        ],
    )
    assert result.version == 1
    assert names(log) == ["first", "id", "mid", "s", "l", "p", "last"]
    (row,) = same_rows(log)
    assert (row["id"], row["first"], row["mid"], row["last"]) == (1, None, None, None)
    operation, reported = parameters(log)
    assert operation == "ADD COLUMNS"
    assert reported["columns"] == [
        {
            "column": {
                "name": "last",
                "type": "decimal(10,2)",
                "nullable": True,
                "metadata": {"comment": "the last one"},
            }
        },
        {
            "column": {"name": "first", "type": "long", "nullable": True, "metadata": {}},
            "position": "FIRST",
        },
        {
            "column": {"name": "mid", "type": "array", "nullable": True, "metadata": {}},
            "position": "AFTER ID",
        },
    ]
    da.write(log, pa.table({"id": [2], "first": [7], "p": ["b"]}))
    assert sorted(row["first"] or 0 for row in rows(da.to_table(log))) == [0, 7]


def test_fields_are_added_to_structs_at_any_depth(log: DeltaLog) -> None:
    add_columns(
        log,
        [
            NewColumn(name="s.z", data_type="int", first=True),
            NewColumn(name="L.element.z", data_type="struct<a: int, `b`: string>"),
        ],
    )
    (row,) = da.to_table(log).to_pylist()
    assert row["s"] == {"z": None, "x": 2, "y": "b"}
    assert row["l"] == [{"x": 3, "y": "c", "z": None}]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        pytest.param(NewColumn(name="ID", data_type="int"), "there is a column id", id="by case"),
        pytest.param(NewColumn(name="s.X", data_type="int"), r"a column s\.x", id="nested"),
        pytest.param(NewColumn(name="a b", data_type="int"), "forbid", id="a character"),
        pytest.param(NewColumn(name="q.z", data_type="int"), "no column q", id="no struct"),
        pytest.param(NewColumn(name="id.z", data_type="int"), "no fields", id="a number"),
        pytest.param(NewColumn(name="l.z", data_type="int"), "no fields", id="an array"),
        pytest.param(NewColumn(name="z", data_type="intt"), "not a column type", id="no type"),
        pytest.param(NewColumn(name="z", data_type="int", after="q"), "no column q", id="no place"),
        pytest.param(
            NewColumn(name="z", data_type="int", after="id", first=True), "choose one", id="two"
        ),
        pytest.param(NewColumn(name="z..y", data_type="int"), "not a column name", id="no name"),
        pytest.param(
            NewColumn(name="z", data_type="timestamp_ntz"),
            "choose another type, or add the feature timestampNtz first, by ddl.add_feature$",
            id="feature",
        ),
    ],
)
def test_a_column_that_cannot_be_made_is_refused(
    log: DeltaLog, column: NewColumn, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        add_columns(log, [column])
    assert log.snapshot().version == 0


def test_a_column_is_described(log: DeltaLog) -> None:
    assert set_comment(log, "S.x", "a number").version == 1
    assert parameters(log) == (
        "CHANGE COLUMN",
        {
            "column": {
                "name": "s.x",
                "type": "long",
                "nullable": True,
                "metadata": {"comment": "a number"},
            }
        },
    )
    assert set_comment(log, "s.x", "a number").version is None
    assert set_comment(log, "s.x", None).version == 2
    assert log.snapshot().metadata.schema_string == log.snapshot(0).metadata.schema_string
    same_rows(log)


def test_columns_are_reordered(log: DeltaLog) -> None:
    assert reorder_columns(log, ["p", "L"]).version == 1
    assert names(log) == ["p", "l", "id", "s"]
    assert reorder_columns(log, ["y"], struct="s").version == 2
    (row,) = same_rows(log)
    assert row == {"p": "a", "l": [{"x": 3, "y": "c"}], "id": 1, "s": {"y": "b", "x": 2}}
    assert reorder_columns(log, ["p", "l"]).version is None
    assert parameters(log)[0] == "REPLACE COLUMNS"
    with pytest.raises(InvalidRequestError, match="twice"):
        reorder_columns(log, ["p", "P"])


def test_a_column_may_be_null_from_then_on(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    da.write(tmp_path, pa.table({"id": [1]}, schema=schema))
    nothing = pa.table({"id": pa.array([None], pa.int64())})
    with pytest.raises(InvalidRequestError, match="NOT NULL"):
        da.write(tmp_path, nothing)
    assert drop_not_null(tmp_path, "id").version == 1
    assert drop_not_null(tmp_path, "id").version is None
    da.write(tmp_path, nothing)
    assert len(rows_by_deltalake(tmp_path)) == 2


def test_the_table_is_named_and_described(log: DeltaLog) -> None:
    assert rename_table(log, "orders").version == 1
    assert parameters(log) == ("UPDATE TABLE METADATA", {"metadataUpdate": {"name": "orders"}})
    assert set_table_comment(log, "all of them").version == 2
    assert parameters(log) == ("SET TBLPROPERTIES", {"properties": {"comment": "all of them"}})
    found = log.snapshot().metadata
    assert (found.name, found.description) == ("orders", "all of them")
    assert rename_table(log, "orders").version is None
    assert set_table_comment(log, "all of them").version is None
    same_rows(log)


def test_a_change_carries_the_words_of_its_caller(log: DeltaLog) -> None:
    add_columns(log, [NewColumn(name="z", data_type="int")], user_metadata="for z")
    assert next(log.history()).user_metadata == "for z"


def test_a_dry_run_commits_nothing_and_refuses_what_would_be_refused(log: DeltaLog) -> None:
    assert add_columns(log, [NewColumn(name="z", data_type="int")], dry_run=True).version is None
    with pytest.raises(InvalidRequestError, match="already"):
        add_columns(log, [NewColumn(name="id", data_type="int")], dry_run=True)
    assert log.snapshot().version == 0


def test_no_table_is_made(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        rename_table(tmp_path / "none", "a")
    assert not (tmp_path / "none").exists()


def test_one_of_two_concurrent_changes_is_refused(log: DeltaLog) -> None:
    behind = begin(log)
    add_columns(log, [NewColumn(name="z", data_type="int")])
    behind.set_metadata(replace(behind.metadata, name="late"))
    with pytest.raises(CommitConflictError):
        behind.commit(operation="UPDATE TABLE METADATA")


def test_an_append_that_was_prepared_before_is_refused_and_one_after_goes_on(log: DeltaLog) -> None:
    behind = begin(log)
    reorder_columns(log, ["p"])
    more = pa.table({"id": [2], "p": ["b"]})
    with pytest.raises(CommitConflictError):
        da.write(behind, more)
    da.write(log, more)


@pytest.fixture(params=["name", "id"])
def mapped(log: DeltaLog, request: pytest.FixtureRequest) -> DeltaLog:
    """The table, mapped after its files were written: their column names are the physical names."""
    mode: Literal["name", "id"] = request.param
    snapshot = log.snapshot()
    schema, last = _map_by_own_names(snapshot.schema)
    metadata = replace(
        snapshot.metadata,
        schema_string=schema_to_json(schema),
        configuration={
            "delta.columnMapping.mode": "name" if mode == "name" else "id",
            "delta.columnMapping.maxColumnId": str(last),
        },
    )
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("columnMapping",),
        writer_features=("columnMapping", "checkConstraints"),
    )
    create_commit(log.storage, log.log_directory, 1, [CommitInfo(values={}), protocol, metadata])
    return log


def _map_by_own_names(schema: Any) -> tuple[Any, int]:
    from delta_ops.protocol.schema import map_structs

    number = 0

    def give(struct: StructType) -> StructType:
        nonlocal number
        fields = []
        for each in struct.fields:
            number += 1
            names = {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": each.name,
            }
            fields.append(replace(each, metadata=names))
        return StructType(tuple(fields))

    return map_structs(schema, give), number


def by_name_only(log: DeltaLog) -> bool:
    """Whether the files are readable: they have no field ids."""
    return log.snapshot().definition.mapping_mode == "name"


def test_a_column_is_renamed_and_its_values_stay(mapped: DeltaLog) -> None:
    assert rename_column(mapped, "ID", "key").version == 2
    assert parameters(mapped) == (
        "RENAME COLUMN",
        {"oldColumnPath": "id", "newColumnPath": "key"},
    )
    rename_column(mapped, "s.x", "w")
    rename_column(mapped, "l.element.y", "v")
    rename_column(mapped, "p", "part")
    assert parameters(mapped)[1] == {"oldColumnPath": "p", "newColumnPath": "part"}
    assert names(mapped) == ["key", "s", "l", "part"]
    assert mapped.snapshot().partition_columns == ("part",)
    assert rename_column(mapped, "key", "key").version is None
    if by_name_only(mapped):
        assert same_rows(mapped) == [
            {"key": 1, "s": {"w": 2, "y": "b"}, "l": [{"x": 3, "v": "c"}], "part": "a"}
        ]


def test_a_column_is_dropped_and_one_of_its_name_is_another(mapped: DeltaLog) -> None:
    assert drop_columns(mapped, ["id", "s.y"]).version == 2
    assert parameters(mapped) == ("DROP COLUMNS", {"columns": ["id", "s.y"]})
    add_columns(mapped, [NewColumn(name="id", data_type="string")])
    snapshot = mapped.snapshot()
    new = snapshot.schema.fields[-1]
    assert new.data_type == STRING
    assert new.metadata["delta.columnMapping.id"] == 9
    assert new.metadata["delta.columnMapping.physicalName"].startswith("col-")
    assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "9"
    if by_name_only(mapped):
        assert same_rows(mapped) == [
            {"s": {"x": 2}, "l": [{"x": 3, "y": "c"}], "p": "a", "id": None}
        ]


def test_every_field_of_a_new_column_gets_an_id(mapped: DeltaLog) -> None:
    add_columns(mapped, [NewColumn(name="n", data_type="array<struct<a: int, b: int>>")])
    field = mapped.snapshot().schema.fields[-1]
    inner = field.data_type.element_type.fields  # type: ignore[union-attr]
    ids = [each.metadata["delta.columnMapping.id"] for each in (*inner, field)]
    assert sorted(ids) == [9, 10, 11]
    assert mapped.snapshot().metadata.configuration["delta.columnMapping.maxColumnId"] == "11"


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        pytest.param("p", "partitioning", id="partitioned by"),
        pytest.param("s.x", "constraint small", id="in a constraint"),
        pytest.param("s", "constraint small", id="with a field in a constraint"),
        pytest.param("id", "constraint odd", id="in a condition that only Spark reads"),
        pytest.param("q", "no column q", id="not there"),
    ],
)
def test_a_column_in_use_is_not_dropped(mapped: DeltaLog, column: str, reason: str) -> None:
    txn = begin(mapped)
    constraints = {
        "delta.constraints.small": "s.x < 10",
        "delta.constraints.odd": "abs(ID) % 2 = 1",
    }
    configuration = {**txn.metadata.configuration, **constraints}
    txn.set_metadata(replace(txn.metadata, configuration=configuration))
    txn.commit(operation="SET TBLPROPERTIES")
    with pytest.raises(InvalidRequestError, match=reason):
        drop_columns(mapped, [column])
    if "constraint" in reason:
        with pytest.raises(InvalidRequestError, match=reason):
            rename_column(mapped, column, "other")
    assert drop_columns(mapped, ["s.y"]).version == 3


def test_columns_with_statistics_are_listed_under_their_new_names(mapped: DeltaLog) -> None:
    set_properties(mapped, {"delta.dataSkippingStatsColumns": "id,s.x,s.y"})
    rename_column(mapped, "s", "t")
    drop_columns(mapped, ["t.y"])
    found = mapped.snapshot().metadata.configuration["delta.dataSkippingStatsColumns"]
    assert found == "id,t.x"


def test_the_last_column_stays(mapped: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="only one"):
        drop_columns(mapped, ["s.x", "s.y"])
    with pytest.raises(InvalidRequestError, match="only partition columns"):
        drop_columns(mapped, ["id", "s", "l"])
    with pytest.raises(InvalidRequestError, match="twice"):
        rename_column(mapped, "id", "P")


@pytest.mark.parametrize("drop", [True, False], ids=["drop", "rename"])
def test_without_column_mapping_it_is_said_what_to_switch_on(log: DeltaLog, drop: bool) -> None:
    with pytest.raises(InvalidRequestError, match=r"delta\.columnMapping\.mode = name"):
        drop_columns(log, ["id"]) if drop else rename_column(log, "id", "key")


def test_a_new_field_gets_ids_after_the_last_one(mapped: DeltaLog) -> None:
    key = "delta.columnMapping.maxColumnId"
    last = int(mapped.snapshot().metadata.configuration[key])
    add_columns(mapped, [NewColumn(name="a", data_type="struct<b: int>")])
    snapshot = mapped.snapshot()
    field = snapshot.schema.fields[-1]
    assert isinstance(field.data_type, StructType)
    ids = [each.metadata["delta.columnMapping.id"] for each in (field, *field.data_type.fields)]
    assert sorted(ids) == [last + 1, last + 2]
    assert snapshot.metadata.configuration[key] == str(last + 2)
    (reported,) = parameters(mapped)[1]["columns"]
    assert reported["column"]["metadata"] == field.metadata


@pytest.mark.parametrize("name", ["a b", "`a b`", "v.w", "`v.w`", "`s`.`x y`", "s.x y", "s.`c.d`"])
def test_names_are_in_backticks_wherever_columns_are_named(tmp_path: Path, name: str) -> None:
    rows = pa.table({"id": [1], "a b": [2], "v.w": [3], "s": [{"x y": 1, "c.d": 2}]})
    da.write(tmp_path, rows, configuration={"delta.columnMapping.mode": "name"})
    assert da.to_table(tmp_path, [name]).num_columns == 1
    if name.startswith(("s.", "`s`")):
        return
    reorder_columns(tmp_path, [name])
    plain = name.strip("`")
    assert da.to_table(tmp_path).column_names[0] == plain
    add_columns(tmp_path, [NewColumn(name="late", data_type="int", after=name)])
    assert da.to_table(tmp_path).column_names[:2] == [plain, "late"]
    info = next(DeltaLog(tmp_path).history()).commit_info
    assert f"AFTER `{plain}`" in str(info["operationParameters"])


def test_a_column_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="has no name"):
        da.write(tmp_path, pa.table({"": [1]}), configuration={"delta.columnMapping.mode": "name"})


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_name_with_nul_is_refused_which_other_engines_cannot_read(
    tmp_path: Path, mode: str
) -> None:
    rows = pa.table({"a": [1], "s": [{"b\0c": 1}]})
    with pytest.raises(InvalidRequestError, match=r"column 'b\\x00c' has the character NUL"):
        da.write(tmp_path, rows, configuration={"delta.columnMapping.mode": mode})
