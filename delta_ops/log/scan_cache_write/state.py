"""State of the scan cache: whether a table has one that can be used, and its unused files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from delta_ops.clock import DAY_MS
from delta_ops.log.last_checkpoint import tag_scan_cache
from delta_ops.log.scan_cache.file import (
    CacheFile,
    UnusableCacheError,
)
from delta_ops.log.scan_cache.hint import (
    HINT_PATH,
    PLANNING_DIRECTORY,
    DamagedHintError,
    is_cache_file,
    load_cache_hint,
    text_of_hint,
)
from delta_ops.log.segment import find_cache, list_log
from delta_ops.log.snapshot import Snapshot
from delta_ops.log.version.cached_files import open_found
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.paths import is_hidden_staged

_GRACE_MS = DAY_MS
"""Unused cache files are deleted after this time: a reader may have opened the table before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """The scan cache of a table, beside a version of it."""

    file: CacheFile | None = None
    """The opened scan cache; None if there is none that can be used."""
    problem: str | None = None
    """Why the existing scan cache cannot be used, as part of a sentence; None without one."""

    @property
    def exists(self) -> bool:
        """Whether there is a scan cache, usable or not."""
        return self.file is not None or self.problem is not None

    @property
    def version(self) -> int | None:
        """The cached version; None if there is no scan cache that can be used."""
        return None if self.file is None else self.file.hint.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Unused cache files that were deleted."""

    files: tuple[str, ...]
    failures: tuple[str, ...]
    """Files that could not be deleted."""


def state_of_cache(snapshot: Snapshot) -> CacheState:
    """Open the table's scan cache as a reader of a version does; the row groups stay unread.

    Raises:
        StorageError: The log cannot be listed.
    """
    storage = snapshot.storage
    try:
        hint = load_cache_hint(storage, snapshot.log_directory)
    except DamagedHintError as error:
        return CacheState(problem=f"its hint is damaged ({error})")
    if hint is None:
        return CacheState()
    listing = list_log(storage, snapshot.log_directory, from_version=hint.version)
    found = find_cache(hint, listing, snapshot.version, snapshot.checkpoint)
    try:
        file = open_found(snapshot, found)
        is_whole = storage.stat(hint.path).size == hint.size
    except UnusableCacheError as error:
        return CacheState(problem=str(error))
    except FileNotFoundError:
        return CacheState(problem="its file is gone")
    return CacheState(file=file) if is_whole else CacheState(problem="its file is damaged")


def has_scan_cache(storage: Storage) -> bool:
    """Whether the table has the hint of a scan cache, usable or not."""
    try:
        storage.stat(HINT_PATH)
    except FileNotFoundError:
        return False
    return True


def tag_existing(snapshot: Snapshot) -> None:
    """Name the scan cache in `_last_checkpoint` again, if another engine has replaced that file.

    Raises:
        StorageError: The store failed.
    """
    with suppress(DamagedHintError):
        hint = load_cache_hint(snapshot.storage, snapshot.log_directory)
        if hint is not None:
            tag_scan_cache(snapshot.storage, snapshot.log_directory, text_of_hint(hint))


def record_index(storage: Storage, log_directory: str) -> None:
    """Let plans look for indexes, if the hint of the scan cache says that the table has none.

    Raises:
        StorageError: The store failed.
    """
    with suppress(DamagedHintError):
        hint = load_cache_hint(storage, log_directory)
        if hint is not None and not hint.may_have_indexes:
            text = text_of_hint(replace(hint, may_have_indexes=True))
            storage.replace(HINT_PATH, text.encode())
            tag_scan_cache(storage, log_directory, text)


def unused_files(storage: Storage, log_directory: str, now_ms: int) -> tuple[FileInfo, ...]:
    """Cache files that no hint names, and that no reader can have begun to use.

    Args:
        storage: Rooted at the table.
        log_directory: Relative to the table's root.
        now_ms: Milliseconds since the Unix epoch, by the store's clock.
    """
    try:
        hint = load_cache_hint(storage, log_directory)
    except DamagedHintError:
        hint = None
    named = () if hint is None else (hint.path, hint.footer_path)
    return tuple(
        info
        for info in storage.list_from(PLANNING_DIRECTORY, "")
        if (is_cache_file(info.path) or is_hidden_staged(info.path.rpartition("/")[2]))
        and info.path not in named
        and info.modified_ms <= now_ms - _GRACE_MS
    )


def delete_unused(storage: Storage, files: Sequence[FileInfo]) -> Deleted:
    """Delete unused cache files."""
    paths = [info.path for info in files]
    failures = storage.delete_many(paths)
    return Deleted(
        files=tuple(path for path in paths if path not in failures), failures=tuple(failures)
    )
