"""Exclusive create: chooses how a store creates a file only if it does not exist.

This makes commits atomic. A store is rejected if it has no exclusive create or is found to ignore
the condition, unless the user supplies a lock. There is no fallback that merely checks first.

Some stores accept `If-None-Match: *` and overwrite the object nevertheless. So the first create of
a process at an unknown endpoint is preceded by a probe: two creates of one object. The object has a
new name in the directory for delta_ops' own files. The store must reject the second create. The
object is then deleted. The probe cannot detect a store that first checks for the object and then
writes it.

The result is kept per endpoint, bucket and kind of request, also in forked processes. Threads that
create files in one table share one probe. Threads of other tables do not wait for it, because a
store may answer slowly; in the worst case each table sends a probe.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from delta_ops.errors import UnsupportedStorageError
from delta_ops.storage.exclusive_create import ExclusiveCreate, split
from delta_ops.storage.locks import (
    RENAMING,
    Lock,
    can_rename,
    lock_cure,
    locked_create,
    unconditional_create,
)
from delta_ops.storage.paths import OWN_DIRECTORY, staged_name
from delta_ops.storage.remote.root import RemoteRoot

logger = logging.getLogger(__name__)

_verdicts: dict[tuple[str, str, str], bool] = {}
_probing: dict[tuple[str, str, str], threading.Lock] = {}
"""By endpoint, table root and kind of request."""


def exclusive_create_of(root: RemoteRoot, lock: Lock | None) -> ExclusiveCreate:
    """Choose the requests that create files exclusively below `root`.

    The first call of a process probes an unknown endpoint.

    Args:
        root: The root of a table.
        lock: The user's lock.

    Raises:
        UnsupportedStorageError: The store cannot create files exclusively.
        Exception: Any error that the file system raises during the probe.
    """
    exclusive = root.backend.exclusive_create
    if exclusive is None:
        return _create_by_lock(root, lock)
    if honours_put(exclusive, root.fs, root.path):
        return locked_create(exclusive, lock) if lock else exclusive
    if lock:
        return locked_create(unconditional_create(exclusive), lock)
    address = exclusive.endpoint_of(root.fs).address if exclusive.endpoint_of else ""
    raise UnsupportedStorageError(
        f"{root.uri} cannot be committed to: the store at {address} does not support creating an "
        "object only if it is absent, so two writers could both create the same version. "
        f"{lock_cure()}, or keep the table on a store that honours it."
    )


def uploads_in_parts(exclusive: ExclusiveCreate, fs: Any, root: str) -> bool:
    """Whether large files are uploaded in parts; if not, they stay in memory until complete."""
    return exclusive.begin_upload is not None and honours_upload(exclusive, fs, root)


def _create_by_lock(root: RemoteRoot, lock: Lock | None) -> ExclusiveCreate:
    if lock is None:
        raise UnsupportedStorageError(
            f"{root.uri} cannot be committed to: {root.kind} has no known way to create a file "
            "only if it is absent, so two writers could both create the same version. "
            f"{lock_cure()}, or keep the table on a store that can do so."
        )
    if not can_rename(root.fs):
        raise UnsupportedStorageError(
            f"{root.uri} cannot be committed to, even with a lock: {root.kind} can neither upload "
            "nor rename a file atomically, so readers could see a part of a commit. Reading "
            "works; to write, keep the table on another store."
        )
    return locked_create(RENAMING, lock)


def honours_put(exclusive: ExclusiveCreate, fs: Any, root: str) -> bool:
    """Whether a create by one request is exclusive; errors of the store are not translated."""

    def put(path: str) -> None:
        exclusive.put(fs, path, b"probe", "")

    return _is_exclusive(exclusive, fs, root, "put", put)


def honours_upload(exclusive: ExclusiveCreate, fs: Any, root: str) -> bool:
    """Whether a create by a multi-part upload is exclusive."""

    def upload(path: str) -> None:
        assert exclusive.begin_upload is not None
        upload = exclusive.begin_upload(fs, path, "")
        try:
            upload.add(b"probe")
            upload.finish()
        except BaseException:
            upload.abandon()
            raise

    return exclusive.begin_upload is not None and _is_exclusive(
        exclusive, fs, root, "upload", upload
    )


def _is_exclusive(
    exclusive: ExclusiveCreate, fs: Any, root: str, kind: str, create: Callable[[str], None]
) -> bool:
    if exclusive.endpoint_of is None:
        return True
    endpoint = exclusive.endpoint_of(fs)
    if endpoint.is_known:
        return True
    key = endpoint.address, split(root)[0], kind
    if key not in _verdicts:
        with _probing.setdefault((endpoint.address, root, kind), threading.Lock()):
            if key not in _verdicts:
                path = f"{root}/{OWN_DIRECTORY}/{staged_name()}"
                _verdicts[key] = _refuses_the_second(fs, path, create)
    return _verdicts[key]


def _refuses_the_second(fs: Any, path: str, create: Callable[[str], None]) -> bool:
    try:
        # The name is new, so a FileExistsError here answers a request that was sent again.
        with contextlib.suppress(FileExistsError):
            create(path)
        create(path)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno != errno.ENOSYS:  # the store reports that it does not know the condition
            raise
    finally:
        _delete(fs, path)
    return False


def _delete(fs: Any, path: str) -> None:
    try:
        fs.rm_file(path)
    except FileNotFoundError:
        pass
    except Exception as error:  # file systems raise the errors of their libraries
        logger.warning("A probe could not be deleted (%s): %s", type(error).__name__, path)


if hasattr(os, "register_at_fork"):
    # Threads that hold these locks do not exist in the child.
    os.register_at_fork(after_in_child=_probing.clear)
