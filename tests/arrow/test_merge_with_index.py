"""Merges of a table with an index: only files that hold a key of the source are opened."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.version.indexes.run_file import OpenRun
from delta_ops.maintenance import create_index, drop_index
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows

FILES = 12


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("origin")
    for number in range(FILES):
        ids = [0, *(number * 10 + each for each in range(1, 10)), 1000]
        keys = pa.array([*ids[:-1], None], pa.int64())
        da.write(root, pa.table({"id": ids, "key": keys, "n": [0] * len(ids)}))
    create_index(root, "ids", "id")
    create_index(root, "keys", "key")
    return root


@pytest.fixture
def table(origin: Path, tmp_path: Path) -> Path:
    shutil.copytree(origin, tmp_path / "t")
    return tmp_path / "t"


def opened_files(table: Path, merge: Any) -> set[str]:
    """Data files that a merge reads."""
    opened: set[str] = set()

    def note(_: int, method: str, path: str, moment: str) -> None:
        if method in ("open_input", "read", "read_ranges") and path.startswith("part-"):
            opened.add(path)

    live = set(DeltaLog(table).snapshot().files(["path"])["path"].to_pylist())
    merge(DeltaLog(table, storage=CountingStorage(open_storage(table), note)))
    return opened & live


def upsert(target: Any, source: pa.Table, on: str = "target.id = source.id") -> None:
    merge = da.merge(target, source, on)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def source_of(ids: list[int | None]) -> pa.Table:
    column = pa.array(ids, pa.int64())
    return pa.table({"id": column, "key": column, "n": [9] * len(ids)})


def test_an_upsert_opens_only_files_with_a_key(table: Path) -> None:
    opened = opened_files(table, lambda log: upsert(log, source_of([15, 55, 57, 500])))
    assert len(opened) == 2
    found = {each["id"]: each["n"] for each in rows(da.to_table(table))}
    assert {number: found[number] for number in (15, 55, 57, 500, 16)} == {
        **dict.fromkeys((15, 55, 57, 500), 9),
        16: 0,
    }
    assert da.count_rows(table) == FILES * 11 + 1


def test_many_keys_use_the_index_too(table: Path) -> None:
    keys = [15, 17, *range(2000, 2300)]
    assert len(opened_files(table, lambda log: upsert(log, source_of(keys)))) == 1
    assert da.count_rows(table) == FILES * 11 + 300


def test_an_upsert_reads_the_index_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    read_entries = OpenRun.read_entries

    def note(run: OpenRun, groups: Sequence[int]) -> Iterator[pa.Table]:
        read.append(run.run.file.path)
        return read_entries(run, groups)

    monkeypatch.setattr(OpenRun, "read_entries", note)
    keys: list[int | None] = [*range(5, 90, 10)]
    assert len(opened_files(table, lambda log: upsert(log, source_of(keys)))) == 9
    assert len(read) == 1


@pytest.mark.full
def test_a_clause_for_rows_without_a_match_opens_every_file(table: Path) -> None:
    def merge(log: DeltaLog) -> None:
        merge = da.merge(log, source_of([15]), "target.id = source.id")
        merge.when_not_matched_by_source_update({"n": "5"}).execute()

    assert len(opened_files(table, merge)) == FILES
    assert sorted(set(da.to_table(table)["n"].to_pylist())) == [0, 5]


@pytest.mark.full
@pytest.mark.parametrize("vectors", [False, True], ids=["rewrites", "deletion vectors"])
def test_a_null_safe_key_finds_nulls(table: Path, vectors: bool) -> None:
    if vectors:
        from delta_ops.ddl import set_properties

        set_properties(table, {"delta.enableDeletionVectors": "true"})
    upsert_nulls = source_of([15, None])
    merge = da.merge(table, upsert_nulls, "target.key <=> source.key")
    merge.when_matched_update({"n": "source.n"}).execute()
    changed = [each for each in rows(da.to_table(table)) if each["n"] == 9]
    assert len(changed) == FILES + 1


@pytest.mark.full
@settings(max_examples=12, deadline=None)
@given(
    ids=st.lists(st.none() | st.integers(0, 130), max_size=4, unique=True),
    on=st.sampled_from(
        [
            "target.id = source.id",
            "target.key = source.key",
            "target.key <=> source.key",
            "target.id = source.id AND target.key = source.key",
            "target.id = source.id AND target.n < 5",
            "target.id = source.id + 1",
        ]
    ),
    others=st.booleans(),
)
def test_a_merge_with_an_index_does_what_a_merge_without_does(
    tmp_path_factory: pytest.TempPathFactory,
    origin: Path,
    ids: list[int | None],
    on: str,
    others: bool,
) -> None:
    results = []
    for has_index in (True, False):
        root = tmp_path_factory.mktemp("merged") / "t"
        shutil.copytree(origin, root)
        if not has_index:
            drop_index(root, "ids")
            drop_index(root, "keys")
        merge = da.merge(root, source_of(ids), on)
        merge = merge.when_matched_update({"n": "source.n"})
        merge = merge.when_not_matched_insert({"id": "source.id", "key": "77", "n": "3"})
        if others:
            merge = merge.when_not_matched_by_source_delete("target.id = 33")
        merge.execute()
        results.append(sorted(map(repr, rows(da.to_table(root)))))
        shutil.rmtree(root)
    assert results[0] == results[1]
