"""Uploads: what a writer writes becomes a file of a store when all of it is there.

1. No more than a part is kept where the store takes parts; else all of it is, until the end.
2. The file gets a mark of its own. A client that sends a request again whose answer was lost is
   told of an existing file, which is then known by its mark.
"""

from __future__ import annotations

import contextlib
import errno
import io
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, Any, cast

from delta_ops.errors import StorageError
from delta_ops.storage.create_way import PART_BYTES, Upload, Way

Failing = Callable[..., AbstractContextManager[None]]
"""Turns what reaches the store and fails into `StorageError`, but for the types it is given."""


def upload_written(
    write: Callable[[IO[bytes]], None],
    way: Way,
    fs: Any,
    path: str,
    *,
    in_parts: Callable[[], bool],
    failing: Failing,
) -> None:
    """Create a file of what `write` writes, whose own errors pass as they are.

    Args:
        write: May close what it writes to.
        way: How the store creates files.
        fs: Its file system.
        path: The full path.
        in_parts: Asked once there is more than a part.
        failing: Tells the store's errors from the writer's.

    Raises:
        FileExistsError: It is there, and not by us.
        StorageError: It may be there, or not.
    """
    mark = uuid.uuid4().hex

    def begin() -> Upload | None:
        if way.begin_upload is None or not in_parts():
            return None
        return way.begin_upload(fs, path, mark)

    stream = _UploadStream(begin, failing)
    try:
        write(cast("IO[bytes]", stream))
    except BaseException:
        stream.abandon()
        raise
    try:
        with failing(FileExistsError):
            stream.finish(lambda data: way.put(fs, path, data, mark))
    except (FileExistsError, StorageError) as error:
        found = _mark_of(way, fs, path)
        if found == mark:
            return
        stream.abandon()
        if found is None and isinstance(error, FileExistsError):
            with failing():
                raise OSError(errno.EBUSY, "said to be there, and not shown") from error
        raise


def _mark_of(way: Way, fs: Any, path: str) -> str | None:
    """Mark of the file that is there; None if there is none, or its mark cannot be told."""
    with contextlib.suppress(Exception):  # file systems raise what their libraries raise
        return way.look(fs, path)
    return None


class _UploadStream(io.RawIOBase):
    """Takes what is written; outlives a writer that closes what it wrote to.

    Args:
        begin: Begins an upload when there is more than a part; None keeps all in memory.
        failing: Around what reaches the store.
    """

    def __init__(
        self,
        begin: Callable[[], Upload | None],
        failing: Failing,
    ) -> None:
        self._begin, self._failing = begin, failing
        self._kept = bytearray()
        self._sent_bytes = 0
        self._upload: Upload | None = None
        self._is_asked = False

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Bytes written."""
        return self._sent_bytes + len(self._kept)

    def write(self, data: Any) -> int:
        """Take all of `data`."""
        view = memoryview(data).cast("B")
        self._kept += view
        if len(self._kept) > PART_BYTES:
            with self._failing():
                self._send_parts()
        return len(view)

    def close(self) -> None:
        """Do nothing: whether the file is complete, its writer says by returning."""

    def finish(self, put: Callable[[bytes], None]) -> None:
        """Make the file of what was written; `put` takes it whole where it was not uploaded."""
        if self._upload is None:
            put(bytes(self._kept))
            return
        self._upload.add(bytes(self._kept))
        self._upload.finish()

    def abandon(self) -> None:
        """Drop what was uploaded."""
        if self._upload is not None:
            self._upload.abandon()

    def _send_parts(self) -> None:
        if not self._is_asked:
            self._is_asked, self._upload = True, self._begin()
        if self._upload is None:
            return
        while len(self._kept) > PART_BYTES:  # the last part is never empty
            self._upload.add(bytes(memoryview(self._kept)[:PART_BYTES]))
            del self._kept[:PART_BYTES]
            self._sent_bytes += PART_BYTES
