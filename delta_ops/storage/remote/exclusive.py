"""Exclusive create: chooses how a store creates a file only if it does not exist.

This makes commits atomic. A store is rejected if it has no exclusive create or is found to ignore
the condition, unless the user supplies a lock. There is no fallback that merely checks first.
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
    """Choose the requests that create files exclusively below `root`.

    The first call of a process probes an unknown endpoint, see `probe`.

    Args:
        root: The root of a table.
        lock: The user's lock.

    Raises:
        UnsupportedStorageError: The store cannot create files exclusively.
        Exception: Any error that the file system raises during the probe.
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
    """Whether large files are uploaded in parts; if not, they stay in memory until complete."""
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
