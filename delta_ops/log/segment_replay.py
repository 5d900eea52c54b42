"""Segment replay: what the commits of a segment come to, read in groups of bounded size.

Source: PROTOCOL.md, "Action Reconciliation". Newest first, as in `replay`: what is kept grows with
the live files and the tombstones, not with the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from delta_ops.log.checkpoint.read import EMPTY_STATE, TableState
from delta_ops.log.commit_file import Commit, CommitMark, stream_commits
from delta_ops.log.reconciliation import EMPTY_TAIL, Tail, merge, reconcile
from delta_ops.log.segment import Segment
from delta_ops.storage import FileInfo, Storage

_GROUP_BYTES = 8 << 20
"""Size of the commits that are decoded together, of a segment that is not small."""
_SMALL_BYTES = 512 << 20
"""Size of all commits of a small segment, which are reconciled at once."""
_PENDING_SHARE = 16
"""Commits wait to be reconciled until they are this part of what is known already: to compare them
takes as long as there are files, and while they wait, superseded actions take memory."""


class Replayed(NamedTuple):
    """What the commits of a segment come to."""

    tail: Tail
    state: TableState
    marks: tuple[CommitMark, ...]
    """Marks of the commits, ascending."""


def replay_commits(storage: Storage, segment: Segment) -> Replayed:
    """The file actions of a segment's commits, and all else they hold.

    Raises:
        FileNotFoundError: One of them is gone.
        LogCorruptError: One of them is malformed.
    """
    tail, state = EMPTY_TAIL, EMPTY_STATE
    marks: tuple[CommitMark, ...] = ()
    pending: list[Commit] = []
    pending_bytes = tail_bytes = 0
    is_small = sum(info.size for info in segment.commits) <= _SMALL_BYTES
    groups = [segment.commits] if is_small else _newest_first(segment)
    for group, commits in zip(groups, stream_commits(storage, groups), strict=True):
        state = joined_state(state_of_commits(commits), state)
        marks = (*(commit.mark for commit in commits), *marks)
        pending = commits + pending
        pending_bytes += sum(info.size for info in group)
        if not is_small and pending_bytes * _PENDING_SHARE >= tail_bytes:
            tail = merge(tail, reconcile(pending, storage.uri))
            pending, pending_bytes = [], 0
            # What other threads have parsed stays with their share of the heap, full of holes.
            pa.system_memory_pool().release_unused()
            tail_bytes = tail.adds.rows.nbytes + tail.removes.rows.nbytes
    return Replayed(merge(tail, reconcile(pending, storage.uri)), state, marks)


def state_of_commits(commits: Iterable[Commit]) -> TableState:
    """What commits, given in ascending order, hold beside file actions."""
    state = EMPTY_STATE
    for commit in commits:
        of_commit = TableState(
            protocol=commit.protocol,
            metadata=commit.metadata,
            transactions={txn.app_id: txn for txn in commit.transactions},
            domains={domain.domain: domain for domain in commit.domains},
        )
        state = joined_state(state, of_commit)
    return state


def joined_state(older: TableState, newer: TableState) -> TableState:
    """The state after both: what the newer one says counts."""
    return TableState(
        protocol=newer.protocol or older.protocol,
        metadata=newer.metadata or older.metadata,
        transactions={**older.transactions, **newer.transactions},
        domains={**older.domains, **newer.domains},
    )


def _newest_first(segment: Segment) -> list[tuple[FileInfo, ...]]:
    """The commits in groups that are decoded together; in each they ascend."""
    groups: list[tuple[FileInfo, ...]] = []
    end, size = len(segment.commits), 0
    for start in range(end - 1, -1, -1):
        size += segment.commits[start].size
        if size >= _GROUP_BYTES or not start:
            groups.append(segment.commits[start:end])
            end, size = start, 0
    return groups
