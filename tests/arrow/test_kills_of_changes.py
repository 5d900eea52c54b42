"""A change killed at any storage call is done or not done, and done once after a rerun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.read.scan import read_kept
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import vacuum
from delta_ops.protocol.row_tracking import row_columns
from tests.support.faulty_storage import copies_of, crashes
from tests.support.tables import rows
from tests.transaction.test_commit_crash_points import files_of

TXN = ("changes", 1)
Rows = set[tuple[int, str]]


def delete(log: DeltaLog) -> Any:
    return da.delete(log, col("id") >= 3, txn=TXN)


def update(log: DeltaLog) -> Any:
    return da.update(log, {"p": "'z'"}, col("id").isin([1, 4]), txn=TXN)


def merge(log: DeltaLog) -> Any:
    source = pa.table({"id": [2, 4, 9], "p": ["m", "gone", "n"]})
    merge = da.merge(log, source, "target.id = source.id", txn=TXN)
    merge = merge.when_matched_delete("source.p = 'gone'").when_matched_update_all()
    return merge.when_not_matched_insert_all().execute()


def overwrite(log: DeltaLog) -> Any:
    new = pa.table({"id": [2], "p": ["o"]})
    return da.write(log, new, "overwrite", replace_where=col("id") == 2, txn=TXN)


BEFORE: Rows = {(1, "a"), (2, "a"), (3, "b"), (4, "b")}
AFTER: dict[Callable[[DeltaLog], Any], Rows] = {
    delete: {(1, "a"), (2, "a")},
    update: {(1, "z"), (2, "a"), (3, "b"), (4, "z")},
    merge: {(1, "a"), (2, "m"), (3, "b"), (9, "n")},
    overwrite: {(1, "a"), (2, "o"), (3, "b"), (4, "b")},
}


def rows_of(log: DeltaLog) -> Rows:
    found = [(row["id"], row["p"]) for row in rows(da.to_table(log))]
    assert len(set(found)) == len(found)
    return set(found)


def assert_ids_are_unique(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    names = row_columns(snapshot.definition, snapshot.uri)
    assert names is not None
    batches = read_kept(snapshot, snapshot.add_files(), ["id", names.row_id])
    ids = {row["id"]: row[names.row_id] for batch in batches for row in batch.to_pylist()}
    assert len(set(ids.values())) == len(ids)
    assert {n: ids[n] for n in (1, 3) if n in ids} == {n: n - 1 for n in (1, 3) if n in ids}


def assert_changes_once(log: DeltaLog, after: Rows) -> None:
    """The feed of all versions adds up to the current rows."""
    changes = rows(pa.table(da.read_changes(log, 0)))
    came, gone = ("insert", "update_postimage"), ("delete", "update_preimage")
    counts: dict[tuple[int, str], int] = {}
    for row in changes:
        sign = 1 if row["_change_type"] in came else -1
        assert row["_change_type"] in (*came, *gone)
        key = row["id"], row["p"]
        counts[key] = counts.get(key, 0) + sign
    assert {key for key, number in counts.items() if number} == after
    assert set(counts.values()) <= {0, 1}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(delete, marks=pytest.mark.full),
        pytest.param(merge, marks=pytest.mark.full),
        pytest.param(update, marks=pytest.mark.full),
        pytest.param(overwrite, marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    "vectors",
    [pytest.param("false", id="files", marks=pytest.mark.long), pytest.param("true", id="vectors")],
)
def test_a_kill_leaves_the_rows_of_before_or_after(
    tmp_path: Path, change: Callable[[DeltaLog], Any], vectors: str
) -> None:
    root = tmp_path / "table"
    properties = {
        "delta.enableDeletionVectors": vectors,
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.checkpointInterval": "2",
    }
    da.write(root, pa.table({"id": [1, 2], "p": ["a", "a"]}), configuration=properties)
    da.write(root, pa.table({"id": [3, 4], "p": ["b", "b"]}))
    fresh = copies_of(root, tmp_path)
    seen, searched = set(), set()
    for where, left in crashes(fresh, lambda storage: change(DeltaLog("", storage=storage))):
        files = files_of(left)
        if files in searched:
            continue
        searched.add(files)
        log = DeltaLog("", storage=left)
        version = log.snapshot().version
        seen.add(version)
        assert rows_of(log) == {1: BEFORE, 2: AFTER[change]}[version], where
        change(log)
        assert log.snapshot().version == 2, where
        assert rows_of(log) == AFTER[change], where
        assert_changes_once(log, AFTER[change])
        assert_ids_are_unique(log)
        validate_checksum(log.snapshot())
        vacuum(log, clock=lambda: system_clock() + 30 * DAY_MS)
        assert rows_of(log) == AFTER[change], where
    assert seen == {1, 2}
