"""The rules of rows, derived from a schema, and the rules of actions."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import begin
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddFile, DeletionVector, Protocol, RemoveFile
from delta_ops.protocol.row_rules import NotNull, not_null_rules
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.changes import tombstone
from delta_ops.transaction.write_rules import (
    num_rows,
    validate_actions,
    validate_footer,
)
from tests.support.tables import (
    PROTOCOL,
    add,
    define,
    live_paths,
    metadata,
    remove,
    stage_files,
    write_log,
)

DEFINITION = TableDefinition(protocol=PROTOCOL, metadata=metadata())
_X = StructType((StructField("x", LONG, nullable=False), StructField("y", LONG)))


@pytest.mark.parametrize(
    ("data_type", "rules"),
    [
        pytest.param(LONG, set(), id="a number"),
        pytest.param(_X, {"a.x"}, id="a field"),
        pytest.param(ArrayType(LONG), set(), id="elements that may be null"),
        pytest.param(ArrayType(LONG, False), {"a.element"}, id="elements"),
        pytest.param(ArrayType(_X), {"a.element.x"}, id="a field of elements"),
        pytest.param(
            ArrayType(ArrayType(LONG, False), False),
            {"a.element", "a.element.element"},
            id="elements of elements",
        ),
        pytest.param(MapType(STRING, LONG), set(), id="values that may be null"),
        pytest.param(MapType(STRING, LONG, False), {"a.value"}, id="values"),
        pytest.param(MapType(_X, _X), {"a.key.x", "a.value.x"}, id="fields of keys and values"),
    ],
)
def test_nulls_in_not_null_fields_are_found_at_every_depth(
    data_type: DataType, rules: set[str]
) -> None:
    schema = StructType((StructField("a", data_type),))
    assert set(not_null_rules(schema)) == set(map(NotNull, rules))


def test_a_column_that_must_not_be_null_is_a_rule() -> None:
    schema = StructType((StructField("a", LONG, nullable=False),))
    assert not_null_rules(schema) == (NotNull("a"),)


@pytest.mark.parametrize(
    ("adds", "message"),
    [
        pytest.param([add("a"), add("a")], "in the commit twice", id="a file twice"),
        pytest.param([add("a b"), add("a%20b")], "in the commit twice", id="spelt in two ways"),
        pytest.param([add("old")], "in the commit twice", id="added and removed"),
        pytest.param([add("../a")], "outside", id="beside the table"),
        pytest.param([add("s3://b/a")], "outside", id="in another store"),
        pytest.param([add("a%00b")], "NUL", id="with a name that no store has"),
        pytest.param([add("a", partition_values={"q": "1"})], "partitioned by", id="a partition"),
    ],
)
def test_actions_that_contradict_each_other_or_the_table_are_refused(
    tmp_path: Path, adds: list[AddFile], message: str
) -> None:
    log = write_log(tmp_path, [[add("old")]])
    txn = begin(log)
    txn.remove(log.snapshot().add_files())
    txn.stage(stage_files(*adds))
    with pytest.raises(InvalidRequestError, match=message):
        txn.commit(operation="WRITE")
    assert live_paths(log) == {"old"}


VECTOR = DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)


@pytest.mark.parametrize(
    ("actions", "is_refused"),
    [
        pytest.param([remove("a"), add("a", deletion_vector=VECTOR)], False, id="gets a vector"),
        pytest.param([add("a"), remove("a", deletion_vector=VECTOR)], False, id="loses a vector"),
        pytest.param(
            [remove("a", deletion_vector=VECTOR), add("a", deletion_vector=VECTOR)],
            True,
            id="is removed and added",
        ),
        pytest.param([add("a"), add("a", deletion_vector=VECTOR)], True, id="is there twice"),
        pytest.param([remove("a"), remove("a", deletion_vector=VECTOR)], True, id="goes twice"),
        pytest.param(
            [remove("a"), add("a", deletion_vector=VECTOR), add("a", deletion_vector=VECTOR)],
            True,
            id="gets it twice",
        ),
    ],
)
def test_a_file_may_get_another_deletion_vector(
    actions: list[AddFile | RemoveFile], is_refused: bool
) -> None:
    if not is_refused:
        validate_actions(actions, DEFINITION, append_only=False, table="/t")
        return
    with pytest.raises(InvalidRequestError, match="file a is in the commit twice"):
        validate_actions(actions, DEFINITION, append_only=False, table="/t")


def test_partition_values_must_be_complete(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[]])
    begin_on_partitioned = write_log(tmp_path / "p", [[metadata(partition_columns=("p",))]])
    assert log.snapshot().partition_columns == ()
    txn = begin(begin_on_partitioned)
    txn.stage(replace(stage_files(add("a")), partition_columns=("p",)))
    with pytest.raises(InvalidRequestError, match=r"has values for nothing, but .* by p"):
        txn.commit(operation="WRITE")


NUMBER = StructType((StructField("id", LONG),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"partition_columns": ("p",)}, "by nothing, the data by p", id="partitions"),
        pytest.param(
            {"schema": StructType((StructField("x", LONG),))}, "no column 'x'", id="a column"
        ),
        pytest.param(
            {"schema": StructType((StructField("id", STRING),))},
            "'id' is int64 in the table and string in the data",
            id="a type",
        ),
        pytest.param({"row_rules": frozenset()}, "requires NOT NULL id", id="a rule not checked"),
    ],
)
def test_files_that_do_not_fit_the_table_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    strict = schema_to_json(StructType((StructField("id", LONG, nullable=False),)))
    log = write_log(tmp_path, [[metadata(schema_string=strict)]])
    fits = replace(stage_files(add("a")), schema=NUMBER, row_rules=frozenset({NotNull("id")}))
    begin(log).stage(fits)
    with pytest.raises(InvalidRequestError, match=message):
        begin(log).stage(replace(fits, **changes))


VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab", offset=1, size_in_bytes=3, cardinality=2
)


@pytest.mark.parametrize(
    ("adds", "expected"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([add("a", stats='{"numRecords":3}')] * 2, 6, id="known"),
        pytest.param([add("a", stats='{"numRecords":3}', deletion_vector=VECTOR)], 1, id="deleted"),
        pytest.param([add("a", stats='{"numRecords":3}'), add("b")], None, id="one is not known"),
        pytest.param([add("a", stats="{}")], None, id="statistics without it"),
    ],
)
def test_rows_by_statistics(adds: list[AddFile], expected: int | None) -> None:
    assert num_rows(adds) == expected


def test_columns_that_the_table_has_not_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"A": [1], "x": [2]}), tmp_path / "f.parquet")
    footer = pq.read_metadata(tmp_path / "f.parquet")
    known = StructType((StructField("a", LONG), StructField("X", LONG)))
    validate_footer(footer, known, "f.parquet")
    with pytest.raises(InvalidRequestError, match=r"f\.parquet has columns .* \(x\)"):
        validate_footer(footer, StructType((StructField("a", LONG),)), "f.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"size": -1}, "has -1 bytes", id="fewer bytes than none"),
        pytest.param(
            {"partition_values": {"id": "a"}}, "'id': .*'a' is not a valid long", id="no number"
        ),
    ],
)
def test_commits_that_would_make_the_table_unreadable_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    log = write_log(tmp_path, [[metadata(partition_columns=("id",))]])
    txn = begin(log)
    file = add("a", **{"partition_values": {"id": "1"}, **changes})
    txn.stage(replace(stage_files(file), partition_columns=("id",)))
    with pytest.raises(InvalidRequestError, match=message):
        txn.commit(operation="WRITE")
    assert log.snapshot().version == 0


def test_a_remove_says_all_that_is_known_of_the_file() -> None:
    known = add(
        "a%20b",
        size=5,
        partition_values={"p": None},
        tags={"k": "v"},
        deletion_vector=VECTOR,
        base_row_id=7,
        default_row_commit_version=8,
    )
    removed = tombstone(known, 99, data_change=False)
    assert (removed.extended_file_metadata, removed.deletion_timestamp) == (True, 99)
    assert not removed.data_change
    for name in (f.name for f in fields(RemoveFile) if f.name in {g.name for g in fields(AddFile)}):
        if name not in ("data_change", "stats"):
            assert getattr(removed, name) == getattr(known, name), name


def test_another_vector_of_a_file_is_one_change_of_it(tmp_path: Path) -> None:
    vectors = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("deletionVectors",),
    )
    log = write_log(tmp_path, [[add("a")], [vectors]])
    (before,) = log.snapshot().add_files()
    txn = begin(log, operation="restore")
    txn.replace_vector(before, VECTOR)
    txn.commit(operation="DELETE")
    (after,) = log.snapshot().add_files()
    assert after.deletion_vector == VECTOR
    (gone,) = log.snapshot().tombstones().to_pylist()
    assert (gone["path"], gone["deletionVector"], gone["dataChange"]) == ("a", None, True)


def test_physical_names_replace_logical_names_in_mapped_tables_only() -> None:
    mapped = {"delta.columnMapping.physicalName": "col-1"}
    schema = StructType((StructField("x", LONG, metadata=mapped),))
    names = [
        define(schema, **{"columnMapping.mode": mode}).physical_schema.fields[0].name
        for mode in ("none", "name", "id")
    ]
    assert names == ["x", "col-1", "col-1"]
