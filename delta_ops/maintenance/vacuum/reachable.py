"""Reachable: finds the files that some version within the retention needs.

Source: PROTOCOL.md, "Action Reconciliation" (tombstones exist for vacuum).

The file of a deletion vector is reachable as long as one of its vectors is reachable, for any data
file. In doubt a file is reachable. An absolute path in the log may lead into the table by another
name (a link, another scheme), so it protects every file that it could mean. A path with a "%" also
protects the file of that literal name, for writers that forgot to encode it. On a disk, two names
that differ only in the case or the Unicode composition of letters may mean the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.errors import InvalidRequestError, LogCorruptError, LogPathError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, stream_removes
from delta_ops.log.history.commit_times import latest_times
from delta_ops.log.segment import list_log
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, scalar
from delta_ops.protocol.deletion_vectors import INLINE, MalformedVectorError, stored_path
from delta_ops.protocol.file_paths import (
    canonical_paths,
    may_mean_others,
    possible_names,
    possible_paths,
)
from delta_ops.storage.packed_files import Paths

_VECTOR = "deletionVector"
_JOINED_AT_A_TIME = 1000
"""Number of names whose letters are checked at once."""
_READ_AT_A_TIME = 1000
"""Number of commits between two progress events."""


def reachable_paths(
    snapshot: Snapshot, *, now_ms: int, retention_ms: int, on_event: OnEvent = ignore
) -> set[str]:
    """Decoded paths of live files and of files removed less than `retention_ms` ago.

    Raises:
        LogCorruptError: The location of a deletion vector cannot be parsed.
        InvalidRequestError: The log was cleaned up and lacks removes within the retention.
    """
    paths: set[str] = set()
    for some in stream_reachable(
        snapshot, now_ms=now_ms, retention_ms=retention_ms, on_event=on_event
    ):
        paths.update(some)
    return paths


def stream_reachable(
    snapshot: Snapshot, *, now_ms: int, retention_ms: int, on_event: OnEvent = ignore
) -> Iterator[Iterator[str]]:
    """Yield `reachable_paths` in parts; some paths twice.

    Read each part before the next.

    Raises:
        LogCorruptError: As for `reachable_paths`; so is `InvalidRequestError`.
    """
    for files in snapshot.stream_live(["path", _VECTOR]):
        yield protected_paths(files, snapshot)
    yield from stream_removed(snapshot, now_ms=now_ms, retention_ms=retention_ms, on_event=on_event)


def stream_removed(
    snapshot: Snapshot, *, now_ms: int, retention_ms: int, on_event: OnEvent = ignore
) -> Iterator[Iterator[str]]:
    """Yield the part of `stream_reachable` for removed files."""
    horizon_ms = now_ms - retention_ms
    yield protected_paths(tombstones_since(snapshot.tombstones(), horizon_ms), snapshot)
    for removes in _removes_of_commits(snapshot, horizon_ms, retention_ms, on_event):
        yield protected_paths(removes, snapshot)


def paths_added_since(log: DeltaLog, old: Snapshot, new: Snapshot) -> set[str] | None:
    """Decoded paths of files that commits after `old` made live; None if a commit is gone."""
    paths: set[str] = set()
    commits = list(log.commits(old.version + 1, new.version)) if new.version > old.version else []
    if len(commits) != new.version - old.version:
        return None
    for commit in commits:
        paths.update(paths_named_by(commit, new))
    return paths


def real_paths(paths: Iterable[str], links: Mapping[str, str | None]) -> set[str]:
    """Resolve paths that pass through a link; the file is listed by the real path only.

    Args:
        paths: Decoded, relative to the table.
        links: The target of each link by its path: a path without links, "" for the root, None for
            a place outside.
    """
    return {real for path in paths if (real := _real_path(path, links)) != path} if links else set()


def other_names(
    paths: Collection[str],
    listed: Collection[str],
    *,
    links: Mapping[str, str | None],
    may_confuse_letters: bool,
) -> frozenset[str]:
    """Listed names that may also find the files of the paths.

    Some disks ignore the case of letters and list a file by the name that it was created with; two
    partitions may share a directory there. Other disks decompose letters with accents. A path may
    also differ from the name of a link in this way.

    Args:
        paths: Decoded, relative to the table.
        listed: Decoded, relative to the table.
        links: As for `real_paths`.
        may_confuse_letters: Whether the store may be such a disk.
    """
    real = real_paths(paths, links)
    found = real.intersection(listed) if real else set()
    if may_confuse_letters and not all(map(_is_folded, (paths, listed, links))):
        names = array_of(listed, pa.string())
        folded = _fold_names(array_of(paths, pa.string()))
        found.update(_alike(names, folded))
        if links:
            folded_links = {_fold(link): to and _fold(to) for link, to in links.items()}
            real = real_paths(folded.to_pylist(), folded_links)
            found.update(_alike(names, array_of(real, pa.string())))
    return frozenset(found)


def _is_folded(paths: Collection[str]) -> bool:
    """Whether all names are lower-case ASCII, as in most tables, so that no two can be confused."""
    joined = paths.long_texts() if isinstance(paths, Paths) else _join_paths(paths)
    return all(text.isascii() and text == text.lower() for text in joined)


def _join_paths(paths: Iterable[str]) -> Iterator[str]:
    """Yield texts of many paths."""
    remaining = iter(paths)
    while group := list(islice(remaining, _JOINED_AT_A_TIME)):
        yield "".join(group)


def _alike(names: pa.StringArray, folded: pa.StringArray) -> Iterator[str]:
    """The names whose folded form is among `folded`."""
    yield from names.filter(pc.is_in(_fold_names(names), value_set=folded)).to_pylist()


def _fold_names(paths: pa.StringArray) -> pa.StringArray:
    """The folded form of each path: equal for names that a disk may treat as equal."""
    if pc.all(pc.string_is_ascii(paths)).as_py():
        return pc.ascii_lower(paths)
    return array_of(map(_fold, paths.to_pylist()), pa.string())


def _fold(path: str) -> str:
    return normalize("NFD", normalize("NFD", path).casefold())


def _real_path(path: str, links: Mapping[str, str | None]) -> str:
    real = ""
    for part in path.split("/"):
        real = f"{real}/{part}" if real else part
        target = links.get(real)
        real = real if target is None else target
    return real


def paths_named_by(commit: Commit, snapshot: Snapshot) -> Iterator[str]:
    """Paths that a commit makes live, and its change data."""
    yield from protected_paths(commit.adds, snapshot)
    yield from possible_paths(array_of([cdc.path for cdc in commit.cdc], pa.string()), snapshot.uri)


def unneeded_paths(snapshot: Snapshot, tombstones: pa.Table, horizon_ms: int) -> set[str]:
    """Decoded paths that only expired tombstones name.

    If a file gets a new deletion vector, the log removes the file with the old vector and adds it
    with the new vector. The rows stay, and only the file of the old vector is unneeded.

    Args:
        tombstones: The snapshot's tombstones; `path`, `deletionTimestamp` and `deletionVector`.
        horizon_ms: Milliseconds since the Unix epoch; older tombstones have expired.

    Raises:
        LogCorruptError: The location of a deletion vector cannot be parsed.
    """
    expired = tombstones_before(tombstones, horizon_ms)
    if not len(expired):
        return set()
    found = set(vector_paths(expired[_VECTOR], snapshot))
    for chunk in expired["path"].chunks:
        found.update(canonical_paths(chunk, snapshot.uri).to_pylist())
    found.difference_update(protected_paths(tombstones_since(tombstones, horizon_ms), snapshot))
    candidates = array_of(list(found), pa.string())
    for files in snapshot.stream_live(["path", _VECTOR, CANONICAL_PATH]):
        paths = files[CANONICAL_PATH]
        is_named = pc.or_(pc.is_in(paths, value_set=candidates), pc.is_valid(files[_VECTOR]))
        is_odd = may_mean_others(files["path"])
        found.difference_update(protected_paths(files.filter(pc.or_(is_named, is_odd)), snapshot))
    return found


def tombstones_since(tombstones: pa.Table, horizon_ms: int) -> pa.Table:
    """The tombstones from the horizon on; a tombstone without a time is older."""
    if not len(tombstones):  # most tables have none
        return tombstones
    return tombstones.filter(_is_since(tombstones, horizon_ms))


def tombstones_before(tombstones: pa.Table, horizon_ms: int) -> pa.Table:
    """The expired tombstones, whose files may be deleted."""
    if not len(tombstones):
        return tombstones
    return tombstones.filter(pc.invert(_is_since(tombstones, horizon_ms)))


def _is_since(tombstones: pa.Table, horizon_ms: int) -> pa.ChunkedArray:
    return pc.fill_null(
        pc.greater_equal(tombstones["deletionTimestamp"], scalar(horizon_ms)), FALSE_SCALAR
    )


def protected_paths(files: pa.Table, snapshot: Snapshot) -> Iterator[str]:
    """Decoded paths of files and their deletion vectors, under every name that they may have.

    Args:
        files: `path` and `deletionVector`, of adds or removes.

    Raises:
        LogCorruptError: The location of a deletion vector cannot be parsed.
    """
    yield from vector_paths(files[_VECTOR], snapshot)
    for chunk in files["path"].chunks:
        yield from possible_paths(chunk, snapshot.uri)


def vector_paths(vectors: pa.ChunkedArray, snapshot: Snapshot) -> Iterator[str]:
    """Decoded paths of deletion vector files, under every name that they may have.

    Raises:
        LogCorruptError: The location of a deletion vector cannot be parsed.
    """
    for chunk in vectors.chunks:
        kinds = pc.struct_field(chunk, "storageType")
        stored = chunk.filter(pc.fill_null(pc.not_equal(kinds, scalar(INLINE)), FALSE_SCALAR))
        kinds = pc.struct_field(stored, "storageType").to_pylist()
        places = pc.struct_field(stored, "pathOrInlineDv").to_pylist()
        for kind, place in dict.fromkeys(zip(kinds, places, strict=True)):
            yield from possible_names(_vector_path(kind, place or "", snapshot))


def _vector_path(kind: str, place: str, snapshot: Snapshot) -> str:
    vector = DeletionVector(
        storage_type=kind, path_or_inline_dv=place, size_in_bytes=0, cardinality=0
    )
    try:
        path = stored_path(vector, snapshot.uri)
    except (MalformedVectorError, LogPathError) as error:
        raise LogCorruptError(
            snapshot.uri,
            snapshot.log_directory,
            f"a file has a deletion vector at {place!r}, which cannot be read ({error}); nothing "
            "was deleted, because that file may be needed. Repair the log, or restore it",
        ) from error
    assert path is not None
    return path


def _removes_of_commits(
    snapshot: Snapshot, horizon_ms: int, retention_ms: int, on_event: OnEvent
) -> Iterator[pa.Table]:
    """Removes since the horizon, read from the commits.

    The removal time comes from the writer's clock, and some writers omit it. So all removes of a
    commit count if the store's time of the commit may be after the horizon.

    A checkpoint drops a removed file after the retention at the time of the checkpoint, as its
    writer understood it. The property may have been raised since, and some writers replace a value
    that they cannot parse by the default. Every later checkpoint lacks the dropped removes.
    """
    listing = list_log(snapshot.storage, snapshot.log_directory)
    times = latest_times(listing, horizon_ms + retention_ms)
    # One day more, in case a writer's clock is ahead of the store's.
    chosen = [v for v, time_ms in times.items() if time_ms >= horizon_ms - DAY_MS]
    read = stream_removes(snapshot.storage, [listing.commits[version] for version in chosen])
    for done, (version, removes) in enumerate(zip(chosen, read, strict=True), 1):
        if removes is not None:
            is_recent = times[version] >= horizon_ms
            yield removes if is_recent else tombstones_since(removes, horizon_ms)
        if done % _READ_AT_A_TIME == 0:
            on_event(
                Progress(table=snapshot.uri, operation="read commits", done=done, total=len(chosen))
            )
    if retention_ms > snapshot.properties.deleted_file_retention_ms and snapshot.checkpoint:
        _validate_remembered(snapshot, horizon_ms, horizon_ms + retention_ms)


def _validate_remembered(snapshot: Snapshot, horizon_ms: int, now_ms: int) -> None:
    """Reject a retention if the log has lost commits that it needs.

    A commit may also be lost while the log is read. A retention up to the table's own needs no
    commits: the checkpoint has all removes of that time.
    """
    times = latest_times(list_log(snapshot.storage, snapshot.log_directory), now_ms)
    first = snapshot.version + 1
    while first - 1 in times:
        first -= 1
    if first > 0 and times.get(first, horizon_ms) >= horizon_ms:
        remembered_ms = snapshot.properties.deleted_file_retention_ms
        hours = f"{remembered_ms * 1000 // HOUR_MS / 1000:g}"  # rounded down, as it is a limit
        raise InvalidRequestError(
            f"{snapshot.uri}: files that were removed so long ago cannot be kept, because the log "
            f"was cleaned up and knows removed files for only {hours} hours; vacuum with a "
            f"retention of at most {hours} hours, and raise delta.deletedFileRetentionDuration "
            "for the future"
        )
