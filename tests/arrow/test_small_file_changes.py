"""Changes of many small files: their rows go to few files, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.dml.cached_rows import Cache, CachedRows
from delta_ops.arrow.read.scan import read_kept
from delta_ops.ddl import set_properties
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.row_tracking import row_columns
from tests.support.tables import rows, rows_by_deltalake

Row = Mapping[str, Any]
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
PARTS = ("a", "b c", None)
NUM_FILES, NUM_ROWS = 12, 5


def make(root: Path, properties: Mapping[str, str], partition_by: Sequence[str]) -> Sequence[Row]:
    """Write files of a few rows, of three partitions in turn; return the rows."""
    for number in range(NUM_FILES):
        ids = range(number * NUM_ROWS, (number + 1) * NUM_ROWS)
        data = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "p": pa.array([PARTS[number % 3]] * NUM_ROWS, pa.string()),
                "place": pa.array(range(NUM_ROWS), pa.int32()),
                "v": pa.array([float(each) for each in ids]),
            }
        )
        da.write(root, data, partition_by=partition_by, configuration=dict(properties))
    return rows(da.to_table(root))


def delete_one_of_each(root: Path) -> Any:
    return da.delete(root, col("place") == 2)


def update_one_of_each(root: Path) -> Any:
    return da.update(root, {"v": "v + 1000"}, col("place") == 2)


def merge_one_of_each(root: Path) -> Any:
    source = pa.table({"key": pa.array(range(2, NUM_FILES * NUM_ROWS, NUM_ROWS), pa.int64())})
    merge = da.merge(root, source, "target.id = source.key")
    return merge.when_matched_update({"v": "v + 1000"}).execute()


def merge_that_deletes_one_of_each(root: Path) -> Any:
    source = pa.table({"key": pa.array(range(2, NUM_FILES * NUM_ROWS, NUM_ROWS), pa.int64())})
    merge = da.merge(root, source, "target.id = source.key")
    return merge.when_matched_delete().execute()


Change = Callable[[Path], Any]
DELETES: Sequence[Change] = (delete_one_of_each, merge_that_deletes_one_of_each)
UPDATES: Sequence[Change] = (update_one_of_each, merge_one_of_each)
CHANGES = (*DELETES, *UPDATES)
ALL_AT_ONCE = "tracked, mapped, partitioned, feed"
LAYOUTS: Mapping[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "plain": ({}, ()),
    "partitioned": ({}, ("p",)),
    "mapped, partitioned": (MAPPED, ("p",)),
    "tracked, feed": ({**TRACKED, **FEED}, ()),
    ALL_AT_ONCE: ({**TRACKED, **MAPPED, **FEED}, ("p",)),
}


def expected(before: Sequence[Row], change: Change) -> list[Row]:
    if change in DELETES:
        return [row for row in before if row["place"] != 2]
    return [{**row, "v": row["v"] + 1000 * (row["place"] == 2)} for row in before]


def live_files(root: Path) -> list[AddFile]:
    return list(DeltaLog(root).snapshot().add_files())


def by_id(found: Sequence[Row]) -> list[Row]:
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(name, marks=() if name in ("plain", ALL_AT_ONCE) else pytest.mark.full)
        for name in LAYOUTS
    ],
)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_rows_of_small_files_go_to_one_file_for_each_partition(
    tmp_path: Path, change: Change, layout: str
) -> None:
    properties, partition_by = LAYOUTS[layout]
    before = make(tmp_path, properties, partition_by)
    metrics = change(tmp_path).metrics
    files = live_files(tmp_path)
    assert len(files) == (len(PARTS) if partition_by else 1)
    assert by_id(rows(da.to_table(tmp_path))) == by_id(expected(before, change))
    added = metrics.get("numAddedFiles", metrics.get("numTargetFilesAdded"))
    removed = metrics.get("numRemovedFiles", metrics.get("numTargetFilesRemoved"))
    assert (added, removed) == (len(files), NUM_FILES)
    copied = metrics.get("numCopiedRows", metrics.get("numTargetRowsCopied"))
    assert copied == NUM_FILES * (NUM_ROWS - 1)
    validate_checksum(DeltaLog(tmp_path).snapshot())


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_deltalake_reads_the_new_files(tmp_path: Path, change: Change) -> None:
    make(tmp_path, {}, ("p",))
    change(tmp_path)
    assert by_id(rows_by_deltalake(tmp_path)) == by_id(rows(da.to_table(tmp_path)))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_row_ids_and_versions_stay_with_their_rows(tmp_path: Path, change: Change) -> None:
    make(tmp_path, TRACKED, ("p",))
    before = tracked(tmp_path)
    version = change(tmp_path).version
    after = tracked(tmp_path)
    kept = {number: found for number, found in before.items() if number % NUM_ROWS != 2}
    assert {number: after[number] for number in kept} == kept
    for number in after.keys() - kept.keys():
        assert after[number] == (before[number][0], version)


def tracked(root: Path) -> dict[int, tuple[int, int]]:
    """Return the row id and row commit version of each row, by the row's own number."""
    snapshot = DeltaLog(root).snapshot()
    names = row_columns(snapshot.definition, snapshot.uri)
    assert names is not None
    found = [
        row
        for batch in read_kept(snapshot, snapshot.add_files(), ["id", *names])
        for row in batch.to_pylist()
    ]
    assert len({row[names.row_id] for row in found}) == len(found)
    return {row["id"]: (row[names.row_id], row[names.commit_version]) for row in found}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "partition_by",
    [
        pytest.param((), id="one partition", marks=pytest.mark.full),
        pytest.param(("p",), id="three partitions"),
    ],
)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_the_change_data_feed_gets_one_file_for_each_partition(
    tmp_path: Path, change: Change, partition_by: Sequence[str]
) -> None:
    before = make(tmp_path, FEED, partition_by)
    result = change(tmp_path)
    metrics = result.metrics
    number = metrics.get("numAddedChangeFiles", metrics.get("numTargetChangeFilesAdded"))
    assert number == (len(PARTS) if partition_by else 1)
    feed = rows(da.read_changes(tmp_path, result.version).read_all())
    found = sorted((row["id"], row["_change_type"], row["v"]) for row in feed)
    changed = [row for row in before if row["place"] == 2]
    if change in DELETES:
        assert found == [(row["id"], "delete", row["v"]) for row in by_id(changed)]
    else:
        assert found == sorted(
            each
            for row in changed
            for each in (
                (row["id"], "update_preimage", row["v"]),
                (row["id"], "update_postimage", row["v"] + 1000),
            )
        )


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_rows_that_a_vector_marks_stay_deleted(tmp_path: Path, change: Change) -> None:
    make(tmp_path, {"delta.enableDeletionVectors": "true"}, ())
    da.delete(tmp_path, col("place") == 4)
    set_properties(tmp_path, {"delta.enableDeletionVectors": "false"})
    before = rows(da.to_table(tmp_path))
    change(tmp_path)
    assert by_id(rows(da.to_table(tmp_path))) == by_id(expected(before, change))
    (file,) = live_files(tmp_path)
    assert file.deletion_vector is None


