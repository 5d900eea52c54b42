"""Rows of files outside the table, as in a shallow clone."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.errors import DataFileError, OutsideFileError
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import (
    commit,
    create,
    data_file,
    inline_vector,
    stored_vector,
    vector_file,
)
from tests.support.clones import Naming, content_of, prefix_naming, shallow_clone
from tests.support.tables import rows

SCHEMA = StructType((StructField("id", LONG), StructField("p", STRING)))
FEED = {"delta.enableChangeDataFeed": "true"}
NAMINGS = pytest.mark.parametrize(
    "naming",
    [
        pytest.param(lambda root: prefix_naming(f"file:{root}"), id="as delta-spark names them"),
        pytest.param(lambda root: prefix_naming(root.as_uri()), id="file with three slashes"),
        pytest.param(lambda root: prefix_naming(str(root)), id="from the root of the disk"),
        pytest.param(lambda root: prefix_naming(f"../{root.name}"), id="by steps up"),
        pytest.param(lambda root: prefix_naming(f"x/%2e%2e/../{root.name}"), id="by escaped steps"),
    ],
)


def source_table(root: Path) -> DeltaLog:
    """Files of 0 to 8, one of them in a directory with unusual letters; 1 and 4 are deleted."""

    def part(name: str, first: int, p: str, **changes: Any) -> Any:
        ids = pa.table({"id": pa.array(range(first, first + 3), pa.int64())})
        add = data_file(root, name, ids, partition_values={"p": p}, **changes)
        return replace(add, path=add.path.replace("%", "%25").replace(" ", "%20"))

    adds = [
        part("p=a/x.parquet", 0, "a", deletion_vector=stored_vector(root, [1], "q r")),
        part("p=50% é/y z.parquet", 3, "50% é", deletion_vector=inline_vector([1])),
        part("p=a/z.parquet", 6, "a"),
    ]
    return create(root, SCHEMA, adds, FEED, partition_by=("p",))


def absolute(vector: DeletionVector, place: Path) -> DeletionVector:
    return replace(vector, storage_type="p", path_or_inline_dv=f"file:{place}")


def make_clone(
    root: Path, naming: Callable[[Path], Naming] = lambda r: prefix_naming(f"file:{r}")
) -> DeltaLog:
    source = source_table(root / "source")
    return shallow_clone(source.snapshot(), DeltaLog(root / "clone"), naming(root / "source"))


def ids(source: DeltaLog | Snapshot, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


@NAMINGS
def test_a_clone_has_the_rows_of_its_source(
    tmp_path: Path, naming: Callable[[Path], Naming]
) -> None:
    clone = make_clone(tmp_path, naming)
    source = DeltaLog(tmp_path / "source")
    before = content_of(tmp_path)
    expected = rows(da.to_table(source))
    assert [row["id"] for row in expected] == [0, 2, 3, 5, 6, 7, 8]
    assert rows(da.to_table(clone)) == expected
    batches = da.to_batches(clone, ["p", "id"], col("id") > 2)
    assert sum(map(len, batches)) == 5
    assert (da.count_rows(clone), da.count_rows(clone, col("p") == "a")) == (7, 5)
    assert content_of(tmp_path) == before


@NAMINGS
def test_files_are_named_by_their_absolute_path(
    tmp_path: Path, naming: Callable[[Path], Naming]
) -> None:
    clone = make_clone(tmp_path, naming)
    own = set(DeltaLog(tmp_path / "source").snapshot().files(["path"])["path"].to_pylist())
    found = clone.snapshot().files(["path"])["path"].to_pylist()
    assert set(found) == {f"{tmp_path}/source/{path}" for path in own}


def test_a_clone_goes_on_as_a_table_of_its_own(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    data_of_its_own = pa.table({"id": pa.array([9], pa.int64()), "p": ["a"]})
    adds = [data_file(tmp_path / "clone", "own", data_of_its_own, partition_values={"p": "a"})]
    (z,) = (add for add in clone.snapshot().add_files() if add.path.endswith("/z.parquet"))
    vector = absolute(stored_vector(tmp_path / "vectors", [0]), vector_file(tmp_path / "vectors"))
    commit(clone, 1, adds)
    commit(clone, 2, [tombstone(z, 1, data_change=True), replace(z, deletion_vector=vector)])
    assert ids(clone) == [0, 2, 3, 5, 7, 8, 9]
    assert ids(clone.snapshot(1)) == [0, 2, 3, 5, 6, 7, 8, 9]
    assert ids(clone.snapshot(0)) == [0, 2, 3, 5, 6, 7, 8]
    changes = da.read_changes(clone, 0).read_all().to_pylist()
    found = [(row["_commit_version"], row["_change_type"], row["id"]) for row in changes]
    inserted = [(0, "insert", i) for i in (0, 2, 3, 5, 6, 7, 8)]
    assert sorted(found) == [*inserted, (1, "insert", 9), (2, "delete", 6)]
    assert [entry.version for entry in clone.history()] == [2, 1, 0]


def test_a_pickled_clone_reads_the_same(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    assert ids(clone) == [0, 2, 3, 5, 6, 7, 8]
    assert ids(pickle.loads(pickle.dumps(clone))) == ids(clone)
    assert ids(pickle.loads(pickle.dumps(clone.snapshot()))) == ids(clone)


def test_deltalake_reads_the_same_rows(tmp_path: Path) -> None:
    source = DeltaLog(tmp_path / "source")
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a b", "c"]})
    da.write(source, data, partition_by=["p"])
    clone = DeltaLog(tmp_path / "clone")
    shallow_clone(source.snapshot(), clone, prefix_naming(f"file://{tmp_path}/source"))
    # Its other readers treat absolute paths as relative paths.
    theirs = QueryBuilder().register("t", DeltaTable(clone.uri)).execute("select * from t")
    assert rows(pa.table(theirs.read_all())) == rows(da.to_table(clone)) == rows(data)


@NAMINGS
def test_a_file_that_is_gone_is_named(tmp_path: Path, naming: Callable[[Path], Naming]) -> None:
    clone = make_clone(tmp_path, naming)
    place = tmp_path / "source" / "p=a" / "z.parquet"
    place.unlink()
    with pytest.raises(DataFileError, match="is missing") as error:
        da.to_table(clone)
    assert error.value.file == str(place)


@pytest.mark.parametrize("kind", ["a data file", "a vector"])
def test_special_files_are_not_waited_for(tmp_path: Path, kind: str) -> None:
    """A log may name any path on the disk, and opening a pipe blocks until it has a writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = data_file(tmp_path / "t", "x", pa.table({"id": pa.array([1, 2], pa.int64())}))
    named = {
        "a data file": replace(data, path=f"file:{pipe}"),
        "a vector": replace(data, deletion_vector=absolute(stored_vector(tmp_path, [0]), pipe)),
    }
    log = create(tmp_path / "t", StructType((StructField("id", LONG),)), [named[kind]])
    for read in (da.to_table, lambda log: da.count_rows(log, col("id") > 0)):
        with pytest.raises(DataFileError, match="missing"):
            read(log)


