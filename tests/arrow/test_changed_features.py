"""Deletes, updates and merges of tables with features: right, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from tests.tables import rows

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
@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize("vectors", ["false", "true"], ids=["files", "vectors"])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_rows_of_mapped_tables_are_changed(
    tmp_path: Path, change: Change, partition_by: list[str] | None, vectors: str, mode: str
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


@pytest.mark.parametrize("change", [update, merge])
def test_columns_that_are_counted_are_refused(tmp_path: Path, change: Change) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    da.write(tmp_path, DATA)
    with pytest.raises(InvalidRequestError, match="n"):
        change(tmp_path)
    assert DeltaLog(tmp_path).snapshot().version == 1


def test_rows_with_columns_that_are_counted_can_be_deleted(tmp_path: Path) -> None:
    create(tmp_path, StructField("n", LONG, metadata=IDENTITY))
    da.write(tmp_path, DATA)
    da.delete(tmp_path, col("id") == 2)
    assert da.to_table(tmp_path)["n"].to_pylist() == [1, 3]


def test_merged_rows_get_no_defaults_and_are_refused(tmp_path: Path) -> None:
    field = StructField("d", LONG, metadata={"CURRENT_DEFAULT": "7"})
    create(tmp_path, field, **{"delta.feature.allowColumnDefaults": "supported"})
    da.write(tmp_path, DATA)
    with pytest.raises(InvalidRequestError, match="column defaults"):
        merge(tmp_path)
    update(tmp_path)
    assert da.to_table(tmp_path)["d"].to_pylist() == [7, 7, 7]
