"""Bloom filters: which columns have them, and in which files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.write import file_form
from delta_ops.ddl import drop_columns, rename_column, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize

NAME = "delta_ops.bloomFilterColumns"
MAPPED = {"delta.columnMapping.mode": "name"}


def rows(first: int = 0, number: int = 5000) -> pa.Table:
    ids = range(first, first + number)
    return pa.table(
        {
            "id": [f"{each:020}" for each in ids],
            "s": [{"a": each, "b": each} for each in ids],
            "p": ["x"] * number,
            "flag": [True] * number,
        }
    )


def filtered(table: Path) -> set[tuple[str, ...]]:
    """For each live file, the columns with a Bloom filter, by their names in the file."""
    found = set()
    for add in DeltaLog(table).snapshot().add_files():
        footer = pq.read_metadata(table / add.path)
        columns = [footer.row_group(0).column(i) for i in range(footer.num_columns)]
        found.add(tuple(c.path_in_schema for c in columns if c.bloom_filter_length))
    return found


def create(table: Path, columns: str, **options: Any) -> None:
    configuration = {NAME: columns, **options.pop("configuration", {})}
    da.write(table, rows(), configuration=configuration, **options)


def test_each_writer_of_a_table_writes_the_filters(tmp_path: Path) -> None:
    create(tmp_path, "ID, s.a", partition_by=["p"])
    da.write(tmp_path, rows(5000, 3))
    da.delete(tmp_path, "id = '00000000000000000007'")
    assert filtered(tmp_path) == {("id", "s.a")}
    optimize(tmp_path)
    assert len(DeltaLog(tmp_path).snapshot().add_files()) == 1
    assert filtered(tmp_path) == {("id", "s.a")}
    assert da.count_rows(tmp_path) == 5002


def test_a_filter_follows_its_column(tmp_path: Path) -> None:
    create(tmp_path, "id, s.a, s.b", configuration=MAPPED)
    rename_column(tmp_path, "id", "key")
    drop_columns(tmp_path, ["s.b"])
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.metadata.configuration[NAME] == "key,s.a"
    ((first, second, _),) = filtered(tmp_path)
    data = rows(5000).rename_columns(["key", "s", "p", "flag"]).to_pylist()
    short = [{**each, "s": {"a": each["s"]["a"]}} for each in data]
    da.write(tmp_path, pa.Table.from_pylist(short), "overwrite")
    assert filtered(tmp_path) == {(first, second)}


def test_a_column_that_was_dropped_elsewhere_has_no_filter(tmp_path: Path) -> None:
    create(tmp_path, "id, s.a")
    da.write(tmp_path, rows().select(["id"]), "overwrite", overwrite_schema=True)
    assert filtered(tmp_path) == {("id",)}
    set_properties(tmp_path, {"delta.appendOnly": "true"})
    da.write(tmp_path, rows().select(["id"]))
    assert filtered(tmp_path) == {("id",)}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("nothing", "There is no column nothing"),
        ("p", "A partition column needs no Bloom filter"),
        ("s", "Its type is struct"),
        ("id, flag", "names flag: Its type is boolean"),
    ],
)
def test_columns_without_filters_are_rejected(tmp_path: Path, columns: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        create(tmp_path / "new", columns, partition_by=["p"])
    assert not (tmp_path / "new" / "_delta_log").exists()
    create(tmp_path / "old", "id", partition_by=["p"])
    with pytest.raises(InvalidRequestError, match=reason):
        set_properties(tmp_path / "old", {NAME: columns})
    assert DeltaLog(tmp_path / "old").snapshot().version == 0


def test_an_arrow_without_filters_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path, "id")
    monkeypatch.setattr(file_form, "WRITES_BLOOM_FILTERS", False)
    with pytest.raises(InvalidRequestError, match="install pyarrow 24 or later"):
        da.write(tmp_path, rows())
    assert DeltaLog(tmp_path).snapshot().version == 0
