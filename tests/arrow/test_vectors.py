"""Deletes and updates by deletion vectors, compared with plain Python rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, parse_expression
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint, optimize, vacuum
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.predicate import Predicate
from tests.support.counting_storage import CountingStorage
from tests.support.examples import check_examples, few_or_many
from tests.support.tables import live_paths, rows

ENABLED = {"delta.enableDeletionVectors": "true"}
Step = tuple[str, int, int]


def table(root: Path, *files: Sequence[int], **settings: Any) -> DeltaLog:
    """One file per list of ids; `value` is ten times the id."""
    for ids in files:
        da.write(root, data(ids), configuration=ENABLED, **settings)
    return DeltaLog(root)


def data(ids: Sequence[int]) -> pa.Table:
    columns = {"id": pa.array(ids, pa.int64()), "value": pa.array([10 * i for i in ids])}
    return pa.table({**columns, "odd": pa.array([i % 2 for i in ids], pa.int64())})


def ids_of(log: DeltaLog) -> list[int]:
    return sorted(da.to_table(log, columns=["id"])["id"].to_pylist())


def rows_by_query(log: DeltaLog) -> list[dict[str, Any]]:
    """The rows as deltalake finds them."""
    query = QueryBuilder().register("t", DeltaTable(log.uri))
    return rows(pa.table(query.execute("SELECT * FROM t")))


def vectors_of(log: DeltaLog) -> dict[str, DeletionVector]:
    adds = log.snapshot().add_files()
    return {add.path: add.deletion_vector for add in adds if add.deletion_vector}


def vector_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("deletion_vector_*.bin"))


def between(low: int, high: int) -> Predicate:
    return (col("id") >= low) & (col("id") < high)


@few_or_many(12, 40)
def test_any_steps_leave_what_they_do_to_plain_rows(num_examples: int) -> None:
    check_examples(
        num_examples,
        check_steps,
        st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), min_size=1, max_size=3),
        st.lists(
            st.tuples(
                st.sampled_from(["delete", "update", "compact", "checkpoint"]),
                st.integers(0, 30),
                st.integers(1, 12),
            ),
            min_size=1,
            max_size=6,
        ),
        st.booleans(),
    )


def check_steps(files: list[list[int]], steps: list[Step], is_partitioned: bool) -> None:
    with tempfile.TemporaryDirectory() as root:
        log = table(Path(root), *files, partition_by=["odd"] if is_partitioned else None)
        model = rows(da.to_table(log))
        for what, low, length in steps:
            inside = between(low, low + length)
            if what == "delete":
                da.delete(log, inside)
                model = [row for row in model if not low <= row["id"] < low + length]
            elif what == "update":
                da.update(log, {"value": parse_expression("value + 1"), "odd": 5}, inside)
                for row in model:
                    if low <= row["id"] < low + length:
                        row |= {"value": row["value"] + 1, "odd": 5}
            elif what == "compact":
                optimize(log)
            else:
                create_checkpoint(log)
            expected = sorted(model, key=lambda row: [repr(row[name]) for name in sorted(row)])
            assert rows(da.to_table(log)) == expected
            assert da.count_rows(log) == len(expected)
        assert rows_by_query(log) == expected
        validate_checksum(log.snapshot())


def test_a_delete_writes_one_file_of_vectors_and_no_rows(tmp_path: Path) -> None:
    log = table(tmp_path, range(10), range(10, 20), range(20, 30))
    before = live_paths(log)
    result = da.delete(log, between(8, 12))
    assert live_paths(log) == before
    assert len(vector_files(tmp_path)) == 1
    assert sorted(each.cardinality for each in vectors_of(log).values()) == [2, 2]
    assert {name: result.metrics[name] for name in result.metrics if "Vector" in name} == {
        "numDeletionVectorsAdded": 2,
        "numDeletionVectorsRemoved": 0,
        "numDeletionVectorsUpdated": 0,
    }
    assert (result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (4, 0)


def test_a_later_vector_contains_the_earlier_vector(tmp_path: Path) -> None:
    log = table(tmp_path, range(10))
    da.delete(log, col("id") == 3)
    result = da.delete(log, col("id") == 7)
    assert [each.cardinality for each in vectors_of(log).values()] == [2]
    assert result.metrics["numDeletionVectorsUpdated"] == 1
    assert ids_of(log) == [0, 1, 2, 4, 5, 6, 8, 9]


def test_a_file_that_loses_its_last_row_is_removed(tmp_path: Path) -> None:
    log = table(tmp_path, range(3), range(5, 8))
    da.delete(log, col("id") < 2)
    da.delete(log, between(2, 4))
    assert len(live_paths(log)) == 1
    assert ids_of(log) == [5, 6, 7]


@pytest.mark.parametrize("size", [4, 200_000], ids=["a batch", "some batches"])
def test_rows_deleted_by_vectors_are_never_evaluated(tmp_path: Path, size: int) -> None:
    codes = [str(number) if number % 4 else "none" for number in range(size)]
    da.write(tmp_path, pa.table({"code": codes, "v": range(size)}), configuration=ENABLED)
    da.delete(tmp_path, "code = 'none'")
    da.update(tmp_path, {"v": "-1"}, "CAST(code AS INT) % 4 = 1")
    da.delete(tmp_path, "CAST(code AS INT) % 4 = 3")
    found = da.to_table(tmp_path)
    kept = [(code, number) for number, code in enumerate(codes) if number % 4 == 2]
    changed = [(code, -1) for number, code in enumerate(codes) if number % 4 == 1]
    pairs = zip(found["code"].to_pylist(), found["v"].to_pylist(), strict=True)
    assert sorted(pairs) == sorted(kept + changed)


def test_statistics_of_a_file_with_a_vector_are_not_tight(tmp_path: Path) -> None:
    log = table(tmp_path, range(10))
    da.delete(log, col("id") == 9)
    (add,) = log.snapshot().add_files()
    assert add.stats is not None
    assert '"tightBounds":false' in add.stats
    assert '"numRecords":10' in add.stats


def test_an_update_writes_only_the_rows_that_it_changes(tmp_path: Path) -> None:
    log = table(tmp_path, range(10), range(10, 20))
    before = live_paths(log)
    result = da.update(log, {"value": 0}, between(8, 12))
    (new,) = live_paths(log) - before
    assert da.to_table(log, predicate=col("value") == 0)["id"].to_pylist().count(8) == 1
    assert result.metrics["numAddedFiles"] == 1
    assert (result.metrics["numUpdatedRows"], result.metrics["numCopiedRows"]) == (4, 0)
    assert new not in vectors_of(log)
    assert rows_by_query(log) == rows(da.to_table(log))


@pytest.mark.parametrize("change", ["delete", "update"])
def test_changes_of_different_rows_of_a_file_both_stay(tmp_path: Path, change: str) -> None:
    log = table(tmp_path, range(10))
    first, second = begin(log), begin(log)
    da.delete(second, col("id") == 4)
    if change == "delete":
        da.delete(first, col("id") == 3)
        expected = [0, 1, 2, 5, 6, 7, 8, 9]
    else:
        da.update(first, {"value": -1}, col("id") == 3)
        expected = [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert ids_of(log) == expected
    assert rows_by_query(log) == rows(da.to_table(log))
    validate_checksum(log.snapshot())


def test_changes_of_one_row_do_not(tmp_path: Path) -> None:
    log = table(tmp_path, range(10))
    first, second = begin(log), begin(log)
    da.update(second, {"value": 1}, col("id") == 4)
    with pytest.raises(CommitConflictError):
        da.update(first, {"value": 2}, between(4, 6))
    assert len(vector_files(tmp_path)) == 1
    assert ids_of(log) == list(range(10))


def test_a_refused_write_leaves_no_file(tmp_path: Path) -> None:
    configuration = {**ENABLED, "delta.constraints.few": "value < 1000"}
    da.write(tmp_path, data(range(10)), configuration=configuration)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match="few"):
        da.update(tmp_path, {"value": 5000}, col("id") == 3)
    assert sorted(tmp_path.rglob("*")) == before


def test_compaction_and_vacuum_take_vectors_away(tmp_path: Path) -> None:
    log = table(tmp_path, range(10), range(10, 20))
    da.delete(log, between(5, 15))
    optimize(log)
    assert vectors_of(log) == {}
    vacuum(log, clock=lambda: system_clock() + 10 * DAY_MS)
    assert vector_files(tmp_path) == []
    assert ids_of(log) == [*range(5), *range(15, 20)]


def test_vacuum_keeps_vectors_that_are_needed(tmp_path: Path) -> None:
    log = table(tmp_path, range(10))
    da.delete(log, col("id") == 1)
    vacuum(log, clock=lambda: system_clock() + 10 * DAY_MS)
    assert ids_of(log) == [0, *range(2, 10)]


def test_replaced_rows_of_files_with_vectors_do_not_come_back(tmp_path: Path) -> None:
    log = table(tmp_path, range(10))
    da.delete(log, col("id") == 1)
    da.write(log, data([5]), mode="overwrite", replace_where=between(5, 7))
    assert ids_of(log) == [0, 2, 3, 4, 5, 7, 8, 9]
    assert rows_by_query(log) == rows(da.to_table(log))


def test_rows_can_be_deleted_by_vectors_once_the_table_has_the_feature(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, data(range(10)))
    txn = begin(log)
    txn.set_properties(ENABLED)
    txn.commit(operation="SET TBLPROPERTIES")
    before = live_paths(log)
    da.delete(log, col("id") == 1)
    assert live_paths(log) == before
    assert log.snapshot().protocol.reader_features == ("deletionVectors",)


MERGED = pa.table({"id": [2, 3, 9], "value": [200, 300, 900], "odd": [0, 1, 1]})


def test_a_merge_marks_the_rows_that_change_and_leaves_their_files(tmp_path: Path) -> None:
    log = table(tmp_path, [1, 2, 3, 4], [5, 6], [10, 11])
    da.delete(log, col("id") == 1)
    files = live_paths(log)
    merge = da.merge(log, MERGED, "target.id = source.id").when_matched_delete("source.odd = 1")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    result = merge.when_not_matched_by_source_delete("target.id < 7 AND target.id > 4").execute()
    assert ids_of(log) == [2, 4, 9, 10, 11]
    assert rows_by_query(log) == rows(da.to_table(log))
    kept = vectors_of(log)
    assert [each.cardinality for each in kept.values()] == [3]
    assert set(kept) < set(files)
    metrics = result.metrics
    named = ("Added", "Removed", "Updated")
    assert [metrics[f"numTargetDeletionVectors{each}"] for each in named] == [1, 1, 1]
    assert [metrics[f"numTarget{each}"] for each in ("RowsCopied", "FilesRemoved")] == [0, 1]
    assert metrics["numOutputRows"] == 2


def test_a_merge_of_all_columns_opens_files_for_their_keys_alone(tmp_path: Path) -> None:
    log = table(tmp_path, range(100), range(100, 200))
    rows_read: list[str] = []

    def note(_number: int, method: str, path: str, when: str) -> None:
        if path.endswith(".parquet") and method == "open_input" and when == "before":
            rows_read.append(path)

    counted = log.over(CountingStorage(log.storage, note))
    source = pa.table({"id": [7, 8], "value": [1, 2], "odd": [5, 5]})
    da.merge(counted, source, "target.id = source.id").when_matched_update_all().execute()
    assert len(rows_read) == 1
    found = {row["id"]: row["odd"] for row in rows(da.to_table(log))}
    assert (found[7], found[8], found[9]) == (5, 5, 1)


@pytest.mark.parametrize("updates", [{"value": "target.value + source.value"}, {"value": "1L"}])
def test_a_merge_keeps_the_columns_that_it_does_not_change(
    tmp_path: Path, updates: dict[str, str]
) -> None:
    log = table(tmp_path, range(10))
    da.delete(log, col("id") < 3)
    source = pa.table({"id": [2, 5, 6], "value": [1, 1, 1]})
    da.merge(log, source, "target.id = source.id").when_matched_update(updates).execute()
    new = {5: 51, 6: 61} if "target" in updates["value"] else {5: 1, 6: 1}
    expected = [{"id": i, "value": new.get(i, 10 * i), "odd": i % 2} for i in range(3, 10)]
    assert rows(da.to_table(log)) == rows(pa.Table.from_pylist(expected))


def test_two_merges_into_one_file_are_not_both_committed(tmp_path: Path) -> None:
    log = table(tmp_path, range(10))
    begun = begin(log)
    da.delete(log, col("id") == 3)
    source = pa.table({"id": [5], "value": [1], "odd": [1]})
    late = da.merge(begun, source, "target.id = source.id").when_matched_update_all()
    with pytest.raises(CommitConflictError):
        late.execute()
    assert len(vector_files(tmp_path)) == 1


@pytest.mark.parametrize("stats", [None, "junk", '{"maxValues":{"id":3}}'])
def test_a_file_with_a_vector_has_its_number_of_rows(tmp_path: Path, stats: str | None) -> None:
    log = table(tmp_path, [1, 2, 3])
    snapshot = log.snapshot()
    (written,) = snapshot.add_files()
    create_commit(log.storage, log.log_directory, 1, [replace(written, stats=stats)])
    da.delete(log, "id = 2")
    (add,) = log.snapshot().add_files()
    assert add.stats is not None
    recorded = json.loads(add.stats)
    assert (recorded["numRecords"], recorded["tightBounds"]) == (3, False)
    assert recorded.get("maxValues") == ({"id": 3} if stats and "maxValues" in stats else None)
    assert ids_of(log) == [1, 3]
    assert da.count_rows(log) == 2
