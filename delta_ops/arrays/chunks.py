"""Chunks: files that hold the bytes of one chunk, named by the hash of these bytes.

    _delta_ops/chunks/sha256/ab/<hash>

1. A chunk is durable before a row names it: `ChunkWriter.persist` comes before each row.
2. Equal bytes are one file. A file that exists is replaced by the same bytes, because a sweep goes
   by age: it could otherwise delete a chunk that is about to be named.
3. A kill may leave a file with a part of the bytes. No row names it, and the next writer of these
   bytes replaces it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import IO

from delta_ops.arrays.rows import Value
from delta_ops.errors import StorageError
from delta_ops.storage import Storage
from delta_ops.storage.paths import OWN_DIRECTORY

CHUNKS_DIRECTORY = f"{OWN_DIRECTORY}/chunks/sha256"
SWEPT_FILE = f"{OWN_DIRECTORY}/chunks/swept.json"
"""Written before a sweep deletes chunks; its time is that of the last sweep."""


def chunk_path(digest: str) -> str:
    """The path of a chunk, relative to the table.

    Examples:
        >>> chunk_path("ab12")
        '_delta_ops/chunks/sha256/ab/ab12'
    """
    return f"{CHUNKS_DIRECTORY}/{digest[:2]}/{digest}"


def digest_of(data: bytes) -> str:
    """The hexadecimal hash of bytes."""
    return sha256(data).hexdigest()


def have_same_bytes(one: Value | None, other: Value | None) -> bool:
    """Whether two values have the same bytes; a commit may move bytes from a row to a chunk.

    Ranges of files outside of the table are the same only with equal locations and etags.
    """
    if one == other:
        return True
    if one is None or other is None:
        return False
    hashes = [each.sha256 if each.data is None else digest_of(each.data) for each in (one, other)]
    return hashes[0] is not None and hashes[0] == hashes[1]


def chunk_value(data: bytes, digest: str) -> Value:
    """The value of a key whose bytes are a chunk."""
    return Value(location=chunk_path(digest), offset=0, length=len(data), sha256=digest)


@dataclass(slots=True, eq=False)
class ChunkWriter:
    """Writes the chunks of one writer; used by several threads."""

    storage: Storage
    _new: set[str] = field(default_factory=set)
    """Paths of chunks that a power cut may still delete."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, data: bytes, digest: str) -> Value:
        """Write a chunk; it is durable only after `persist`.

        Args:
            data: The bytes.
            digest: Their hash.

        Raises:
            StorageError: The store failed.
        """
        path = chunk_path(digest)

        def write_to(stream: IO[bytes]) -> None:
            stream.write(data)

        try:
            self.storage.create_from_stream(path, write_to, is_durable=False)
        except FileExistsError:
            self.storage.replace(path, data)
        with self._lock:
            self._new.add(path)
        return chunk_value(data, digest)

    def persist(self) -> None:
        """Make all chunks survive a power cut.

        Raises:
            StorageError: A chunk is gone, or the store failed; call it again.
        """
        with self._lock:
            paths, self._new = self._new, set()
        try:
            self.storage.persist(sorted(paths))
        except BaseException:
            with self._lock:
                self._new |= paths
            raise


def swept_chunks(storage: Storage, paths: Sequence[str], since_ms: int) -> list[str]:
    """The chunks that a sweep has deleted; looks them up only if there was a sweep.

    Args:
        storage: The storage of the table.
        paths: The paths of chunks.
        since_ms: The start of the session; earlier sweeps do not matter. Milliseconds since the
            Unix epoch.

    Raises:
        StorageError: The store failed.
    """
    try:
        if storage.stat(SWEPT_FILE).modified_ms < since_ms:
            return []
    except FileNotFoundError:
        return []
    found = {each.path for each in storage.find(paths)}
    return [path for path in paths if path not in found]


def missing_chunk_error(storage: Storage, path: str, key: str) -> StorageError:
    """The error for a row whose chunk does not exist."""
    return StorageError(
        storage.locate(path),
        "read",
        f"key {key!r} names this chunk, and it does not exist; restore the file from a backup, or "
        "write the key again",
    )
