"""Landed commit: finds the commit of main that an earlier call has made, by its `txnId`."""

from __future__ import annotations

from delta_ops.log import DeltaLog
from delta_ops.log.commit_file import read_txn_id
from delta_ops.log.segment import list_log
from delta_ops.storage.concurrency import run_parallel


def find_landed(log: DeltaLog, txn_id: str, *, after_version: int) -> int | None:
    """The version with a `commitInfo.txnId`; None if no commit has it.

    Args:
        after_version: This version and earlier commits are not read.

    Raises:
        LogCorruptError, StorageError: As `DeltaLog.snapshot`.
    """
    listing = list_log(log.storage, log.log_directory, from_version=after_version + 1)
    versions = sorted(each for each in listing.commits if each > after_version)
    ids = run_parallel(lambda each: read_txn_id(log.storage, listing.commits[each]), versions)
    return next((v for v, found in zip(versions, ids, strict=True) if found == txn_id), None)
