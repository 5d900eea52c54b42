"""Anchors of refs: keep the version of a ref readable if the log loses it.

Log clean-up writes them for tags and releases before it deletes their commits. An anchor that is
written on request protects from other engines. See `log.refs.anchors` for what an anchor is.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import LogCorruptError, UnsupportedFeatureError
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.log.checkpoint_write.write import replace_by_copy, write_copy
from delta_ops.log.refs.anchors import anchor_path, open_anchor
from delta_ops.log.refs.branches import find_branch
from delta_ops.log.refs.refs import find_tag, parse_ref
from delta_ops.versioning.version_to_keep import stored_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A copy of the file list of a version, which keeps it readable without the log.

    Examples:
        >>> _ = create_tag("lake/orders", "first")
        >>> create_anchor("lake/orders", "tag:first").version
        0
    """

    version: int
    path: str
    """Relative to the table's root."""
    is_new: bool
    """False if the version had an anchor."""


def create_anchor(table: TableOrPlace, ref: str, *, clock: Clock = system_clock) -> Anchor:
    """Keep a tag, or the base version of a branch, readable even if the log loses its commits.

    The anchor protects the ref from log clean-ups of other engines. Log clean-up of delta_ops keeps
    the version anyway: it writes anchors itself. An anchor holds no rows, so vacuums of other
    engines may still delete data files. Later commits of a branch are in its own log, which no
    other engine deletes.

    Args:
        table: A table's location or handle.
        ref: Such as `tag:2026-11` or `branch:audit`.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The text is not a ref.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such ref, or its version cannot be read.
        LogCorruptError: The log, or the journal of refs, is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_tag("lake/orders", "first")
        >>> create_anchor("lake/orders", "tag:first").path
        '_delta_ops/anchors/00000000000000000000.checkpoint.parquet'
    """
    validate_arguments(create_anchor, locals())
    log = log_of(table).main
    kind, name = parse_ref(ref)
    if kind == "tag":
        find_tag(log.storage, name)
        snapshot = log.snapshot(ref=ref)
    else:
        base = log.on_branch(find_branch(log.storage, name)).base
        assert base
        snapshot = base
    is_new = write_anchor(snapshot, clock)
    return Anchor(version=snapshot.version, path=anchor_path(snapshot.version), is_new=is_new)


def write_anchor(snapshot: Snapshot, clock: Clock) -> bool:
    """Write the anchor of a version, and read it in full; returns whether it is new.

    An anchor of an earlier table, or a damaged one, is replaced in one step: another process may
    have written the right anchor in the meantime.

    Raises:
        LogCorruptError: The version cannot be read in full, or the anchor cannot be.
        StorageError: The store failed.
    """
    if _is_whole(snapshot):
        return False
    path = anchor_path(snapshot.version)
    write_copy(snapshot, path, now_ms=clock())
    if not _is_whole(snapshot):
        replace_by_copy(snapshot, path, now_ms=clock())
        if not _is_whole(snapshot):
            raise LogCorruptError(
                snapshot.uri, path, "it differs from its version after it was written; run again"
            )
    return True


def _is_whole(snapshot: Snapshot) -> bool:
    """Whether the version has an anchor with the same metadata and files."""
    try:
        found = open_anchor(
            snapshot.storage, snapshot.log_directory, snapshot.version, snapshot.outside
        )
        if (
            found is None
            or found.metadata != snapshot.metadata
            or found.protocol != snapshot.protocol
        ):
            return False
        paths = stored_paths(found)
    except (FileNotFoundError, LogCorruptError, UnsupportedFeatureError):
        return False
    # A damaged anchor is read from the commits, as long as the log has them.
    return not found.damaged_checkpoints and paths == stored_paths(snapshot)
