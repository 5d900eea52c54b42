"""Replay: reconciles the commits of a segment, in groups of bounded size.

Source: PROTOCOL.md, "Action Reconciliation". Newest first, as in `reconciliation`: memory grows
with the live files and the tombstones, not with the log.
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
    """The result of replaying the commits of a segment."""

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
    """Reconcile a segment's commits, file actions and all others.

    Args:
        small_bytes: Commits of at most this total size are reconciled at once; larger segments in
            groups.
        group_bytes: Total size of the commits that are decoded together.
        pending_share: Decoded groups are merged once they reach 1/`pending_share` of the size of
            the tail. Each merge takes time for all known files, while unmerged groups hold
            superseded actions in memory.

    Raises:
        FileNotFoundError: A commit is gone.
        LogCorruptError: A commit is malformed.
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
            # Memory freed by other threads stays in their parts of the heap until it is released.
            pa.system_memory_pool().release_unused()
            tail_bytes = tail.adds.rows.nbytes + tail.removes.rows.nbytes
    return Replayed(merge(tail, reconcile(pending, storage.uri)), state, marks)


def _group_newest_first(segment: Segment, group_bytes: int) -> list[tuple[FileInfo, ...]]:
    """Group the commits that are decoded together: newest group first, ascending in each group."""
    groups: list[tuple[FileInfo, ...]] = []
    end, size = len(segment.commits), 0
    for start in range(end - 1, -1, -1):
        size += segment.commits[start].size
        if size >= group_bytes or not start:
            groups.append(segment.commits[start:end])
            end, size = start, 0
    return groups
