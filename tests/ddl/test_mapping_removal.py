"""DROP FEATURE columnMapping: files get the names of columns, and rows, ids and layout stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.read.scan import read_kept
from delta_ops.ddl import (
    NewColumn,
    add_columns,
    add_constraint,
    cluster_by,
    drop_columns,
    drop_feature,
    rename_column,
    set_properties,
)
from delta_ops.errors import CommitConflictError, DataFileError, InvalidRequestError
from delta_ops.maintenance import restore
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.row_tracking import row_columns
from tests.support.tables import rows, rows_by_deltalake

NAME, MODE = "columnMapping", "delta.columnMapping.mode"
S = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "s": pa.array([{"x": i, "y": [{"z": str(i)}]} for i in range(4)], S),
        "p": ["a", "a", "b", None],
    }
)


def tracked(log: DeltaLog) -> dict[int, tuple[int, int]]:
    """The row id and row commit version of each row, by the row's own number."""
    snapshot = log.snapshot()
    names = row_columns(snapshot.definition, snapshot.uri)
    assert names is not None
    return {
        row["id"]: (row[names.row_id], row[names.commit_version])
        for batch in read_kept(snapshot, snapshot.add_files(), ["id", *names])
        for row in batch.to_pylist()
    }


def file_names(log: DeltaLog) -> set[str]:
    return {
        name
        for add in log.snapshot().add_files()
        for name in pq.read_schema(Path(log.uri) / add.path).names
    }


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["one directory", "partitioned"])
def test_files_get_the_names_of_the_columns(
    tmp_path: Path, mode: str, partition_by: list[str]
) -> None:
    properties = {
        MODE: mode,
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.minReaderVersion": "3",
    }
    da.write(tmp_path, ROWS, partition_by=partition_by, configuration=properties)
    log = DeltaLog(tmp_path)
    rename_column(log, "p", "q")
    rename_column(log, "s.x", "w")
    rename_column(log, "s.y.element.z", "Z")
    add_columns(log, [NewColumn(name="p", data_type="bigint")])  # the former name of another column
    da.delete(log, col("id") == 2)
    before, ids = da.to_table(log), tracked(log)
    version = log.snapshot().version

    assert drop_feature(log, NAME).version == version + 1

    after = log.snapshot()
    assert rows(da.to_table(log)) == rows(before)
    assert tracked(log) == ids
    assert not after.definition.has(NAME)
    assert not any("columnMapping" in key for key in after.metadata.configuration)
    assert "columnMapping" not in after.metadata.schema_string
    assert rows(da.to_table(log, version=version)) == rows(before)
    if not partition_by:
        names = row_columns(after.definition, after.uri)
        assert file_names(log) == {"id", "s", "p", "q", *(names or ())}
    found = da.to_table(log, predicate=col("q") == "b")
    assert rows(found) == [row for row in rows(before) if row["q"] == "b"]
    assert [add.data_change for add in after.add_files()] == [False] * len(list(after.add_files()))


def test_another_engine_reads_the_table(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"], configuration={MODE: "name"})
    rename_column(tmp_path, "id", "number")
    drop_feature(tmp_path, NAME)
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.protocol.min_reader_version == 1
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(tmp_path))


def test_files_with_the_right_columns_stay(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    set_properties(tmp_path, {MODE: "name"})
    paths = {add.path for add in DeltaLog(tmp_path).snapshot().add_files()}
    drop_feature(tmp_path, NAME)
    assert {add.path for add in DeltaLog(tmp_path).snapshot().add_files()} == paths


def test_a_dropped_column_is_gone_from_the_files(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    set_properties(tmp_path, {MODE: "name"})
    drop_columns(tmp_path, ["id"])
    drop_feature(tmp_path, NAME)
    add_columns(tmp_path, [NewColumn(name="id", data_type="bigint")])
    assert da.to_table(tmp_path)["id"].null_count == 4


def test_clustering_and_constraints_stay(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, configuration={MODE: "name"})
    cluster_by(tmp_path, ["id"])
    add_constraint(tmp_path, "positive", "id > 0")
    drop_feature(tmp_path, NAME)
    assert DeltaLog(tmp_path).snapshot().clustering_columns == (("id",),)
    with pytest.raises(InvalidRequestError, match="positive"):
        da.write(tmp_path, pa.table({"id": [0]}))


def test_a_name_that_needs_the_mapping_is_rejected(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a b": [1]}), configuration={MODE: "name"})
    with pytest.raises(InvalidRequestError, match=r"columnMapping cannot be dropped.*a b"):
        drop_feature(tmp_path, NAME)
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, configuration={MODE: "name"})
    found = sorted(tmp_path.rglob("*"))
    assert drop_feature(tmp_path, NAME, dry_run=True).version is None
    assert sorted(tmp_path.rglob("*")) == found


def test_a_failed_drop_leaves_no_file(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, configuration={MODE: "name"})
    da.write(tmp_path, ROWS, partition_by=[])
    first, _ = DeltaLog(tmp_path).snapshot().add_files()
    Path(tmp_path / first.path).unlink()
    found = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(DataFileError):
        drop_feature(tmp_path, NAME)
    assert sorted(tmp_path.rglob("*.parquet")) == found


def test_a_concurrent_append_is_a_conflict(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, configuration={MODE: "name"})

    def append_first(snapshot: Any, group: Any) -> Any:
        da.write(tmp_path, ROWS)
        return da.rewrite(snapshot, group)

    with pytest.raises(CommitConflictError):
        drop_feature(tmp_path, NAME, engine=append_first)
    log = DeltaLog(tmp_path)
    assert log.snapshot().definition.has(NAME)
    live = {add.path for add in log.snapshot().add_files()}
    assert {path.name for path in tmp_path.glob("*.parquet")} == live


def test_a_restore_to_before_the_drop_needs_the_mapping(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, configuration={MODE: "name"})
    drop_feature(tmp_path, NAME)
    with pytest.raises(InvalidRequestError, match="columnMapping"):
        restore(tmp_path, version=0)
    assert physical_name(DeltaLog(tmp_path).snapshot().schema.fields[0]) == "id"
