"""Uploads: a stream to write to, whose bytes become a file of a store when they are all there.

No more than a part is kept where the store takes parts; else all of it is, until the end.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from delta_ops.storage.create_way import PART_BYTES, Upload


class UploadStream(io.RawIOBase):
    """Takes what is written; outlives a writer that closes what it wrote to.

    Args:
        begin: Begins an upload when there is more than a part; None keeps all in memory.
        translated: Around what reaches the store, so that its errors are told from the writer's.
    """

    def __init__(
        self,
        begin: Callable[[], Upload | None],
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._begin, self._translated = begin, translated
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
            with self._translated():
                self._send_parts()
        return len(view)

    def close(self) -> None:
        """Nothing: whether the file is complete, its writer says by returning."""

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
