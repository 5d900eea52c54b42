"""Cached files: the live files of a version by its scan cache, with later commits on top.

The cache holds the live files of an earlier version C. A version is read from a checkpoint K and
the commits after it, its tail. For each file, the newest action since C decides:

1. If C is K or later, the tail has every action since C, and possibly older actions. An older
   action agrees with the cache, which includes it.
2. If C is earlier than K, the commits between the two are read, and are older than the tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.lazy import lazy
from delta_ops.log.commit_file import read_commits
from delta_ops.log.scan_cache.file import (
    CacheFile,
    FoundCache,
    UnusableCacheError,
    open_cache_file,
    read_groups,
)
from delta_ops.log.scan_cache.hint import (
    CacheHint,
    DamagedHintError,
    digest_of_columns,
    load_cache_hint,
)
from delta_ops.log.segment import Checkpoint, find_cache, list_log
from delta_ops.log.version.files import Version, stored_columns, stream_over
from delta_ops.log.version.reconciliation import Tail, merge, reconcile
from delta_ops.protocol.columns.mapping import physical_predicate
from delta_ops.protocol.file_names import V2CheckpointName, log_file_name
from delta_ops.protocol.predicate import Predicate, resolve
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.properties.known import SCAN_CACHE
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import OWN_DIRECTORY

_LARGE_BYTES = 1 << 20
"""A checkpoint of fewer bytes is read as fast as the scan cache."""


@dataclass(frozen=True, kw_only=True)
class CachedPart:
    """The part of the scan cache that a plan reads."""

    version: Version
    file: CacheFile
    groups: tuple[int, ...]
    """Row groups that may hold a file with a matching row."""
    columns: tuple[str, ...]
    """Compared columns that left out groups, by their names in the predicate."""
    commits: tuple[FileInfo, ...]
    """The commits after the cache's version, up to the checkpoint."""

    @property
    def num_files(self) -> int:
        """Number of files in the cache and in later commits."""
        return self.file.num_files + len(self.tail.adds)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files in the cache and in later commits."""
        later = pc.sum(self.tail.adds.rows["size"], min_count=0).as_py()
        return self.file.size_bytes + int(later)

    def stream(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the files of the groups and of later commits; columns as for `stream_live`.

        Raises:
            UnusableCacheError: A file is gone or damaged, or the store failed.
        """
        storage = self.version.storage
        batches = read_groups(storage, self.file, self.groups, stored_columns(columns))
        yield from stream_over(self.version, self.tail, batches, columns)

    @lazy
    def tail(self) -> Tail:
        """File actions since the cache.

        Raises:
            UnusableCacheError: A commit cannot be read.
        """
        version = self.version
        if not self.commits:
            return version.tail
        try:
            between = read_commits(version.storage, self.commits)
        except (FileNotFoundError, DeltaOpsError) as error:
            raise UnusableCacheError(f"a commit since then cannot be read: {error}") from error
        return merge(version.tail, reconcile(between, version.uri))


def choose_part(
    version: Version, predicate: Predicate, partition_time_zone: str
) -> CachedPart | None:
    """Choose the row groups of the scan cache that a plan must read.

    Returns:
        None if there is no scan cache, or if it can leave out nothing.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
        UnusableCacheError: The cache cannot be used.
    """
    definition = version.definition
    resolved = resolve(predicate, definition.schema)
    leaves = list(leaves_of(resolved))
    if not leaves or not _may_have_cache(version):
        return None
    found = _find_cache(version)
    if found is None:
        return None
    file = open_found(version, found)
    stored = physical_predicate(resolved, definition.schema) if definition.is_mapped else resolved
    groups = file.matching_groups(stored, partition_time_zone)
    if len(groups) == len(file.index):
        return None
    indexed = {column.path for column in file.columns}
    named = zip(leaves_of(stored), leaves, strict=True)
    columns = {by_user.column[0] for by_file, by_user in named if by_file.column in indexed}
    return CachedPart(
        version=version,
        file=file,
        groups=tuple(groups),
        columns=tuple(sorted(columns)),
        commits=found.commits,
    )


def is_scan_cache_on(configuration: Mapping[str, str]) -> bool:
    """Whether the table's properties allow reads to use the scan cache."""
    try:
        return SCAN_CACHE.value_in(configuration) is not False
    except InvalidRequestError:
        return True


def _may_have_cache(version: Version) -> bool:
    return (
        version.checkpoint is not None
        and version.base is None
        and not version.log_directory.startswith(f"{OWN_DIRECTORY}/")
        and is_scan_cache_on(version.definition.metadata.configuration)
    )


def open_found(version: Version, found: FoundCache) -> CacheFile:
    """Open the scan cache of a version.

    Raises:
        UnusableCacheError: It does not fit the version, or its file is gone or damaged.
    """
    hint, metadata = found.hint, version.definition.metadata
    if hint.table_id != metadata.id:
        raise UnusableCacheError("it belongs to another table")
    if found.reason is not None:
        raise UnusableCacheError(found.reason)
    if hint.columns != digest_of_columns(metadata):
        raise UnusableCacheError(
            f"the table's columns have changed since version {hint.version}, which it is of"
        )
    return found.file or open_cache_file(version.storage, hint, found.footer)


def _find_cache(version: Version) -> FoundCache | None:
    """Find the scan cache, even if `_last_checkpoint` of another engine does not name it."""
    if version.scan_cache is not None:
        return version.scan_cache
    checkpoint = version.checkpoint
    if checkpoint is None or not _is_large(checkpoint):
        return None
    hint = _load_hint(version)
    if hint is None:
        return None
    first = min(hint.version, checkpoint.version)
    try:
        listing = list_log(version.storage, version.log_directory, from_version=first)
    except DeltaOpsError as error:
        raise UnusableCacheError(f"the log cannot be listed: {error}") from error
    return find_cache(hint, listing, version.version, checkpoint)


def _load_hint(version: Version) -> CacheHint | None:
    try:
        return load_cache_hint(version.storage, version.log_directory)
    except DamagedHintError as error:
        raise UnusableCacheError(f"its hint is damaged ({error})") from error
    except DeltaOpsError as error:
        raise UnusableCacheError(f"its hint cannot be read: {error}") from error


def _is_large(checkpoint: Checkpoint) -> bool:
    name = log_file_name(checkpoint.parts[0].path.rpartition("/")[2])
    if isinstance(name, V2CheckpointName):
        return True  # its sidecars have the files
    return sum(part.size for part in checkpoint.parts) >= _LARGE_BYTES