def test_a_vector_that_is_gone_brings_no_row_back(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    (vector,) = (tmp_path / "source").glob("q r/*.bin")
    vector.unlink()
    with pytest.raises(DataFileError, match=f"deletion vector that is missing.*{vector.name}"):
        da.to_table(clone)


@NAMINGS
def test_nothing_outside_is_opened_where_that_is_refused(
    tmp_path: Path, naming: Callable[[Path], Naming]
) -> None:
    make_clone(tmp_path, naming)
    (tmp_path / "source").rename(tmp_path / "elsewhere")  # opening it would be another error
    log = DeltaLog(tmp_path / "clone", outside="refuse")
    for refusing in (log, pickle.loads(pickle.dumps(log))):
        assert refusing.snapshot().num_files == len(refusing.snapshot().files()) == 3
        assert len(list(refusing.history())) == 1
        for read in (da.to_table, da.count_rows, lambda log: da.read_changes(log, 0).read_all()):
            with pytest.raises(OutsideFileError, match='outside="read"') as error:
                read(refusing)
            assert error.value.file.startswith(f"{tmp_path}/source/")


def test_a_refused_vector_is_named_too(tmp_path: Path) -> None:
    source = source_table(tmp_path / "source")
    (add,) = (a for a in source.snapshot().add_files() if a.path.endswith("x.parquet"))
    vector = absolute(stored_vector(tmp_path, [0]), Path("/nowhere/v"))
    commit(source, 1, [tombstone(add, 1, data_change=True), replace(add, deletion_vector=vector)])
    with pytest.raises(OutsideFileError, match="/nowhere/v"):
        da.to_table(DeltaLog(source.uri, outside="refuse"))
    with pytest.raises(DataFileError, match="deletion vector that is missing"):
        da.to_table(DeltaLog(source.uri))


def test_a_table_that_names_nothing_outside_is_read_where_that_is_refused(tmp_path: Path) -> None:
    source = source_table(tmp_path)
    assert ids(DeltaLog(tmp_path, outside="refuse")) == ids(source)


def test_rows_of_a_file_outside_that_are_kept_by_a_replacement_move_into_the_table(
    tmp_path: Path,
) -> None:
    source = DeltaLog(tmp_path / "source")
    da.write(source, pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
    clone = DeltaLog(tmp_path / "clone")
    shallow_clone(source.snapshot(), clone, prefix_naming(f"file:{tmp_path}/source"))
    before = content_of(tmp_path / "source")
    data = pa.table({"id": pa.array([20], pa.int64())})
    da.write(clone, data, mode="overwrite", replace_where=col("id") >= 2)
    assert content_of(tmp_path / "source") == before
    assert (ids(clone), ids(clone.snapshot(0)), ids(source)) == ([1, 20], [1, 2, 3], [1, 2, 3])
    assert all(not path.startswith("/") for path in clone.snapshot().files()["path"].to_pylist())
