"""Reachable: the files that some version still within the retention needs.

Source: PROTOCOL.md, "Action Reconciliation" (tombstones exist for vacuum).

In doubt a file is reachable. A path that the log gives in full may lead into the table by another
name (a link, another scheme), so it protects every file that it could end in; a path with a "%"
protects the file of that literal name too, for writers that forgot to encode it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import read_commit
from delta_ops.log.history import monotone_times
from delta_ops.log.segment import list_log
from delta_ops.protocol.file_paths import canonical_paths, is_absolute


def reachable_paths(snapshot: Snapshot, *, now_ms: int, retention_ms: int) -> set[str]:
    """Decoded paths of the live files, and of those removed less than `retention_ms` ago.

    Raises:
        UnsupportedFeatureError: A file has a deletion vector.
        InvalidRequestError: The log does not remember what was removed so long ago.
    """
    horizon_ms = now_ms - retention_ms
    paths: set[str] = set()
    for files in snapshot.stream_live(["path", "deletionVector"]):
        paths.update(_protected(files, snapshot.uri))
    paths.update(_protected(removed_since(snapshot.tombstones(), horizon_ms), snapshot.uri))
    if retention_ms > snapshot.properties.deleted_file_retention_ms:
        for removes in _removes_of_commits(snapshot, horizon_ms):
            paths.update(_protected(removes, snapshot.uri))
    return paths


def removed_since(tombstones: pa.Table, horizon_ms: int) -> pa.Table:
    """The tombstones from the horizon on; one without a time is older."""
    return tombstones.filter(_is_since(tombstones, horizon_ms))


def removed_before(tombstones: pa.Table, horizon_ms: int) -> pa.Table:
    """The tombstones whose file is to go."""
    return tombstones.filter(pc.invert(_is_since(tombstones, horizon_ms)))


def _is_since(tombstones: pa.Table, horizon_ms: int) -> pa.ChunkedArray:
    return pc.fill_null(pc.greater_equal(tombstones["deletionTimestamp"], horizon_ms), False)


def _protected(files: pa.Table, table_uri: str) -> Iterator[str]:
    if files["deletionVector"].null_count < len(files):
        raise UnsupportedFeatureError(table_uri, ("deletionVectors",), "vacuumed")
    for chunk in files["path"].chunks:
        for path in canonical_paths(chunk, table_uri).to_pylist():
            yield from _names_of(path)
        yield from (path for path in chunk.to_pylist() if "%" in path)


def _names_of(path: str) -> Iterator[str]:
    normal = posixpath.normpath(path)
    yield normal
    if is_absolute(path):
        parts = normal.split("/")
        yield from ("/".join(parts[i:]) for i in range(1, len(parts)))


def _removes_of_commits(snapshot: Snapshot, horizon_ms: int) -> Iterator[pa.Table]:
    """Removes since the horizon, as the commits have them.

    Checkpoints forget a removed file after `delta.deletedFileRetentionDuration`; whoever wants
    files kept for longer can only learn of them from the commits.
    """
    if snapshot.checkpoint is None:
        return  # every commit is in the snapshot
    listing = list_log(snapshot.storage, snapshot.log_directory)
    times = monotone_times(listing)
    oldest = min(times, default=1)
    if oldest > 0 and times.get(oldest, horizon_ms) >= horizon_ms:
        hours = snapshot.properties.deleted_file_retention_ms // HOUR_MS
        raise InvalidRequestError(
            f"{snapshot.uri}: files removed so long ago cannot be kept, since the log was cleaned "
            f"up and remembers removed files for {hours} hours; vacuum with a retention of {hours} "
            "hours at most, and raise delta.deletedFileRetentionDuration for the future"
        )
    for version, time_ms in times.items():
        # A day, in case the clocks of writers and store differ.
        if time_ms >= horizon_ms - DAY_MS:
            commit = read_commit(snapshot.storage, snapshot.log_directory, version)
            yield removed_since(commit.removes, horizon_ms)
