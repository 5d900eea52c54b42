"""Exclusive create: one way per kind of store to create a file that must not be there yet.

This is what makes a commit atomic. A store without a way, or one that is found not to honour it, is
refused by name unless the user supplies a lock; there is no fallback that merely looks first.
"""

from __future__ import annotations

from typing import Any

from delta_ops.errors import UnsupportedStorageError
from delta_ops.storage.create_way import Way
from delta_ops.storage.locks import (
    LOCK_CURE,
    RENAMING,
    Lock,
    can_rename,
    way_with_lock,
    way_without_condition,
)
from delta_ops.storage.remote.probe import honours_put, honours_upload
from delta_ops.storage.remote.root import RemoteRoot


def way_to_create(root: RemoteRoot, lock: Lock | None) -> Way:
    """How to create a file exclusively below `root`.

    The first call of a process probes an endpoint that is not known, see `probe`.

    Args:
        root: The root of a table.
        lock: The lock that the user supplied.

    Raises:
        UnsupportedStorageError: There is no way.
        Exception: Whatever the file system raises when it is probed.
    """
    way = root.backend.way
    if way is None:
        return _way_by_lock(root, lock)
    if honours_put(way, root.fs, root.path):
        return way_with_lock(way, lock) if lock else way
    if lock:
        return way_with_lock(way_without_condition(way), lock)
    address = way.endpoint_of(root.fs).address if way.endpoint_of else ""
    raise UnsupportedStorageError(
        f"{root.uri} cannot be committed to: the store at {address} does not honour the "
        "condition that an object must not be there yet, so that two writers could both create the "
        f"same version. {LOCK_CURE}, or keep the table on a store that honours it."
    )


def uploads_in_parts(way: Way, fs: Any, root: str) -> bool:
    """Whether what is longer than a part goes up in parts; else it is kept in memory till then."""
    return way.begin_upload is not None and honours_upload(way, fs, root)


def _way_by_lock(root: RemoteRoot, lock: Lock | None) -> Way:
    if lock is None:
        raise UnsupportedStorageError(
            f"{root.uri} cannot be committed to: {root.kind} has no way that we know to create a "
            "file only if it is not there, so that two writers could both create the same "
            f"version. {LOCK_CURE}, or keep the table on a store that has one."
        )
    if not can_rename(root.fs):
        raise UnsupportedStorageError(
            f"{root.uri} cannot be committed to, even with a lock: {root.kind} can neither upload "
            "nor rename a file at once, so that readers could see a part of a commit. Reading "
            "works; to write, keep the table on another store."
        )
    return way_with_lock(RENAMING, lock)
