"""Changes of rows in tables with features: right, or rejected by feature name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from tests.support.tables import rows

IDENTITY = {
    "delta.identity.start": 1,
    "delta.identity.step": 1,
    "delta.identity.allowExplicitInsert": True,
}
Change = Callable[[Path], Any]
DATA = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})


def delete(place: Path) -> Any:
    return da.delete(place, col("id") == 2)


def update(place: Path) -> Any:
    return da.update(place, {"p": "'c'"}, col("id") == 2)


def merge(place: Path) -> Any:
    source = pa.table({"id": [2, 9], "p": ["x", "y"]})
    built = da.merge(place, source, "target.id = source.id")
    return built.when_matched_update_all().when_not_matched_insert_all().execute()


LEFT: dict[Change, list[tuple[int, str]]] = {
    delete: [(1, "a"), (3, "b")],
    update: [(1, "a"), (2, "c"), (3, "b")],
    merge: [(1, "a"), (2, "x"), (3, "b"), (9, "y")],
}
CHANGES = pytest.mark.parametrize("change", list(LEFT))


def create(place: Path, *fields: StructField, **properties: str) -> None:
    txn = begin(DeltaLog(place))
    txn.create_table(
        StructType((StructField("id", LONG), StructField("p", STRING), *fields)),
        configuration=properties,
    )
    txn.commit(operation="CREATE TABLE")


@CHANGES
@pytest.mark.parametrize(
    ("mode", "partition_by", "vectors"),
    [
        pytest.param("name", None, "false", id="by name"),
        pytest.param("name", ["p"], "true", id="by name, partitioned, vectors"),
        pytest.param("id", ["p"], "false", id="by id, partitioned"),
        pytest.param("id", None, "true", id="by id, vectors"),
    ],
)
def test_rows_of_mapped_tables_are_changed(
    tmp_path: Path, change: Change, mode: str, partition_by: list[str] | None, vectors: str
) -> None:
    properties = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": vectors}
    da.write(tmp_path, DATA, partition_by=partition_by, configuration=properties)
    change(tmp_path)
    found = sorted((row["id"], row["p"]) for row in rows(da.to_table(tmp_path)))
    assert found == LEFT[change]
    names = {
        name for add in DeltaLog(tmp_path).snapshot().add_files() for name in add.partition_values
    }
    assert all(name.startswith("col-") for name in names)
    assert len(names) == len(partition_by or ())


def test_rows_keep_their_identity_values_and_inserted_rows_get_the_next(tmp_path: Path) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    da.write(tmp_path, DATA)
    update(tmp_path)
    merge(tmp_path)
    found = sorted((row["id"], row["p"], row["n"]) for row in rows(da.to_table(tmp_path)))
    assert found == [(1, "a", 1), (2, "x", 2), (3, "b", 3), (9, "y", 4)]
    da.write(tmp_path, pa.table({"id": [10]}))
    assert max(da.to_table(tmp_path)["n"].to_pylist()) == 5


def test_clauses_that_insert_other_columns_count_the_same_column(tmp_path: Path) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    source = pa.table({"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge = merge.when_not_matched_insert({"id": "source.id"}, "source.p = 'a'")
    merge.when_not_matched_insert_all().execute()
    found = da.to_table(tmp_path)
    assert sorted(found["n"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(found["p"].to_pylist(), key=str) == [None, None, "b", "b"]


def test_counted_values_are_not_assigned(tmp_path: Path) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    da.write(tmp_path, DATA)
    with pytest.raises(InvalidRequestError, match="n is an identity column"):
        da.update(tmp_path, {"N": 7})
    source = pa.table({"id": [1], "n": [7]})
    with pytest.raises(InvalidRequestError, match="n is an identity column"):
        da.merge(tmp_path, source, "target.id = source.id").when_matched_update_all().execute()
    da.merge(
        tmp_path, pa.table({"id": [8], "n": [80]}), "target.id = source.id"
    ).when_not_matched_insert_all().execute()
    assert sorted(da.to_table(tmp_path)["n"].to_pylist()) == [1, 2, 3, 80]
    always = {**IDENTITY, "delta.identity.allowExplicitInsert": False}
    strict = tmp_path / "strict"
    create(strict, StructField("n", LONG, metadata=always))
    before = sorted(strict.rglob("*"))
    with pytest.raises(InvalidRequestError, match="always generated"):
        da.merge(strict, source, "target.id = source.id").when_not_matched_insert_all().execute()
    assert sorted(strict.rglob("*")) == before


def test_two_merges_at_once_count_no_value_twice(tmp_path: Path) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    begun = begin(DeltaLog(tmp_path))
    source = pa.table({"id": [7], "p": ["x"]})
    da.merge(tmp_path, source, "target.id = source.id").when_not_matched_insert_all().execute()
    late = da.merge(begun, pa.table({"id": [8], "p": ["x"]}), "target.id = source.id")
    with pytest.raises(CommitConflictError):
        late.when_not_matched_insert_all().execute()
    assert da.to_table(tmp_path)["n"].to_pylist() == [1]


def test_rows_with_columns_that_are_counted_can_be_deleted(tmp_path: Path) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    da.write(tmp_path, DATA)
    da.delete(tmp_path, col("id") == 2)
    assert da.to_table(tmp_path)["n"].to_pylist() == [1, 3]


def test_inserted_rows_get_the_defaults_of_columns_that_they_lack(tmp_path: Path) -> None:
    field = StructField("d", LONG, metadata={"CURRENT_DEFAULT": "7"})
    create(tmp_path, field, **{"delta.feature.allowColumnDefaults": "supported"})
    da.write(tmp_path, DATA)
    da.update(tmp_path, {"d": 1})
    update(tmp_path)
    merge(tmp_path)
    found = sorted((row["id"], row["d"]) for row in rows(da.to_table(tmp_path)))
    assert found == [(1, 1), (2, 1), (3, 1), (9, 7)]
    data = pa.table({"id": [10], "d": pa.array([None], pa.int64())})
    da.merge(tmp_path, data, "target.id = source.id").when_not_matched_insert_all().execute()
    assert None in da.to_table(tmp_path)["d"].to_pylist()
