"""Replay: what the commits of a segment come to, read in groups of bounded size.

Source: PROTOCOL.md, "Action Reconciliation". Newest first, as in `reconciliation`: what is kept
grows with the live files and the tombstones, not with the log.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from delta_ops.log.commit_file import Commit, CommitMark, stream_commits
from delta_ops.log.segment import Segment
from delta_ops.log.table_state import EMPTY_STATE, TableState, joined_state, state_of_commits
from delta_ops.log.version.reconciliation import EMPTY_TAIL, Tail, merge, reconcile
from delta_ops.storage import FileInfo, Storage


class Replayed(NamedTuple):
    """What the commits of a segment come to."""

    tail: Tail
    state: TableState
    marks: tuple[CommitMark, ...]
    """Marks of the commits, ascending."""


def replay_commits(
    storage: Storage,
    segment: Segment,
    *,
    small_bytes: int = 512 << 20,
    group_bytes: int = 8 << 20,
    pending_share: int = 16,
) -> Replayed:
    """The file actions of a segment's commits, and all else they hold.

    Args:
        small_bytes: Commits of no more than this size together are reconciled at once; others in
            groups.
        group_bytes: Commits of this size are decoded together.
        pending_share: Groups wait to be reconciled until they are this part of what is known
            already: to compare them takes as long as there are files, and while they wait,
            superseded actions take memory.

    Raises:
        FileNotFoundError: One of them is gone.
        LogCorruptError: One of them is malformed.
    """
    tail, state = EMPTY_TAIL, EMPTY_STATE
    marks: tuple[CommitMark, ...] = ()
    pending: list[Commit] = []
    pending_bytes = tail_bytes = 0
    is_small = sum(info.size for info in segment.commits) <= small_bytes
    groups = [segment.commits] if is_small else _group_newest_first(segment, group_bytes)
    for group, commits in zip(groups, stream_commits(storage, groups), strict=True):
        state = joined_state(state_of_commits(commits), state)
        marks = (*(commit.mark for commit in commits), *marks)
        pending = commits + pending
        pending_bytes += sum(info.size for info in group)
        if not is_small and pending_bytes * pending_share >= tail_bytes:
            tail = merge(tail, reconcile(pending, storage.uri))
            pending, pending_bytes = [], 0
            # What other threads have parsed stays with their share of the heap, full of holes.
            pa.system_memory_pool().release_unused()
            tail_bytes = tail.adds.rows.nbytes + tail.removes.rows.nbytes
    return Replayed(merge(tail, reconcile(pending, storage.uri)), state, marks)


def _group_newest_first(segment: Segment, group_bytes: int) -> list[tuple[FileInfo, ...]]:
    """The commits in groups that are decoded together; in each they ascend."""
    groups: list[tuple[FileInfo, ...]] = []
    end, size = len(segment.commits), 0
    for start in range(end - 1, -1, -1):
        size += segment.commits[start].size
        if size >= group_bytes or not start:
            groups.append(segment.commits[start:end])
            end, size = start, 0
    return groups
