"""Reading: the bytes of a key, from its row, from a chunk or from a file outside of the table.

1. The bytes of a whole chunk are compared with their hash. A range of a chunk cannot be.
2. A file outside of the table is read only below a prefix that the reader has allowed. Its etag is
   compared after the bytes were read, so bytes of a changed file are never returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from delta_ops.arrays.chunks import chunk_path, digest_of, missing_chunk_error
from delta_ops.arrays.rows import Value
from delta_ops.errors import ArrayKeyError
from delta_ops.storage import FileInfo, Storage, open_storage
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import is_valid

Prefixes = Mapping[str, Mapping[str, Any] | None]
"""Storage options by prefix of a location, such as `s3://archive/2026/`; None for no options."""


def etag_of(info: FileInfo) -> str:
    """The identifier of a file's content: the store's, or else its size and time.

    Examples:
        >>> from delta_ops.storage import FileInfo
        >>> etag_of(FileInfo("a.nc", 10, 7))
        '10-7'
    """
    return info.etag or f"{info.size}-{info.modified_ms}"


@dataclass(slots=True, eq=False)
class ValueReader:
    """Reads the bytes of keys; used by several threads.

    Args:
        storage: Of the table.
        prefixes: Prefixes of the files outside of the table that may be read.
    """

    storage: Storage
    prefixes: Prefixes = field(default_factory=dict)
    _opened: dict[str, Storage] = field(default_factory=dict)

    def read(self, key: str, value: Value, start: int, end: int) -> bytes:
        """Read a range of the bytes of a key.

        Args:
            key: For messages.
            value: The value of the key.
            start: First byte.
            end: Behind the last byte, at most the size of the value.

        Raises:
            ArrayKeyError: The bytes do not fit their hash, the file outside of the table has
                changed, or it may not be read.
            StorageError: The file is missing, or the store failed.
        """
        if value.data is not None:
            return value.data[start:end]
        if value.sha256 is None:
            return self._read_outside(key, value, start, end)
        path = chunk_path(value.sha256)
        if value.location != path or value.offset:
            raise ArrayKeyError(
                self.storage.uri,
                key,
                f"names the location {value.location!r} and the hash {value.sha256}, which do not "
                "fit; write the key again",
            )
        try:
            if (start, end) != (0, value.size):
                return self.storage.read_ranges(path, [(start, end)])[0]
            data = self.storage.read(path)
        except FileNotFoundError as error:
            raise missing_chunk_error(self.storage, path, key) from error
        if len(data) != value.length or digest_of(data) != value.sha256:
            raise ArrayKeyError(
                self.storage.uri,
                key,
                f"has other bytes in {path} than their hash says; restore the file from a backup, "
                "or write the key again",
            )
        return data

    def _read_outside(self, key: str, value: Value, start: int, end: int) -> bytes:
        storage, path = self._open_outside(key, value.location or "")
        offset = value.offset or 0
        try:
            data = storage.read_ranges(path, [(offset + start, offset + end)])[0]
            found = etag_of(storage.stat(path))
        except FileNotFoundError as error:
            raise ArrayKeyError(
                self.storage.uri, key, f"names {value.location}, which does not exist; restore it"
            ) from error
        if value.etag is not None and found != value.etag:
            raise ArrayKeyError(
                self.storage.uri,
                key,
                f"names {value.location} with the etag {value.etag}, but the file was changed and "
                f"has the etag {found}; restore the file, or write the reference again",
            )
        return data

    def _open_outside(self, key: str, location: str) -> tuple[Storage, str]:
        place = local_path_of(location) or location
        for prefix, options in self.prefixes.items():
            root = (local_path_of(prefix) or prefix).rstrip("/") + "/"
            path = place.removeprefix(root)
            if path != place and is_valid(path):
                storage = self._opened.get(root)
                if storage is None:
                    storage = self._opened[root] = open_storage(root, options)
                return storage, path
        raise ArrayKeyError(
            self.storage.uri,
            key,
            f"names {location}, outside of the table and of the prefixes that may be read; add its "
            "prefix to virtual_prefixes if you trust the table",
        )
