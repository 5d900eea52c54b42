"""Lost commits: versions whose checksum and commit file name different transactions.

Source: PROTOCOL.md, "Version Checksum File" (`txnId`).

A writer creates a checksum only after its commit succeeded. If the commit file then names another
transaction, the commit was overwritten: by a writer that renames over files it has not seen, or by
hand. The changes of the lost commit are not in the table, and its checksum describes a table state
that no longer applies. If the commit or the checksum names no transaction, the two cannot be
compared; a checksum that does name a transaction is then not used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delta_ops.log.checksum import (
    VersionChecksum,
    has_readable_state,
    load_checksum,
    load_checksum_txn_id,
)
from delta_ops.log.commit_file import CommitMark, read_txn_id
from delta_ops.log.segment import Segment
from delta_ops.protocol.file_names import checksum_name
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCommit:
    """An acknowledged commit that another commit has replaced."""

    version: int
    txn_id: str
    """`txnId` of the lost commit, from the checksum."""
    standing_txn_id: str
    """`txnId` of the commit that is in the log."""

    @property
    def advice(self) -> str:
        """The problem and its cure, in one sentence."""
        return (
            f"rerun the operation that committed version {self.version} as transaction "
            f"{self.txn_id}, unless it was undone on purpose: the log has {self.standing_txn_id} "
            "as that version, so the changes of the lost commit are not in the table. Then "
            f"delete {checksum_name(self.version)} from the log, which belongs to the lost commit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChecksum:
    """The checksum, if any, that supplies protocol and metadata instead of the checkpoint."""

    checksum: VersionChecksum | None
    """None if the checkpoint must be opened."""
    txn_id: str | None
    """`txnId` of the commit of the checksum's version; None if unknown."""
    lost: LostCommit | None
    """The lost commit that the checksum belongs to; None if it belongs to no lost commit."""


NO_CHECKSUM = StateChecksum(checksum=None, txn_id=None, lost=None)


def load_state_checksum(
    storage: Storage,
    directory: str,
    segment: Segment,
    marks: Iterable[CommitMark],
    cached: VersionChecksum | None = None,
) -> StateChecksum:
    """Load the newest checksum of a segment, if it supplies protocol and metadata.

    Args:
        marks: Marks of all commits of the segment.
        cached: The newest checksum, from the scan cache. Its transaction is that of the commit.
    """
    if cached is not None and has_readable_state(cached, storage.uri):
        return StateChecksum(checksum=cached, txn_id=cached.txn_id, lost=None)
    version = segment.checksum_version
    checksum = None if version is None else load_checksum(storage, directory, version)
    if checksum is None:
        return NO_CHECKSUM
    txn_id = next((mark.txn_id for mark in marks if mark.version == version), None)
    is_of_checkpoint = segment.checkpoint is not None and version == segment.checkpoint.version
    if is_of_checkpoint and checksum.txn_id is not None and segment.checkpoint_commit is not None:
        txn_id = read_txn_id(storage, segment.checkpoint_commit)
    fits = checksum.txn_id in (None, txn_id) and has_readable_state(checksum, storage.uri)
    return StateChecksum(
        checksum=checksum if fits else None,
        txn_id=txn_id,
        lost=_lost_commit(checksum.version, checksum.txn_id, txn_id),
    )


def find_lost_commits(
    storage: Storage, directory: str, marks: Iterable[CommitMark], opened: StateChecksum
) -> list[LostCommit]:
    """Find the lost commits among some versions, ascending.

    A version without a checksum does not count as lost.

    Args:
        marks: Marks of the commits that are in the log.
        opened: The checksum that was read when the version was opened. It is not read again, and
            the result includes the lost commit that it proves, if any.
    """

    def look(mark: CommitMark) -> LostCommit | None:
        recorded = load_checksum_txn_id(storage, directory, mark.version)
        return _lost_commit(mark.version, recorded, mark.txn_id)

    compared = {each.version for each in (opened.lost, opened.checksum) if each is not None}
    named = [m for m in marks if m.txn_id is not None and m.version not in compared]
    # On a disk, threads would only wait for each other.
    found = map(look, named) if storage.has_native_input else run_parallel(look, named)
    lost = [each for each in (opened.lost, *found) if each is not None]
    return sorted(lost, key=lambda each: each.version)


def _lost_commit(version: int, recorded: str | None, standing: str | None) -> LostCommit | None:
    if recorded is None or standing is None or recorded == standing:
        return None
    return LostCommit(version=version, txn_id=recorded, standing_txn_id=standing)
