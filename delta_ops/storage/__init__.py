"""Storage: bytes by path, on a local disk or any store that fsspec supports. Knows no Delta.

`open_storage` opens the `Storage` for a user's address; `contract` describes its guarantees.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from delta_ops.late_imports import importing
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.contract import FileInfo, Readable, Storage
from delta_ops.storage.local.storage import LocalStorage
from delta_ops.storage.locks import Lock
from delta_ops.storage.range_cache import RangeCache

__all__ = ["FileInfo", "Lock", "RangeCache", "Readable", "Storage", "open_storage"]


def open_storage(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    lock: Lock | None = None,
    cache: RangeCache | None = None,
) -> Storage:
    """Open the storage rooted at `uri`; nothing is read, and the root need not exist.

    Args:
        uri: A local path, which may start with "~"; a `file:` URI, as `Path.as_uri()` returns it or
            without escapes; or a URI of a store that fsspec supports.
        storage_options: For fsspec's file system. A local path needs none; options that no store
            has are rejected there too.
        lock: Lock to hold while files are created, for stores without exclusive create.
        cache: Cache for ranges of unchanging files, read from S3, GCS or Azure; other stores ignore
            it.

    Raises:
        InvalidRequestError: The address is ambiguous, incomplete or of an unknown kind.
        MissingDependencyError: The package for this kind of store is not installed.
        StorageError: The file system could not be set up, for example without credentials.
    """
    address = os.fsdecode(uri)
    path = local_path_of(address)
    if path is not None:
        if storage_options:
            with importing():
                from delta_ops.storage.remote.opening import validate_unneeded

            validate_unneeded(storage_options, path)
        return LocalStorage(path, lock)
    # Local tables skip fsspec, which would add 7 MB and a tenth of the import time.
    with importing():
        from delta_ops.storage.remote.opening import open_remote

    return open_remote(address, storage_options or {}, lock, cache)
