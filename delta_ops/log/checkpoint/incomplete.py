"""Incomplete checkpoints: parts without the rest, and empty files, which some take for a whole one.

deltalake's clean-up goes by names. Any such file is a checkpoint to it, and it deletes the commits
below; the table is gone for everybody. So the files go, by rules under which nobody misses them:

1. Only those of a version that has no complete checkpoint, and can be read without them: where it
   cannot, they may be all that is left of it.
2. None of the version's is younger than a day: somebody may be writing the others.
3. They are looked at again just before: the missing ones may have come.
4. A hint that names the version goes before them, and is looked for after them too: some readers
   fail where it names what is not there, and all list without one.
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
    """What was deleted, and what could not be."""

    files: tuple[FileInfo, ...]
    failures: tuple[str, ...]
    """Paths."""


_NOTHING = DeletedFiles(files=(), failures=())


def misleading_files(listing: LogListing) -> tuple[FileInfo, ...]:
    """The files of incomplete checkpoints whose versions can be read without them.

    Args:
        listing: From a complete checkpoint on, or of the whole log.
    """
    return _flatten(_find_misleading(listing))


def stale_files(listing: LogListing, now_ms: int) -> tuple[FileInfo, ...]:
    """Misleading files that nobody is completing any more.

    Args:
        listing: As for `misleading_files`.
        now_ms: Milliseconds since the Unix epoch, by the store's clock.
    """
    return _flatten(_find_stale(listing, now_ms))


def delete_stale(
    storage: Storage, directory: str, files: Collection[FileInfo], now_ms: int
) -> DeletedFiles:
    """Delete those of the files that are stale at this moment too.

    Left is a writer who completes a checkpoint of day-old parts between the look and the deletion:
    then the version has none after all, which matters only if a clean-up has gone by it meanwhile.

    Args:
        files: As `stale_files` gave them.
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
