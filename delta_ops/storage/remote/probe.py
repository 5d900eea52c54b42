"""Probe: whether a store that we do not know honours the condition of an exclusive create.

There are stores that take `If-None-Match: *` and overwrite all the same. So the first create of a
process at an endpoint that is not a provider's own is preceded by two of one object with a new
name, in the directory for what is ours; the second must be refused. The object is deleted again.
It does not find a store that looks first and writes then.

Known once per endpoint, bucket and kind of request; a process that is forked knows it as well.
Threads that create in one table ask once. Those of another table do not wait for them, since a
store may take long to answer: at worst each table asks.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from delta_ops.storage.create_way import Way, split
from delta_ops.storage.paths import staged_name

logger = logging.getLogger(__name__)

PROBES = "_delta_ops"
"""Directory below the root of a table, which no engine takes for data."""

_verdicts: dict[tuple[str, str, str], bool] = {}
_probing: dict[tuple[str, str, str], threading.Lock] = {}
"""By endpoint, root of a table and kind of request."""


def honours_put(way: Way, fs: Any, root: str) -> bool:
    """Whether a create by one request is exclusive; whatever the store raises passes."""

    def put(path: str) -> None:
        way.put(fs, path, b"probe", "")

    return _is_exclusive(way, fs, root, "put", put)


def honours_upload(way: Way, fs: Any, root: str) -> bool:
    """Whether a create by an upload in parts is exclusive."""

    def upload(path: str) -> None:
        assert way.begin_upload is not None
        upload = way.begin_upload(fs, path, "")
        try:
            upload.add(b"probe")
            upload.finish()
        except BaseException:
            upload.abandon()
            raise

    return way.begin_upload is not None and _is_exclusive(way, fs, root, "upload", upload)


def _is_exclusive(way: Way, fs: Any, root: str, kind: str, create: Callable[[str], None]) -> bool:
    if way.endpoint_of is None:
        return True
    endpoint = way.endpoint_of(fs)
    if endpoint.is_known:
        return True
    key = endpoint.address, split(root)[0], kind
    if key not in _verdicts:
        with _probing.setdefault((endpoint.address, root, kind), threading.Lock()):
            if key not in _verdicts:
                path = f"{root}/{PROBES}/{staged_name()}"
                _verdicts[key] = _refuses_the_second(fs, path, create)
    return _verdicts[key]


def _refuses_the_second(fs: Any, path: str, create: Callable[[str], None]) -> bool:
    try:
        # The name is new: FileExistsError would be the answer to a request that was sent again.
        with contextlib.suppress(FileExistsError):
            create(path)
        create(path)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno != errno.ENOSYS:  # the store does not know the condition, and says so
            raise
    finally:
        _delete(fs, path)
    return False


def _delete(fs: Any, path: str) -> None:
    try:
        fs.rm_file(path)
    except FileNotFoundError:
        pass
    except Exception as error:  # file systems raise what their libraries raise
        logger.warning("A probe could not be deleted (%s): %s", type(error).__name__, path)


if hasattr(os, "register_at_fork"):
    # Threads that hold them do not exist in the child.
    os.register_at_fork(after_in_child=_probing.clear)
