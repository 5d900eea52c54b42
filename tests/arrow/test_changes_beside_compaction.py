"""Row changes that conflict with a compaction: they rerun on the compacted files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.ddl import set_properties
from delta_ops.errors import CommitConflictError
from delta_ops.events import Event
from delta_ops.maintenance import optimize
from delta_ops.transaction import CommitResult

SOURCE = pa.table({"id": [2, 9], "v": ["b2", "i"]})
Change = Callable[..., CommitResult]


def merge(target: Any, source: Any = SOURCE, **options: Any) -> CommitResult:
    builder = da.merge(target, source, "target.id = source.id", **options)
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def merge_of_reader(target: Any, **options: Any) -> CommitResult:
    return merge(target, SOURCE.to_reader(), **options)


def delete(target: Any, **options: Any) -> CommitResult:
    return da.delete(target, "id = 2", **options)


def update(target: Any, **options: Any) -> CommitResult:
    return da.update(target, {"v": "'b2'"}, "id = 2", **options)


def replace_where(target: Any, source: Any = SOURCE, **options: Any) -> CommitResult:
    matched = col("id").isin([2, 9])
    return da.write(target, source, "overwrite", replace_where=matched, **options)


def replace_where_by_reader(target: Any, **options: Any) -> CommitResult:
    return replace_where(target, SOURCE.to_reader(), **options)


CHANGES: dict[Change, dict[int, str]] = {
    delete: {1: "a", 3: "c"},
    update: {1: "a", 2: "b2", 3: "c"},
    merge: {1: "a", 2: "b2", 3: "c", 9: "i"},
    merge_of_reader: {1: "a", 2: "b2", 3: "c", 9: "i"},
    replace_where: {1: "a", 2: "b2", 3: "c", 9: "i"},
    replace_where_by_reader: {1: "a", 2: "b2", 3: "c", 9: "i"},
}


def three_files(root: Path, **properties: str) -> None:
    for number, letter in enumerate("abc", 1):
        rows = pa.table({"id": [number], "v": [letter]})
        da.write(root, rows, configuration=properties or None)


def acting_at(point: str, *acts: Callable[[], object]) -> Callable[[Event], None]:
    """A listener that acts once for each event of this name, while actions are left."""
    left = list(acts)

    def on_event(event: Event) -> None:
        if type(event).__name__ == point and left:
            left.pop(0)()

    return on_event


def values(root: Path) -> dict[int, str]:
    return {row["id"]: row["v"] for row in da.to_table(root).to_pylist()}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_change_is_made_on_the_files_of_a_compaction(
    tmp_path: Path, change: Change, vectors: str
) -> None:
    three_files(tmp_path, **{"delta.enableDeletionVectors": vectors})

    def compact() -> None:
        da.write(tmp_path, pa.table({"id": [77], "v": ["x"]}))
        assert optimize(tmp_path).files_removed > 1

    on_event = acting_at("DataFilesStaged", compact, compact)
    result = change(tmp_path, on_event=on_event, txn=("app", 1))
    assert values(tmp_path) == {**CHANGES[change], 77: "x"}
    (info,) = DeltaLog(tmp_path).history(limit=1)
    assert (result.version, info.version) == (7, 7)
    assert (
        result.metrics["numOutputRows" if "replace" in change.__name__ else "executionTimeMs"] >= 0
    )
    assert change(tmp_path, txn=("app", 1)).already_committed


def test_a_merge_begins_again_with_the_columns_and_metadata_of_its_source(tmp_path: Path) -> None:
    three_files(tmp_path)
    unit = pa.field("price", pa.int64(), metadata={"unit": "EUR"})
    schema = pa.schema([("id", pa.int64()), ("at", pa.time64("us")), unit])
    builder = da.merge(
        tmp_path,
        pa.table([[2], [None], [5]], schema=schema).to_reader(),
        "target.id = source.id",
        merge_schema=True,
        on_event=acting_at("DataFilesStaged", lambda: optimize(tmp_path)),
    )
    result = builder.when_matched_update_all(except_cols=["at"]).execute()
    assert result.version == 4
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.schema.fields[-1].metadata == {"unit": "EUR"}
    prices = da.to_table(tmp_path).sort_by("id")["price"].to_pylist()
    assert prices == [None, 5, None]


def test_a_write_that_lost_to_a_compaction_leaves_no_file(tmp_path: Path) -> None:
    three_files(tmp_path)
    named = {str(each.path) for each in DeltaLog(tmp_path).snapshot().add_files()}
    update(tmp_path, on_event=acting_at("DataFilesStaged", lambda: optimize(tmp_path)))
    log = DeltaLog(tmp_path)
    for version in range(log.snapshot().version + 1):
        named |= {str(each.path) for each in log.snapshot(version=version).add_files()}
    assert {each.name for each in tmp_path.glob("*.parquet")} == named


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda root: da.delete(root, "id = 2"), id="the same rows"),
        pytest.param(lambda root: da.update(root, {"v": "'z'"}), id="all rows"),
        pytest.param(
            lambda root: (optimize(root), set_properties(root, {"delta.appendOnly": "true"})),
            id="a compaction and other properties",
        ),
    ],
)
def test_a_change_of_others_is_a_conflict_as_ever(
    tmp_path: Path, meanwhile: Callable[[Path], object]
) -> None:
    three_files(tmp_path)
    with pytest.raises(CommitConflictError):
        update(tmp_path, on_event=acting_at("DataFilesStaged", lambda: meanwhile(tmp_path)))


FEED = {"delta.enableChangeDataFeed": "true"}


def test_an_overwrite_writes_its_rows_once(tmp_path: Path) -> None:
    three_files(tmp_path, **FEED)
    on_event = acting_at("DataFilesStaged", lambda: optimize(tmp_path))
    result = replace_where(tmp_path, on_event=on_event)
    assert (result.version, result.metrics["numOutputRows"]) == (4, 2)
    log = DeltaLog(tmp_path)
    named = {str(each.path) for v in range(5) for each in log.snapshot(version=v).add_files()}
    assert {each.name for each in tmp_path.glob("*.parquet")} == named
    changes = pa.table(da.read_changes(tmp_path, 4, columns=["id", "v", "_change_type"]))
    assert sorted(tuple(row.values()) for row in changes.to_pylist()) == [
        (2, "b", "delete"),
        (2, "b2", "insert"),
        (9, "i", "insert"),
    ]


def overwrite(target: Any, **options: Any) -> CommitResult:
    return da.write(target, SOURCE, "overwrite", **options)


def overwrite_partitions(target: Any, **options: Any) -> CommitResult:
    return da.write(target, SOURCE, "overwrite", partition_overwrite_mode="dynamic", **options)


@pytest.mark.parametrize("change", [overwrite, overwrite_partitions])
def test_an_overwrite_replaces_the_files_of_a_compaction(tmp_path: Path, change: Change) -> None:
    three_files(tmp_path)
    result = change(tmp_path, on_event=acting_at("DataFilesStaged", lambda: optimize(tmp_path)))
    assert (result.version, values(tmp_path)) == (4, {2: "b2", 9: "i"})


@pytest.mark.parametrize("change", [overwrite, replace_where])
@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_an_overwrite_never_removes_rows_that_were_added_beside_a_compaction(
    tmp_path: Path, change: Change, *, is_first: bool
) -> None:
    three_files(tmp_path)

    def act() -> None:
        for adds in (is_first, not is_first):
            if adds:
                da.write(tmp_path, pa.table({"id": [9], "v": ["added"]}))
            else:
                optimize(tmp_path)

    with pytest.raises(CommitConflictError, match="added rows to what this operation has read"):
        change(tmp_path, on_event=acting_at("DataFilesStaged", act))
    assert values(tmp_path) == {1: "a", 2: "b", 3: "c", 9: "added"}


def test_an_overwrite_of_the_schema_is_a_conflict_as_ever(tmp_path: Path) -> None:
    three_files(tmp_path)
    on_event = acting_at("DataFilesStaged", lambda: optimize(tmp_path))
    with pytest.raises(CommitConflictError):
        da.write(
            tmp_path, SOURCE.select(["v"]), "overwrite", overwrite_schema=True, on_event=on_event
        )


def test_a_transaction_of_the_caller_is_not_begun_again(tmp_path: Path) -> None:
    three_files(tmp_path)
    transaction = begin(tmp_path)
    optimize(tmp_path)
    with pytest.raises(CommitConflictError, match="files that this operation replaces"):
        update(transaction)
