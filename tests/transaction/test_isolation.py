"""Isolation levels: the earlier commits that a commit tolerates."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.protocol.predicate import TRUE
from delta_ops.transaction import Staged
from tests.support.tables import live_paths, rows, write_log

LEVELS = ("Serializable", "WriteSerializable")


def ids(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def table(root: Path, level: str) -> DeltaLog:
    da.write(root, ids(1), configuration={"delta.isolationLevel": level})
    return DeltaLog(root)


def overwriting(log: DeltaLog) -> Transaction:
    """A transaction that reads all rows and replaces them by one row."""
    txn = begin(log)
    assert txn.snapshot
    txn.read(TRUE)
    txn.remove(txn.snapshot.add_files())
    txn.stage(da.stage_write(txn, ids(10)))
    return txn


def rearranged(log: DeltaLog, *values: int) -> Staged:
    written = da.stage_write(log, ids(*values))
    return replace(written, adds=tuple(replace(a, data_change=False) for a in written.adds))


def commit_info(log: DeltaLog) -> dict[str, object]:
    return dict(next(iter(log.history(limit=1))).commit_info)


def blind_append(log: DeltaLog) -> None:
    da.write(log, ids(2))


def dependent_append(log: DeltaLog) -> None:
    txn = begin(log)
    txn.read(col("id") == 1)
    txn.stage(da.stage_write(txn, ids(2)))
    txn.commit(operation="WRITE")


def rewrite_first_line(log: DeltaLog, **changes: object) -> None:
    """Change the commit info of the latest commit."""
    path = Path(log.uri) / "_delta_log" / f"{log.snapshot().version:020d}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["commitInfo"] |= changes
    path.write_text("\n".join(map(json.dumps, lines)))


def silent_append(log: DeltaLog) -> None:
    """An append by a writer that does not record isBlindAppend, such as deltalake."""
    da.write(log, ids(2))
    rewrite_first_line(log, isBlindAppend=None)


def lying_append(log: DeltaLog) -> None:
    """An append whose isBlindAppend is not a boolean."""
    da.write(log, ids(2))
    rewrite_first_line(log, isBlindAppend="false")


def lying_overwrite(log: DeltaLog) -> None:
    """An overwrite that records isBlindAppend although it removed files."""
    da.write(log, ids(2), mode="overwrite")
    rewrite_first_line(log, isBlindAppend=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("append", "is_tolerated"),
    [
        (blind_append, True),
        (dependent_append, False),
        (silent_append, False),
        (lying_append, False),
        (lying_overwrite, False),
    ],
)
def test_rows_appended_to_what_was_read(
    tmp_path: Path, level: str, append: Callable[[DeltaLog], None], is_tolerated: bool
) -> None:
    log = table(tmp_path, level)
    txn = overwriting(log)
    append(log)
    if is_tolerated and level == "WriteSerializable":
        txn.commit(operation="WRITE")
        assert rows(da.to_table(log)) == [{"id": 10}, {"id": 2}]
        return
    with pytest.raises(CommitConflictError, match="added rows") as raised:
        txn.commit(operation="WRITE")
    assert raised.value.kind == "concurrent append"
    (evidence,) = raised.value.evidence
    assert evidence in live_paths(log)


def test_a_change_of_metadata_tolerates_no_blind_append_to_what_it_read(tmp_path: Path) -> None:
    log = table(tmp_path, "WriteSerializable")
    txn = begin(log)
    txn.read(TRUE)
    txn.set_properties({"delta.appendOnly": "true"})
    blind_append(log)
    with pytest.raises(CommitConflictError, match="added rows"):
        txn.commit(operation="SET TBLPROPERTIES")


def only_recorded(txn: Transaction) -> None:
    txn.set_transaction(("app", 1))


def also_set(txn: Transaction) -> None:
    assert txn.snapshot
    txn.set_properties({"owner": "a team"})
    txn.remove(txn.snapshot.add_files(), data_change=False)
    txn.stage(rearranged(txn.log, 1))


@pytest.mark.parametrize("what", [only_recorded, also_set])
def test_only_what_rearranges_and_no_more_tolerates_all_appends(
    tmp_path: Path, what: Callable[[Transaction], None]
) -> None:
    log = table(tmp_path, "Serializable")
    txn = begin(log)
    txn.read(TRUE)
    what(txn)
    blind_append(log)
    with pytest.raises(CommitConflictError, match="added rows"):
        txn.commit(operation="WRITE")


@pytest.mark.parametrize("level", LEVELS)
def test_the_level_is_in_the_commit(tmp_path: Path, level: str) -> None:
    log = table(tmp_path, level)
    assert commit_info(log)["isolationLevel"] == level
    da.write(log, ids(2))
    rearrange = begin(log)
    rearrange.remove(log.snapshot().add_files(), data_change=False)
    rearrange.stage(rearranged(log, 1, 2))
    rearrange.commit(operation="OPTIMIZE")
    assert commit_info(log)["isolationLevel"] == "SnapshotIsolation"


@pytest.mark.parametrize("level", ["SnapshotIsolation", "bogus"])
def test_a_level_that_there_is_not_is_refused(tmp_path: Path, level: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"delta\.isolationLevel.*Serializable"):
        table(tmp_path, level)
    log = write_log(tmp_path, [[]])
    with pytest.raises(InvalidRequestError, match=r"delta\.isolationLevel.*Serializable"):
        begin(log).set_properties({"delta.isolationLevel": level})


@pytest.mark.parametrize("level", LEVELS)
def test_a_reader_does_not_mind_that_the_files_it_read_were_rearranged(
    tmp_path: Path, level: str
) -> None:
    log = table(tmp_path, level)
    txn = begin(log)
    txn.read(TRUE)
    txn.stage(da.stage_write(txn, ids(10)))
    rearrange = begin(log)
    rearrange.remove(log.snapshot().add_files(), data_change=False)
    rearrange.stage(rearranged(log, 1))
    rearrange.commit(operation="OPTIMIZE")
    txn.commit(operation="WRITE")
    assert rows(da.to_table(log)) == [{"id": 1}, {"id": 10}]


def test_a_rearrangement_that_loses_rows_is_refused(tmp_path: Path) -> None:
    log = table(tmp_path, "Serializable")
    da.write(log, ids(2, 3))
    txn = begin(log)
    txn.remove(log.snapshot().add_files(), data_change=False)
    txn.stage(rearranged(log, 1, 2))
    with pytest.raises(InvalidRequestError, match="removes files of 3 rows and adds files of 2"):
        txn.commit(operation="OPTIMIZE")
    assert log.snapshot().version == 1
