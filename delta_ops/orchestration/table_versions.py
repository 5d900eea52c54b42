"""Table versions: the version of a table that last changed its rows.

Maintenance creates versions with the same rows. A data version therefore names the last version
that changed rows. The data version of a partition names the last version that may have changed rows
of the partition, judged by the files' partition values and statistics.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.compute as pc

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.log.version.pruning import match_files
from delta_ops.protocol.arrow_schemas import merge_chunks
from delta_ops.protocol.predicate import Predicate, resolve


def last_data_version(log: DeltaLog, version: int) -> int:
    """Find the last commit, up to this version, that changed rows; return its version.

    If that commit was cleaned up, return the first version that is known to have the same rows.
    """
    return _last_version(log, version, -1, changes_rows)


def last_partition_version(
    log: DeltaLog, snapshot: Snapshot, rows: Predicate, after_version: int | None
) -> int:
    """Find the last commit, up to the snapshot, that may have changed rows that match `rows`.

    Args:
        after_version: A version that is known to have changed such rows; older versions are not
            read.

    Returns:
        The version of the commit.
    """

    def may_change(commit: Commit) -> bool:
        return _may_change(commit, snapshot, rows)

    known = -1 if after_version is None else after_version
    return _last_version(log, snapshot.version, known, may_change)


def rows_changed(log: DeltaLog, start_version: int, end_version: int) -> bool:
    """Whether a commit of these versions, both included, changed rows or was cleaned up."""
    num_read = 0
    for commit in log.commits(start_version, end_version):
        if changes_rows(commit):
            return True
        num_read += 1
    return num_read < end_version - start_version + 1


def changes_rows(commit: Commit) -> bool:
    """Whether a commit did more than rearrange rows."""
    flags = commit.adds["dataChange"].to_pylist() + commit.removes["dataChange"].to_pylist()
    return any(flag is not False for flag in flags)


def _last_version(
    log: DeltaLog, version: int, known: int, changes: Callable[[Commit], bool]
) -> int:
    for each in range(version, known, -1):
        commit = read_commit_if_there(log.storage, log.log_directory, each)
        if commit is None or changes(commit):
            return each
    return max(known, 0)


def _may_change(commit: Commit, snapshot: Snapshot, rows: Predicate) -> bool:
    definition, predicate = snapshot.definition, resolve(rows, snapshot.schema)
    for files in (commit.adds, commit.removes):
        changed = files.filter(pc.fill_null(files["dataChange"], True))
        if definition.partition_columns and changed["partitionValues"].null_count:
            return True  # a remove action may lack the partition values
        if len(match_files(merge_chunks(changed), predicate, definition, snapshot.uri)):
            return True
    return False
