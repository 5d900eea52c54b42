"""Incomplete checkpoints: deletes empty checkpoint files and parts of an incomplete checkpoint.

deltalake's clean-up looks at names only. It takes any such file for a checkpoint and deletes the
commits below it. Then no reader can read the table. So these files are deleted, by rules that keep
every file that is still needed:

1. Only files of versions without a complete checkpoint are deleted, and only if the version can be
   read without them. Otherwise they may be all that is left of the version.
2. All files of the version are at least a day old. Before that, a writer may still add parts.
3. The log is listed again just before the deletion, because the missing parts may have appeared.
4. A hint that names the version is deleted before the files, and checked again after them. Some
   readers fail if the hint names missing files. Without a hint, all readers list the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from delta_ops.clock import DAY_MS
from delta_ops.log.last_checkpoint import load_named_version
from delta_ops.log.segment import LogListing, earliest_version, list_log
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.storage import FileInfo, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedFiles:
    """The deleted files, and the paths that could not be deleted."""

    files: tuple[FileInfo, ...]
    failures: tuple[str, ...]
    """Paths that could not be deleted."""


_NOTHING = DeletedFiles(files=(), failures=())


def misleading_files(listing: LogListing) -> tuple[FileInfo, ...]:
    """Files of incomplete checkpoints that are not needed to read their versions.

    They mislead clean-ups that look at names only.

    Args:
        listing: A listing of the whole log, or from a complete checkpoint on.
    """
    return _flatten(_find_misleading(listing))


def stale_files(listing: LogListing, now_ms: int) -> tuple[FileInfo, ...]:
    """The misleading files of versions to which no writer is still adding parts.

    Args:
        listing: As for `misleading_files`.
        now_ms: Milliseconds since the Unix epoch, by the store's clock.
    """
    return _flatten(_find_stale(listing, now_ms))


def delete_stale(
    storage: Storage, directory: str, files: Collection[FileInfo], now_ms: int
) -> DeletedFiles:
    """Delete the given files that are still stale.

    One race remains: a writer completes a checkpoint of day-old parts between the listing and the
    deletion. The version then has no checkpoint. That matters only if a clean-up relied on the
    checkpoint in the meantime.

    Args:
        files: From `stale_files`.
        now_ms: As for `stale_files`.
    """
    if not files:
        return _NOTHING
    wanted = {info.path for info in files}
    stale = {
        version: [info for info in found if info.path in wanted]
        for version, found in _find_stale(list_log(storage, directory), now_ms).items()
    }
    chosen = _flatten(stale)
    if not chosen:
        return _NOTHING
    _delete_hint_of(storage, directory, stale)
    failures = storage.delete_many(info.path for info in chosen)
    _delete_hint_of(storage, directory, stale)
    left = frozenset(failures)
    return DeletedFiles(
        files=tuple(info for info in chosen if info.path not in left), failures=tuple(failures)
    )


def _find_misleading(listing: LogListing) -> dict[int, Sequence[FileInfo]]:
    earliest = earliest_version(listing)
    return {
        version: files
        for version, files in listing.incomplete.items()
        if earliest is not None and version >= earliest
    }


def _find_stale(listing: LogListing, now_ms: int) -> dict[int, Sequence[FileInfo]]:
    return {
        version: files
        for version, files in _find_misleading(listing).items()
        if max(info.modified_ms for info in files) < now_ms - DAY_MS
    }


def _flatten(by_version: Mapping[int, Sequence[FileInfo]]) -> tuple[FileInfo, ...]:
    return tuple(info for files in by_version.values() for info in files)


def _delete_hint_of(storage: Storage, directory: str, versions: Collection[int]) -> None:
    if load_named_version(storage, directory) in versions:
        storage.delete(f"{directory}/{LAST_CHECKPOINT}")
