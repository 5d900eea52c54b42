"""fsspec storage: every store that is not this machine's file system, as fsspec reaches it.

1. Listings are never cached: the file system is opened without a cache of listings, and whatever
   it holds all the same is dropped before each.
2. Paths are given to fsspec's single-file calls only; those for several files expand wildcards.
3. Creating goes through `exclusive`, replacing only to stores whose upload is atomic; any other
   store can be read, listed and deleted from.
4. Whatever a file system raises becomes a `StorageError`, in words without credentials.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import IO, Any

import pyarrow as pa

from delta_ops.errors import DeltaOpsError, StorageError, UnsupportedStorageError
from delta_ops.storage.contract import FileInfo
from delta_ops.storage.exclusive import memory_lock, way_to_create
from delta_ops.storage.failures import reason_of, scrub
from delta_ops.storage.paths import is_valid, redact, validate
from delta_ops.storage.ranges import validate_parts, validate_ranges

logger = logging.getLogger(__name__)

OBJECT_STORES = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""Stores of whole objects: an upload is atomic and durable, and one listing covers a tree."""

_DELETE_THREADS = 16
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_NOTHING_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class FsspecStorage:
    """A `Storage` over a fsspec file system.

    Args:
        fs: Opened with `use_listings_cache=False`.
        root: The root as `fs` names it.
        uri: The root as the user named it; credentials in it are dropped.
    """

    def __init__(self, fs: Any, root: str, uri: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        self._uri = redact(uri).rstrip("/")
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"FsspecStorage({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root as the user named it, without credentials."""
        return self._uri

    def locate(self, path: str) -> str:
        """The full URI; "" is the root."""
        return f"{self._uri}/{validate(path)}" if path else self._uri

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """See `Storage`."""
        prefix = f"{directory}/" if directory else ""
        with self._failing_as(directory, "listed"):
            infos = self._infos_of(prefix, self._listing_of(directory))
        here = (info for info in infos if "/" not in info.path[len(prefix) :])
        return iter(sorted(info for info in here if info.path >= prefix + start))

    def list_tree(self, directory: str) -> Iterator[FileInfo]:
        """See `Storage`."""
        prefix = f"{directory}/" if directory else ""
        with self._failing_as(directory, "listed"):
            if self._protocols().isdisjoint(OBJECT_STORES)
