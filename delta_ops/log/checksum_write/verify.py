"""Verification of version checksums: compares `n.crc` with the log.

Source: PROTOCOL.md, "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.log.checksum import VersionChecksum, differences, load_checksum
from delta_ops.log.checksum_write.file_figures import count_files
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.log.snapshot import Snapshot


def validate_checksum(snapshot: Snapshot) -> bool:
    """Compare a snapshot with its checksum.

    Returns:
        False if there is no checksum, or if it belongs to another commit.

    Raises:
        LogCorruptError: The checksum and the log disagree.
    """
    checksum = load_checksum(snapshot.storage, snapshot.log_directory, snapshot.version)
    if checksum is None or not _is_of_commit(checksum, snapshot):
        return False
    for what, value, found in _differences(checksum, snapshot):
        raise LogCorruptError(
            snapshot.uri,
            checksum.path,
            f"its {what} is {value}, but the log's is {found}; one of them is damaged: compare "
            "with a backup before you delete anything",
        )
    return True


def _is_of_commit(checksum: VersionChecksum, snapshot: Snapshot) -> bool:
    if checksum.txn_id in (None, snapshot.txn_id):
        return True
    if snapshot.commits_since_checkpoint:
        return False
    try:
        commit = read_commit_if_there(snapshot.storage, snapshot.log_directory, snapshot.version)
    except DeltaOpsError:  # the checkpoint covers this commit, so nothing needs it
        return False
    return commit is None or checksum.txn_id == commit.txn_id


def _differences(checksum: VersionChecksum, snapshot: Snapshot) -> Iterator[tuple[str, Any, Any]]:
    figures = count_files(snapshot)
    for what, value, found in (
        ("numFiles", checksum.num_files, figures.num_files),
        ("tableSizeBytes", checksum.table_size_bytes, figures.size_bytes),
        ("fileSizeHistogram", checksum.histogram, figures.histogram),
        ("setTransactions", _sort(checksum.transactions), _sort(snapshot.transactions().values())),
        ("domainMetadata", _sort(checksum.domains), _sort(snapshot.domain_metadata().values())),
    ):
        if value is not None and value != found:
            yield what, value, found
    yield from differences(checksum, snapshot.protocol, snapshot.metadata)


def _sort(actions: Iterable[object] | None) -> list[object] | None:
    return None if actions is None else sorted(actions, key=repr)
