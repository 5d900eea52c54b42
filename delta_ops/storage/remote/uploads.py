"""Uploads: creates a store's file from a stream once the whole content has been written.

1. Memory holds at most one part if the store accepts parts; otherwise the whole content.
2. Each file gets its own mark. If an answer is lost, the client sends the request again and gets
   the error that the file exists. The mark then shows that the file is the caller's own.
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
from delta_ops.storage.exclusive_create import PART_BYTES, ExclusiveCreate, Upload

Failing = Callable[..., AbstractContextManager[None]]
"""Turns errors of the store into `StorageError`, except errors of the given types."""


def upload_written(
    write: Callable[[IO[bytes]], None],
    exclusive: ExclusiveCreate,
    fs: Any,
    path: str,
    *,
    in_parts: Callable[[], bool],
    failing: Failing,
) -> None:
    """Create a file from the content that `write` writes; errors of `write` are not translated.

    Args:
        write: Writes the content to a stream, and may close the stream.
        exclusive: The requests that create files in the store.
        fs: The store's file system.
        path: The full path.
        in_parts: Whether to upload in parts; called once the content exceeds a part.
        failing: Context that translates errors of the store only.

    Raises:
        FileExistsError: The file exists, and this call did not create it.
        StorageError: The store failed; the file may exist or not.
    """
    mark = uuid.uuid4().hex

    def begin() -> Upload | None:
        if exclusive.begin_upload is None or not in_parts():
            return None
        return exclusive.begin_upload(fs, path, mark)

    stream = _UploadStream(begin, failing)
    try:
        write(cast("IO[bytes]", stream))
    except BaseException:
        stream.abandon()
        raise
    try:
        with failing(FileExistsError):
            stream.finish(lambda data: exclusive.put(fs, path, data, mark))
    except (FileExistsError, StorageError) as error:
        found = _mark_of(exclusive, fs, path)
        if found == mark:
            return
        stream.abandon()
        if found is None and isinstance(error, FileExistsError):
            with failing():
                raise OSError(
                    errno.EBUSY, "the store reports that it exists, but does not show it"
                ) from error
        raise


def _mark_of(exclusive: ExclusiveCreate, fs: Any, path: str) -> str | None:
    """Mark of the existing file; None if there is no file or the mark cannot be read."""
    with contextlib.suppress(Exception):  # file systems raise the errors of their libraries
        return exclusive.look(fs, path)
    return None


class _UploadStream(io.RawIOBase):
    """Collects written bytes; stays usable after the writer has closed it.

    Args:
        begin: Begins an upload once the content exceeds a part; None keeps everything in memory.
        failing: Context for calls to the store.
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
        self._is_begun = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Number of bytes written so far."""
        return self._sent_bytes + len(self._kept)

    def write(self, data: Any) -> int:
        """Append all of `data`."""
        view = memoryview(data).cast("B")
        self._kept += view
        if len(self._kept) > PART_BYTES:
            with self._failing():
                self._send_parts()
        return len(view)

    def close(self) -> None:
        """Do nothing: only the writer's return shows that the file is complete."""

    def finish(self, put: Callable[[bytes], None]) -> None:
        """Create the file; `put` creates it if nothing has been uploaded yet."""
        if self._upload is None:
            put(bytes(self._kept))
            return
        self._upload.add(bytes(self._kept))
        self._upload.finish()

    def abandon(self) -> None:
        """Drop the uploaded parts."""
        if self._upload is not None:
            self._upload.abandon()

    def _send_parts(self) -> None:
        if not self._is_begun:
            self._is_begun, self._upload = True, self._begin()
        if self._upload is None:
            return
        while len(self._kept) > PART_BYTES:  # the last part is never empty
            self._upload.add(bytes(memoryview(self._kept)[:PART_BYTES]))
            del self._kept[:PART_BYTES]
            self._sent_bytes += PART_BYTES
