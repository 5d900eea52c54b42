"""Tables created without rows, and replaced by others in one commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.ddl import create_table
from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    StorageError,
    TableExistsError,
)
from delta_ops.maintenance import restore
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.schema import DATE, LONG, STRING, TIMESTAMP, StructField, StructType
from delta_ops.transaction.table_change import DefineTable
from tests.arrow.test_vectors import rows_by_query
from tests.cli.test_commands import output, run
from tests.support.tables import rows, rows_by_deltalake

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def test_a_table_is_made_of_columns_of_arrow(tmp_path: Path) -> None:
    result = create_table(
        tmp_path,
        SCHEMA,
        partition_by=["p"],
        properties={"delta.appendOnly": "true"},
        name="orders",
        description="all of them",
    )
    snapshot = DeltaLog(tmp_path).snapshot()
    assert result.version == snapshot.version == 0
    assert snapshot.metadata.name == "orders"
    assert snapshot.metadata.description == "all of them"
    assert snapshot.partition_columns == ("p",)
    assert snapshot.properties.append_only
    assert next(DeltaLog(tmp_path).history()).operation == "CREATE TABLE"
    assert rows_by_deltalake(tmp_path) == []
    da.write(tmp_path, pa.table({"id": [1], "p": ["a"]}))
    assert len(rows(da.to_table(tmp_path))) == 1


def test_a_table_is_made_of_fields_that_fill_themselves(tmp_path: Path) -> None:
    identity = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
    }
    fields = (
        StructField("id", LONG, metadata=identity),
        StructField("at", TIMESTAMP),
        StructField("day", DATE, metadata={"delta.generationExpression": "CAST(at AS DATE)"}),
        StructField("state", STRING, metadata={"CURRENT_DEFAULT": "'new'"}),
    )
    create_table(tmp_path, StructType(fields), cluster_by=["day"])
    at = pa.array([None, None], pa.timestamp("us", "UTC"))
    da.write(tmp_path, pa.table({"at": at}))
    found = rows(da.to_table(tmp_path).select(["id", "state"]))
    assert found == [{"id": 1, "state": "new"}, {"id": 2, "state": "new"}]
    domains = DeltaLog(tmp_path).snapshot().domain_metadata()
    assert json.loads(domains["delta.clustering"].configuration)["clusteringColumns"] == [["day"]]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_table_is_replaced_in_one_commit(tmp_path: Path, mode: str) -> None:
    first = pa.table({"id": [1, 2], "p": ["a", "b"]})
    properties = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": "true"}
    da.write(tmp_path, first, partition_by=["p"], configuration=properties)
    before = DeltaLog(tmp_path).snapshot()
    new = pa.schema([("p", pa.int32()), ("x", pa.string())])
    properties = {"delta.dataSkippingNumIndexedCols": "1"}
    result = create_table(
        tmp_path, new, cluster_by=["x"], properties=properties, if_exists="replace"
    )
    assert result.version == 1
    after = DeltaLog(tmp_path).snapshot()
    assert after.metadata.id == before.metadata.id
    assert after.partition_columns == ()
    assert [field.name for field in after.schema.fields] == ["p", "x"]
    assert not after.properties.deletion_vectors
    assert after.definition.has("deletionVectors")
    assert after.definition.is_mapped == (mode == "name")
    assert da.to_table(tmp_path).num_rows == 0
    da.write(tmp_path, pa.table({"p": pa.array([7], pa.int32()), "x": ["y"]}))
    assert rows(da.to_table(tmp_path)) == [{"p": 7, "x": "y"}]
    assert rows(da.to_table(tmp_path, version=0)) == rows(first)
    entry = next(each for each in DeltaLog(tmp_path).history() if each.version == 1)
    assert entry.operation == "CREATE OR REPLACE TABLE"
    if mode == "none":
        assert rows_by_query(DeltaLog(tmp_path)) == [{"p": 7, "x": "y"}]


def test_a_table_that_was_replaced_is_restored(tmp_path: Path) -> None:
    first = pa.table({"id": [1, 2], "p": ["a", "b"]})
    da.write(tmp_path, first, partition_by=["p"])
    create_table(tmp_path, SCHEMA, if_exists="replace")
    restore(DeltaLog(tmp_path), version=0)
    assert rows(da.to_table(tmp_path)) == rows(first) == rows_by_deltalake(tmp_path)


def test_an_existing_table_is_kept_or_reported(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(TableExistsError):
        create_table(tmp_path, SCHEMA)
    result = create_table(tmp_path, SCHEMA, if_exists="ignore")
    assert (result.version, result.ignored) == (None, True)
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_rows_that_somebody_adds_meanwhile_are_not_lost(tmp_path: Path) -> None:
    create_table(tmp_path, SCHEMA, properties={"delta.isolationLevel": "Serializable"})
    late = begin(DeltaLog(tmp_path))
    late.change_table(
        DefineTable(schema=StructType((StructField("x", LONG),)), created_ms=late.clock())
    )
    da.write(tmp_path, pa.table({"id": [1], "p": ["a"]}))
    late.read(TRUE)
    with pytest.raises(CommitConflictError):
        late.commit(operation="CREATE OR REPLACE TABLE")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partition_by": ["nope"]}, "nope"),
        ({"cluster_by": ["nope"]}, "no column nope"),
        ({"cluster_by": ["id"], "partition_by": ["p"]}, "either partitioned or clustered"),
        ({"properties": {"delta.nope": "1"}}, "delta.nope"),
    ],
)
def test_definitions_that_cannot_be_are_refused(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        create_table(tmp_path, SCHEMA, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_terminal_clones_and_lists(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    da.write(source, pa.table({"id": [1]}))
    da.write(source, pa.table({"id": [2]}))
    reported = output("clone", source, target, "--version", "0")
    assert (reported["source_version"], reported["num_files"], reported["version"]) == (0, 1, 0)
    assert da.to_table(target)["id"].to_pylist() == [1]
    assert run("clone", source, target).exit_code == 1
    assert run("manifest", source).stdout == "Version 1: 2 files in 1 list.\n"
    listed = (source / "_symlink_format_manifest" / "manifest").read_text().splitlines()
    assert len(listed) == 2


@pytest.mark.parametrize("file", ["table", "table/_delta_log"])
def test_a_file_in_the_way_leaves_no_doubt_that_there_is_no_table(
    tmp_path: Path, file: str
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("x")
    with pytest.raises(StorageError, match="a part of the path is a file"):
        create_table(tmp_path / "table", SCHEMA)
    assert (tmp_path / file).read_text() == "x"


def test_a_default_is_no_name_in_double_quotes(tmp_path: Path) -> None:
    default = StructField("d", STRING, metadata={"CURRENT_DEFAULT": '"STATE"'})
    state = StructField("state", STRING)
    with pytest.raises(InvalidRequestError, match=r"column d .* may be read as a column"):
        create_table(tmp_path / "a", StructType((state, default)))
    create_table(tmp_path / "b", StructType((StructField("id", LONG), default)))
    da.write(tmp_path / "b", pa.table({"id": [1]}))
    assert da.to_table(tmp_path / "b").to_pylist() == [{"id": 1, "d": "STATE"}]
    da.write(tmp_path / "c", pa.table({"state": ["x"]}))
    added = pa.field("d", pa.string(), metadata={"CURRENT_DEFAULT": '"state"'})
    with pytest.raises(InvalidRequestError, match="may be read as a column"):
        da.write(tmp_path / "c", pa.schema([added]).empty_table(), merge_schema=True)