def test_files_without_changed_rows_stay(tmp_path: Path) -> None:
    make(tmp_path, {}, ())
    before = {each.path for each in live_files(tmp_path)}
    # Three files have changed rows; statistics cannot exclude the others.
    da.update(tmp_path, {"v": "0"}, "id % 20 = 0")
    after = {each.path for each in live_files(tmp_path)}
    assert (len(before - after), len(after - before)) == (3, 1)
    assert da.count_rows(tmp_path) == NUM_FILES * NUM_ROWS


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_new_files_have_the_target_size_of_the_table(tmp_path: Path, change: Change) -> None:
    before = make(tmp_path, {}, ())
    size = sum(each.size for each in live_files(tmp_path))
    set_properties(tmp_path, {"delta.targetFileSize": str(size // 4 + 1)})
    change(tmp_path)
    assert 3 <= len(live_files(tmp_path)) <= 4
    assert by_id(rows(da.to_table(tmp_path))) == by_id(expected(before, change))


def test_moved_rows_go_to_one_file_for_each_new_partition(tmp_path: Path) -> None:
    make(tmp_path, FEED, ("p",))
    result = da.update(tmp_path, {"p": "cast(place as string)"}, "place < 2")
    values = sorted(str(each.partition_values["p"]) for each in live_files(tmp_path))
    assert values == ["0", "1", "None", "a", "b c"]
    found = da.to_table(tmp_path, predicate=col("place") < 2)
    assert found["p"].to_pylist() == [str(each) for each in found["place"].to_pylist()]
    assert result.metrics["numCopiedRows"] == NUM_FILES * (NUM_ROWS - 2)
    feed = da.read_changes(tmp_path, result.version).read_all()
    assert pc.value_counts(feed["_change_type"]).to_pylist() == [
        {"values": "update_preimage", "counts": NUM_FILES * 2},
        {"values": "update_postimage", "counts": NUM_FILES * 2},
    ]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "order",
    [(0, 1, 2), *(pytest.param(each, marks=pytest.mark.full) for each in ((1, 0, 2), (2, 1, 0)))],
)
def test_repeated_and_distinct_texts_go_to_one_file(tmp_path: Path, order: tuple[int, ...]) -> None:
    """The texts of some files are read as dictionaries, the texts of the others are plain."""
    many = 20_000
    texts = (
        [f"text {number % 7}" for number in range(many)],
        [f"text {number}" for number in range(many)],
        [None if number % 3 else f"short {number % 2}" for number in range(100)],
    )
    for number in order:
        ids = range(number * many, number * many + len(texts[number]))
        da.write(tmp_path, pa.table({"id": pa.array(ids, pa.int64()), "s": texts[number]}))
    da.update(tmp_path, {"id": "id + 1000000"}, "id % 100 = 5")
    (file,) = live_files(tmp_path)
    found = {row["id"] % 1_000_000: row["s"] for row in rows(da.to_table(tmp_path))}
    assert found == {
        number * many + place: text for number in order for place, text in enumerate(texts[number])
    }
    assert pq.read_table(tmp_path / file.path).num_rows == len(found)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: da.delete(root, "1 = 1"), id="delete"),
        pytest.param(lambda root: da.update(root, {"n": "0"}, "1 = 1"), id="update"),
    ],
)
def test_a_condition_without_columns_meets_repeated_and_distinct_texts(
    tmp_path: Path, change: Change
) -> None:
    """The first column, which counts the rows, is a dictionary in one of the files only."""
    many = 10_000
    for texts in (["text"] * many, ["other"]):
        da.write(tmp_path, pa.table({"s": texts, "n": range(1, len(texts) + 1)}))
    change(tmp_path)
    assert da.count_rows(tmp_path, col("n") > 0) == 0


