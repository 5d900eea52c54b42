"""Lost commits: versions whose checksum names another transaction than their commit.

Source: PROTOCOL.md, "Version Checksum File" (`txnId`).

Whoever writes a checksum has been told that its commit stands. If another's stands there, it was
replaced: by a writer that renames over what it has not seen, or by hand. Its changes are not in the
table, and its checksum tells of a table that never was. Where either names no transaction, nothing
follows; a checksum that names one is not used then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delta_ops.log.checksum import (
    VersionChecksum,
    load_checksum,
    load_checksum_txn_id,
    tells_state,
)
from delta_ops.log.commit_file import CommitMark, read_txn_id
from delta_ops.log.segment import Segment
from delta_ops.protocol.file_names import checksum_name
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCommit:
    """A commit that was acknowledged, and another one stands in its place."""

    version: int
    txn_id: str
    """`txnId` of the lost commit, by the checksum."""
    standing_txn_id: str
    """`txnId` of the commit that stands there."""

    @property
    def advice(self) -> str:
        """What to do about it, in one sentence."""
        return (
            f"run again what committed version {self.version} as transaction {self.txn_id}, unless "
            f"it was taken back on purpose: {self.standing_txn_id} stands there, and its changes "
            f"are not in the table; then delete {checksum_name(self.version)} from the log, which "
            "is of the lost commit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChecksum:
    """What stands in for opening a checkpoint."""

    checksum: VersionChecksum | None
    """None: nothing does."""
    txn_id: str | None
    """`txnId` of the commit of the checksum's version; None where it is not known."""
    lost: LostCommit | None
    """What the checksum is of, if it cannot be used for that."""


NO_CHECKSUM = StateChecksum(checksum=None, txn_id=None, lost=None)


def load_state_checksum(
    storage: Storage, directory: str, segment: Segment, marks: Iterable[CommitMark]
) -> StateChecksum:
    """The newest checksum of a segment, if protocol and metadata can be taken from it.

    Args:
        marks: One for each commit of the segment.
    """
    version = segment.checksum_version
    said = None if version is None else load_checksum(storage, directory, version)
    if said is None:
        return NO_CHECKSUM
    txn_id = next((mark.txn_id for mark in marks if mark.version == version), None)
    is_of_checkpoint = segment.checkpoint is not None and version == segment.checkpoint.version
    if is_of_checkpoint and said.txn_id is not None and segment.checkpoint_commit is not None:
        txn_id = read_txn_id(storage, segment.checkpoint_commit)
    fits = said.txn_id in (None, txn_id) and tells_state(said, storage.uri)
    return StateChecksum(
        checksum=said if fits else None,
        txn_id=txn_id,
        lost=_lost_commit(said.version, said.txn_id, txn_id),
    )


def find_lost_commits(
    storage: Storage, directory: str, marks: Iterable[CommitMark], opened: StateChecksum
) -> list[LostCommit]:
    """The lost ones among some versions, ascending; one without a checksum is none.

    Args:
        marks: One for each commit that stands there.
        opened: What was found before; it is not read again, and what it tells counts as well.
    """

    def look(mark: CommitMark) -> LostCommit | None:
        said = load_checksum_txn_id(storage, directory, mark.version)
        return _lost_commit(mark.version, said, mark.txn_id)

    compared = {each.version for each in (opened.lost, opened.checksum) if each is not None}
    named = [m for m in marks if m.txn_id is not None and m.version not in compared]
    # On a disk threads would only wait for each other.
    found = map(look, named) if storage.has_native_input else run_parallel(look, named)
    lost = [each for each in (opened.lost, *found) if each is not None]
    return sorted(lost, key=lambda each: each.version)


def _lost_commit(version: int, said: str | None, standing: str | None) -> LostCommit | None:
    if said is None or standing is None or said == standing:
        return None
    return LostCommit(version=version, txn_id=said, standing_txn_id=standing)
