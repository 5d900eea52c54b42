"""Array views: the keys of a version of an array table, or of a session with its changes.

1. A session reads its own changes, then the changes of other writers that it has seen, then its
   base version.
2. A long chunk is written at once. Rows wait in memory until `flush`. A copy that was pickled
   stages each change before its call returns, because nobody calls `flush` in a worker.
3. Bytes that the key has already are not written again. The change is staged all the same, so a
   session that has changed the key meanwhile conflicts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from delta_ops.arrays.blocks import Blocks
from delta_ops.arrays.chunks import ChunkWriter, chunk_value, digest_of, have_same_bytes
from delta_ops.arrays.commit import ArrayCommit, OnConflict
from delta_ops.arrays.keys import ROOT, place_of
from delta_ops.arrays.rows import INLINE_BYTES, Value
from delta_ops.arrays.staged import Change, load_staged, stage_changes
from delta_ops.arrays.table import open_version, validate_array_table
from delta_ops.clock import Clock, system_clock
from delta_ops.log import DeltaLog
from delta_ops.versioning import SessionResult, WriteSession
from delta_ops.versioning.session_state import load_state

_INLINE_IN_SESSION = 16 * 1024 * 1024
"""Bytes of chunks that the rows of a session hold themselves; further chunks become files."""
_TINY_BYTES = 512
"""Longest chunk that is always in its row, because a reference is hardly shorter."""
_MOST_PENDING = 50_000
"""Changes that wait for `flush`, before a change stages them."""


class ArrayView(Protocol):
    """The keys of a version or a session."""

    @property
    def blocks(self) -> Blocks:
        """The rows of the version, or of the base version of the session."""

    @property
    def changes(self) -> Mapping[str, Change]:
        """The changes to these rows, by key."""


def find_value(view: ArrayView, key: str) -> Value | None:
    """The value of a key; None without it. Raises as `Blocks.find`."""
    change = view.changes.get(key)
    if change is None:
        return view.blocks.find(key)
    return change if isinstance(change, Value) else None


def list_keys(view: ArrayView, prefix: str) -> Iterator[str]:
    """The keys that begin with a prefix, in no particular order. Raises as `Blocks.find`."""
    changes = dict(view.changes)
    blocks = view.blocks
    for node in blocks.blocks_by_node:
        if _may_hold(node.lstrip(ROOT), prefix):
            for key in blocks.keys((node, block) for block in blocks.blocks_by_node[node]):
                if key.startswith(prefix) and key not in changes:
                    yield key
    for key, change in changes.items():
        if key.startswith(prefix) and isinstance(change, Value):
            yield key


def list_children(view: ArrayView, directory: str) -> set[str]:
    """Names of keys and directories directly in a directory.

    The rows of a node below the directory are not read, because its files show that it has keys.
    """
    below = f"{directory}/" if directory else ""
    changes = dict(view.changes)
    changed_nodes = {place_of(key).node for key in changes}
    names = {
        key.removeprefix(below).partition("/")[0]
        for key, change in changes.items()
        if key.startswith(below) and isinstance(change, Value)
    }
    for node, blocks in view.blocks.blocks_by_node.items():
        path = node.lstrip(ROOT)
        if path.startswith(below) and path != directory and node not in changed_nodes:
            names.add(path.removeprefix(below).partition("/")[0])
            continue
        if not _may_hold(path, below):
            continue
        for block in blocks:
            names.update(
                key.removeprefix(below).partition("/")[0]
                for key in view.blocks.load((node, block))
                if key.startswith(below) and key not in changes
            )
    return names


def _may_hold(path: str, below: str) -> bool:
    """Whether keys of a node may be in a directory or below it."""
    start = f"{path}/" if path else ""
    return start.startswith(below) or below.startswith(start)


class VersionView:
    """The keys of a version; read-only.

    Args:
        log: The table.
        version: The version; the latest at the first read if None and `ref` is None.
        ref: A tag or a branch.
    """

    def __init__(self, log: DeltaLog, version: int | None, ref: str | None) -> None:
        self.log, self._version, self._ref = log, version, ref
        self.changes: Mapping[str, Change] = {}
        self._begin()

    def _begin(self) -> None:
        self._blocks: Blocks | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Omit the rows; a copy opens the same version."""
        return {**vars(self), "_blocks": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @property
    def blocks(self) -> Blocks:
        """See `ArrayView`."""
        with self._lock:
            if self._blocks is None:
                snapshot = open_version(self.log, self._version, self._ref)
                if self._ref is None:
                    self._version = snapshot.version  # copies read the same version
                self._blocks = Blocks(snapshot)
            return self._blocks


@dataclass(slots=True)
class _Loaded:
    """What a session view has read of its session."""

    fork: DeltaLog
    blocks: Blocks
    changes: dict[str, Change]


class SessionView:
    """The keys of a session, with its own changes; can be pickled and used by threads.

    Args:
        log: The table's own log.
        session: The session.
        clock: Milliseconds since the Unix epoch.
    """

    def __init__(
        self, log: DeltaLog, session: WriteSession, *, clock: Clock = system_clock
    ) -> None:
        self.log, self.session, self._clock = log, session, clock
        self._is_copy = False
        self._begin()

    def _begin(self) -> None:
        self._loaded: _Loaded | None = None
        self._pending: dict[str, Change] = {}
        self._inline_bytes = 0
        self._chunks = ChunkWriter(self.log.storage)
        self._lock = threading.RLock()
        self._flushing = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Stage all changes, so that the copy sees them; a copy has a fork of its own."""
        self.flush()
        return {"log": self.log, "session": self.session, "_clock": self._clock}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._is_copy = True
        self._begin()

    @property
    def blocks(self) -> Blocks:
        """See `ArrayView`."""
        return self._load().blocks

    @property
    def changes(self) -> Mapping[str, Change]:
        """See `ArrayView`."""
        return self._load().changes

    def _load(self) -> _Loaded:
        """Read the session once, with a fork that later takes the changes of this writer.

        Raises:
            SessionEndedError: The session has ended.
            ChunkConflictError: Writers of the session have set one key to different bytes.
        """
        with self._lock:
            if self._loaded is None:
                fork = self.session.fork()
                state = load_state(self.log, self.session.id)
                if state is None:
                    self.session.status()  # raises why the session has ended
                assert state is not None
                validate_array_table(state.base)
                changes = dict(load_staged(state, fork).changes)
                self._loaded = _Loaded(fork, Blocks(state.base), {**changes, **self._pending})
            return self._loaded

    def set(self, key: str, data: bytes) -> None:
        """Set the bytes of a key. Raises as `flush`."""
        known = find_value(self, key)
        if self._is_inline(key, len(data)):
            value = Value(data=data)
        else:
            value = chunk_value(data, digest := digest_of(data))
            if value != known:
                self._chunks.write(data, digest)
        self._change(key, value)

    def delete(self, key: str) -> None:
        """Delete a key, if it exists. Raises as `flush`."""
        self._change(key, "deleted")

    def _is_inline(self, key: str, size: int) -> bool:
        if place_of(key).kind == "metadata":
            return True
        with self._lock:
            if size <= _TINY_BYTES:
                return True
            if size > INLINE_BYTES or self._inline_bytes + size > _INLINE_IN_SESSION:
                return False
            self._inline_bytes += size
            return True

    def set_virtual(self, key: str, value: Value) -> None:
        """Set a key to a range of a file outside of the table. Raises as `flush`."""
        self._change(key, value)

    def _change(self, key: str, change: Change) -> None:
        with self._lock:
            self._load().changes[key] = change
            self._pending[key] = change
            is_full = len(self._pending) >= _MOST_PENDING
        if self._is_copy or is_full:
            self.flush()

    def changed_chunks(self) -> tuple[int, int]:
        """Number and bytes of the chunks whose bytes are not those of the base version."""
        changed = [
            change
            for key, change in dict(self.changes).items()
            if isinstance(change, Value)
            and place_of(key).kind == "chunk"
            and not have_same_bytes(self.blocks.find(key), change)
        ]
        return len(changed), sum(each.size for each in changed)

    def flush(self) -> None:
        """Stage all changes of this writer; they are durable when the call returns.

        Changes of several threads are staged together: a thread that waited for another flush finds
        its changes staged.

        Raises:
            SessionEndedError: The session has ended, or expired.
            StorageError: The store failed. Repeat the call.
        """
        with self._flushing:
            with self._lock:
                if not self._pending:
                    return
                fork, batch = self._load().fork, self._pending
                self._pending = {}
            try:
                self._chunks.persist()
                stage_changes(fork, batch)
            except BaseException:
                with self._lock:
                    self._pending = {**batch, **self._pending}
                raise

    def refresh(self) -> None:
        """Stage all changes, and load the changes that other writers have staged. Raises as
        `flush`.
        """
        self.flush()
        with self._lock:
            self._loaded = None

    def abandon(self) -> None:
        """End the session without a commit; see `WriteSession.abandon`."""
        self.session.abandon()
        with self._lock:
            self._loaded, self._pending = None, {}

    def commit(
        self,
        *,
        on_conflict: OnConflict,
        txn: tuple[str, int] | None,
        user_metadata: str | None,
        timeout: timedelta,
    ) -> SessionResult:
        """Commit the session; see `ArrayCommit`."""
        try:
            if self._pending:
                self.flush()
            return ArrayCommit(
                log=self.log,
                session=self.session,
                chunks=self._chunks,
                on_conflict=on_conflict,
                txn=txn,
                user_metadata=user_metadata,
                timeout=timeout,
                clock=self._clock,
            ).run()
        finally:
            with self._lock:
                self._loaded = None  # the session may have another base version