def test_a_merge_by_texts_that_are_read_as_dictionaries(tmp_path: Path) -> None:
    keys = [f"key {number // 5000}" for number in range(20_000)]
    for number in range(3):
        da.write(tmp_path, pa.table({"k": keys, "v": pa.array([number] * len(keys), pa.int64())}))
    source = pa.table({"k": ["key 1", "key 9"], "v": pa.array([7, 8], pa.int64())})
    merge = da.merge(tmp_path, source, "target.k = source.k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = da.to_table(tmp_path).group_by("v").aggregate([([], "count_all")])
    assert {row["v"]: row["count_all"] for row in found.to_pylist()} == {
        0: 15_000,
        1: 15_000,
        2: 15_000,
        7: 15_000,
        8: 1,
    }


def test_an_unreadable_column_of_a_file_without_changed_rows_does_not_matter(
    tmp_path: Path,
) -> None:
    for number in range(2):
        da.write(tmp_path, pa.table({"id": [2 * number, 2 * number + 3], "v": ["x", "y"]}))
    for file in live_files(tmp_path):
        data = pq.read_table(tmp_path / file.path)
        if data["id"][0].as_py() == 0:
            pq.write_table(data.set_column(1, "v", pa.array([1.5, 2.5])), tmp_path / file.path)
    da.delete(tmp_path, "id = 2")
    assert sorted(da.to_table(tmp_path, columns=["id"])["id"].to_pylist()) == [0, 3, 5]


def test_a_merge_inserts_beside_the_changed_rows(tmp_path: Path) -> None:
    before = make(tmp_path, {**TRACKED, **FEED}, ("p",))
    source = pa.table({"id": pa.array([2, 57, 1000, 1001]), "p": ["a", "a", "a", "new"]})
    source = source.append_column("place", pa.array([9] * 4, pa.int32()))
    source = source.append_column("v", pa.array([0.5] * 4))
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge.when_matched_update({"v": "source.v"}).when_not_matched_insert_all().execute()
    found = {row["id"]: row for row in rows(da.to_table(tmp_path))}
    assert len(found) == len(before) + 2
    assert [found[number]["v"] for number in (2, 57, 1000, 1001)] == [0.5] * 4
    assert len(tracked(tmp_path)) == len(found)


def some_file(name: str, size: int = 1) -> AddFile:
    return AddFile(path=name, size=size, partition_values={}, modification_time=0)


def test_a_cache_keeps_no_more_than_its_limit() -> None:
    cache: Cache[str] = Cache(max_bytes=10)
    for name, num_bytes in (("a", 6), ("b", 6), ("c", 4)):
        cache.put(some_file(name), name, num_bytes)
    assert [cache.take(some_file(name)) for name in "abc"] == ["a", None, "c"]
    assert cache.take(some_file("a")) is None
    cache.put(some_file("d"), "d", 10)
    assert cache.take(some_file("d")) == "d"


class CountedReads:
    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, files: Any) -> Iterator[pa.RecordBatch]:
        for file in files:
            self.paths.append(file.path)
            yield pa.record_batch({"path": [file.path]})


def test_cached_rows_are_read_once_and_in_order() -> None:
    read = CountedReads()
    cached = CachedRows(read)
    files = [some_file(name) for name in "abcd"]
    for file in files[1:3]:
        batches = cached.load(file)
        assert batches is not None
        cached.keep(file, batches, is_changed=file.path == "b")
    found = [batch["path"][0].as_py() for batch in cached.read(files)]
    assert found == ["a", "b", "c", "d"]
    assert sorted(read.paths) == ["a", "b", "c", "c", "d"]


def test_rows_are_not_cached_if_few_files_change() -> None:
    cached = CachedRows(CountedReads())
    for number in range(40):
        batches = cached.load(some_file(str(number)))
        if batches is not None:
            cached.keep(some_file(str(number)), batches, is_changed=False)
    assert cached.load(some_file("next")) is None
    assert CachedRows(CountedReads()).load(some_file("large", 1 << 30)) is None
