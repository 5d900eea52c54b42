"""Discovery of tables below a prefix, and its saved state."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.components.lake_state import (
    LakeTable,
    PathFilter,
    find_lake_tables,
    read_lake_state,
    write_lake_state,
)
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.storage.local.storage import LocalStorage

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
ALL = PathFilter()


def write_tables(root: Path, *paths: str) -> None:
    for path in paths:
        da.write(root / path, ROWS, partition_by=["day"])


def paths(tables: list[LakeTable]) -> list[str]:
    return [table.path for table in tables]


def test_a_table_is_found_with_its_columns_as_they_are_now(tmp_path: Path) -> None:
    write_tables(tmp_path, "sales/orders")
    (table,) = find_lake_tables(str(tmp_path), {}, ALL)
    assert table.path == "sales/orders"
    assert table.columns is not None
    assert [(c.name, c.type) for c in table.columns.columns] == [
        ("id", "bigint"),
        ("day", "string"),
    ]
    assert "partition" in table.columns.columns[1].tags


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(ALL, ["a", "b/c", "b/d/e"], id="all"),
        pytest.param(PathFilter(include=("b/*",)), ["b/c", "b/d/e"], id="below a folder"),
        pytest.param(PathFilter(include=("a", "*/c")), ["a", "b/c"], id="by several patterns"),
        pytest.param(PathFilter(exclude=("b/d/*",)), ["a", "b/c"], id="except a folder"),
        pytest.param(PathFilter(include=("B/*",)), [], id="by names with their case"),
    ],
)
def test_patterns_choose_tables(tmp_path: Path, wanted: PathFilter, found: list[str]) -> None:
    write_tables(tmp_path, "a", "b/c", "b/d/e")
    assert paths(find_lake_tables(f"{tmp_path}/", {}, wanted)) == found


def test_a_prefix_that_is_a_table_is_a_lake_of_one(tmp_path: Path) -> None:
    write_tables(tmp_path, "orders")
    assert paths(find_lake_tables(str(tmp_path / "orders"), {}, ALL)) == [""]


def test_a_table_that_cannot_be_opened_is_found_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tables(tmp_path, "orders", "broken")
    (tmp_path / "broken" / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    with caplog.at_level(logging.WARNING):
        tables = find_lake_tables(str(tmp_path), {}, ALL)
    assert [(table.path, table.columns is None) for table in tables] == [
        ("broken", True),
        ("orders", False),
    ]
    assert "broken" in caplog.text


def test_a_folder_that_cannot_be_looked_into_is_an_error_unless_it_is_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tables(tmp_path, "orders", "private/salaries")
    look = LocalStorage.list_directories

    def deny(self: LocalStorage, directory: str) -> Any:
        if directory == "private":
            raise StorageError(self.locate(directory), "listed", "permission denied")
        return look(self, directory)

    monkeypatch.setattr(LocalStorage, "list_directories", deny)
    with pytest.raises(StorageError, match=r"private .*permission denied.*exclude it"):
        find_lake_tables(str(tmp_path), {}, ALL)
    found = find_lake_tables(str(tmp_path), {}, PathFilter(exclude=("private/*",)))
    assert paths(found) == ["orders"]


def test_a_prefix_that_is_not_there_has_no_tables(tmp_path: Path) -> None:
    assert find_lake_tables(str(tmp_path / "nowhere"), {}, ALL) == []


def test_found_files_are_read_unchanged(tmp_path: Path) -> None:
    write_tables(tmp_path / "lake", "orders")
    log = DeltaLog(tmp_path / "lake" / "orders")
    described = begin(log)
    described.set_metadata(replace(described.metadata, description="All *orders*"))
    described.commit(operation="SET TBLPROPERTIES")
    found = find_lake_tables(str(tmp_path / "lake"), {}, ALL)
    assert found[0].description == "All *orders*"
    shutil.rmtree(tmp_path / "lake")
    write_lake_state(tmp_path / "state", found)
    assert read_lake_state(tmp_path / "state") == found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="half a file"),
        pytest.param(json.dumps({"format": 2, "tables": []}), id="of a later version"),
        pytest.param(json.dumps({"format": 1, "tables": [{}]}), id="without a path"),
        pytest.param("[]", id="a list"),
    ],
)
def test_another_state_says_how_to_make_it_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text)
    with pytest.raises(InvalidRequestError, match="dg utils refresh-defs-state"):
        read_lake_state(tmp_path / "state")
