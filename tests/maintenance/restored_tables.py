"""Histories to restore, revert and repair: real files, deletion vectors and txns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import CommitResult, DeltaLog
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Action, AddFile, CommitInfo, Protocol
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import stored_vector
from tests.support.built_once import built_once
from tests.support.counting_storage import CountingStorage

TXN = ("loader", 7)
VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors", "changeDataFeed", "appendOnly", "invariants"),
)


def writer_protocol(*names: str) -> Protocol:
    """The protocol of our new tables, with these features."""
    features = ("appendOnly", "invariants", *names)
    return Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)


def ids(log: DeltaLog, version: int | None = None) -> list[int]:
    """The ids of all rows, in order."""
    return sorted(da.to_table(log.snapshot(version))["id"].to_pylist())


def write(log: DeltaLog, values: list[int], **options: Any) -> CommitResult:
    """Commit rows in one file."""
    data = pa.table({"id": pa.array(values, pa.int64()), "p": ["a"] * len(values)})
    return da.write(log, data, **options)


def reopened(_: DeltaLog, root: Path) -> DeltaLog:
    """The copy of a table at another place."""
    return DeltaLog(root)


@built_once(reopened)
def history(root: Path) -> DeltaLog:
    """Version 0 holds 0, 1 has 1 too, 2 has 7 by a txn, 3 holds nothing but 9, 4 has 10 too."""
    log = DeltaLog(root)
    write(log, [0])
    write(log, [1])
    write(log, [7], txn=TXN)
    write(log, [9], mode="overwrite")
    write(log, [10])
    return log


@built_once(reopened)
def make_with_vectors(root: Path) -> DeltaLog:
    """Version 1 holds 0 to 9, 2 has lost 0 and 1 to a deletion vector, 3 also 5 to another."""
    log = DeltaLog(root)
    write(log, list(range(10)))
    with_changes = {"delta.enableChangeDataFeed": "true"}
    commit(log, VECTORS, replace(log.snapshot().metadata, configuration=with_changes))
    for rows in ([0, 1], [0, 1, 5]):
        (add,) = log.snapshot().add_files()
        vector = stored_vector(root, rows)
        commit(log, tombstone(add, 1, data_change=True), replace(add, deletion_vector=vector))
    return log


def commit(log: DeltaLog, *actions: Action) -> int:
    """Commit actions like another writer; return the version."""
    version = log.snapshot().version + 1
    info = CommitInfo(values={"timestamp": 1, "operation": "TEST"})
    create_commit(log.storage, log.log_directory, version, [info, *actions])
    return version


def describe_files(snapshot: Snapshot) -> list[AddFile]:
    """The live files with everything in the log except the data change flag."""
    adds = (replace(add, data_change=True) for add in snapshot.add_files())
    return sorted(adds, key=lambda add: add.path)


def actions(log: DeltaLog, version: int, kind: str) -> list[dict[str, Any]]:
    """The live files with everything in the log except the data change flag."""
    text = log.storage.read(f"{log.log_directory}/{version:020}.json").decode()
    return [action[kind] for line in text.splitlines() if kind in (action := json.loads(line))]


def racing(log: DeltaLog, rival: Callable[[], object]) -> DeltaLog:
    """The table, for a process that another commit overtakes just before its first commit file."""
    raced: list[bool] = []

    def run(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if (method, when) == ("create", "before") and path.endswith(".json") and not raced:
            raced.append(True)
            rival()

    return DeltaLog("", storage=CountingStorage(log.storage, run))
