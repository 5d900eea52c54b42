"""Loading: protocol, metadata and file changes of one version, from its segment.

Source: PROTOCOL.md, "Action Reconciliation". Reads the commits since the checkpoint, and the
checkpoint's protocol and metadata. If a version checksum has both, the checkpoint stays closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol as Interface

from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.log.checkpoint.damaged import (
    DamagedCheckpoint,
    damaged_checkpoint,
    is_about,
    segment_below,
)
from delta_ops.log.checkpoint.read import OpenCheckpoint, open_checkpoint
from delta_ops.log.checksum import VersionChecksum, checksum_from_bytes, validate_checkpoint
from delta_ops.log.commit_file import CommitMark
from delta_ops.log.lost_commits import NO_CHECKSUM, StateChecksum, load_state_checksum
from delta_ops.log.path_errors import line_of_path, naming_place
from delta_ops.log.scan_cache.file import UnusableCacheError, open_cache_file
from delta_ops.log.segment import Checkpoint, Segment
from delta_ops.log.table_state import EMPTY_STATE, TableState
from delta_ops.log.version.reconciliation import Tail
from delta_ops.log.version.replay import replay_commits
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.storage import Storage


class Base(Interface):
    """The version of another log that this log continues; see `DeltaLog`."""

    @property
    def version(self) -> int:
        """The version."""

    @property
    def state(self) -> TableState:
        """Protocol, metadata, transactions and domains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedVersion:
    """A version loaded from its segment; the fields are described at `Snapshot`."""

    segment: Segment
    definition: TableDefinition
    commit_state: TableState
    tail: Tail
    marks: tuple[CommitMark, ...]
    read_checkpoint: OpenCheckpoint | None
    state_checksum: StateChecksum
    passed_over: tuple[DamagedCheckpoint, ...] = ()


def load_readable_version(
    storage: Storage,
    log_directory: str,
    segment: Segment,
    base: Base | None = None,
    ahead: Mapping[str, Sequence[str]] | None = None,
    with_files: bool = False,
) -> LoadedVersion:
    """Load a version; falls back to an older checkpoint if the segment's is unreadable.

    Args:
        storage: Rooted at the table.
        log_directory: Relative to the table's root.
        segment: The files of the version.
        base: The version that the first commit of the log follows, if any.
        ahead: As for `open_checkpoint`.
        with_files: Whether the caller will read the files of the version. Then the checkpoint
            supplies protocol and metadata too, and the checksum is not read.

    Raises:
        FileNotFoundError: A file of the segment is gone.
        LogCorruptError: Protocol or metadata is missing, or a file of the segment is malformed.
        UnsupportedFeatureError: delta_ops cannot read the table.
    """
    damaged: list[DamagedCheckpoint] = []
    first: LogCorruptError | None = None
    wanted: Segment | None = segment
    while wanted is not None:
        try:
            loaded = _load_version(storage, log_directory, wanted, base, ahead, with_files)
        except LogCorruptError as error:
            first = first or error
            if wanted.checkpoint is None or not is_about(error, wanted.checkpoint):
                break
            base_version = base.version if base else None
            below = segment_below(
                storage, log_directory, wanted.version, wanted.checkpoint, base_version
            )
            if below is not None:
                damaged.append(damaged_checkpoint(wanted.checkpoint, error, storage.uri))
            wanted = below
        else:
            return replace(loaded, passed_over=tuple(damaged))
    assert first is not None
    raise first


def load_without_checkpoint(
    storage: Storage,
    log_directory: str,
    version: int,
    checkpoint: Checkpoint | None,
    base: Base | None,
    error: LogCorruptError,
) -> LoadedVersion:
    """Load a version again, without its damaged checkpoint.

    Args:
        storage: Rooted at the table.
        log_directory: Relative to the table's root.
        version: The version.
        checkpoint: The damaged checkpoint.
        base: The version that the first commit of the log follows, if any.
        error: The error that reading the checkpoint raised.

    Raises:
        LogCorruptError: `error`, if the version cannot be read without the checkpoint.
    """
    if checkpoint is None or not is_about(error, checkpoint):
        raise error
    base_version = base.version if base else None
    segment = segment_below(storage, log_directory, version, checkpoint, base_version)
    if segment is None:
        raise error
    try:
        loaded = load_readable_version(storage, log_directory, segment, base)
    except (DeltaOpsError, FileNotFoundError):
        raise error from None
    damaged = damaged_checkpoint(checkpoint, error, storage.uri)
    return replace(loaded, passed_over=(damaged, *loaded.passed_over))


def open_listed_checkpoint(
    storage: Storage,
    checkpoint: Checkpoint,
    ahead: Mapping[str, Sequence[str]] | None,
    checksum: VersionChecksum | None,
    of_commits: TableState,
) -> OpenCheckpoint:
    """Open a checkpoint that was listed when the version was opened.

    Args:
        storage: Rooted at the table.
        checkpoint: The checkpoint.
        ahead: As for `open_checkpoint`.
        checksum: The checksum that supplied protocol and metadata, if any.
        of_commits: The state from the commits since the checkpoint.

    Raises:
        LogCorruptError: The checkpoint is gone, malformed, or contradicts the checksum.
    """
    try:
        opened = open_checkpoint(storage, checkpoint, ahead)
    except FileNotFoundError as error:
        raise LogCorruptError(
            storage.uri,
            checkpoint.parts[0].path,
            "the checkpoint is missing; if a log cleanup deleted it after the table was opened, "
            "open the table again, else restore it from a backup",
        ) from error
    if checksum is not None:
        validate_checkpoint(checksum, opened.state, of_commits, storage.uri)
    return opened


def definition_after(
    before: TableDefinition, changes: TableState, table: str, place: str
) -> TableDefinition:
    """The definition after commits; raises as `_readable_definition`."""
    if not (changes.protocol or changes.metadata):
        return before
    return _readable_definition(
        changes.protocol or before.protocol, changes.metadata or before.metadata, table, place
    )


def _readable_definition(
    protocol: Protocol | None, metadata: Metadata | None, table: str, place: str
) -> TableDefinition:
    """The definition of a version that delta_ops can read.

    Raises:
        LogCorruptError: Protocol or metadata is missing or malformed.
        UnsupportedFeatureError: delta_ops cannot read the table.
    """
    if protocol is None or metadata is None:
        missing = "metaData" if protocol else "protocol"
        raise LogCorruptError(table, place, f"there is no {missing}")
    definition = TableDefinition(protocol=protocol, metadata=metadata)
    try:
        validate(definition, "open", table=table)
    except LogCorruptError as error:
        raise LogCorruptError(table, f"{place}, {error.file}", error.reason) from error
    return definition


def _load_version(
    storage: Storage,
    log_directory: str,
    segment: Segment,
    base: Base | None,
    ahead: Mapping[str, Sequence[str]] | None,
    with_files: bool,
) -> LoadedVersion:
    newest_first = range(segment.version, segment.version - len(segment.commits), -1)
    with naming_place(partial(line_of_path, storage, log_directory, newest_first)):
        tail, of_commits, marks = replay_commits(storage, segment)
    segment, cached = _open_cache(storage, log_directory, segment)
    recorded = NO_CHECKSUM
    if not with_files or segment.checkpoint is None:
        recorded = load_state_checksum(storage, log_directory, segment, marks, cached)
    opened = None
    if recorded.checksum is None and segment.checkpoint is not None:
        opened = open_checkpoint(storage, segment.checkpoint, ahead)
    below = recorded.checksum or (opened.state if opened else base.state if base else EMPTY_STATE)
    definition = _readable_definition(
        of_commits.protocol or below.protocol,
        of_commits.metadata or below.metadata,
        storage.uri,
        f"{log_directory}, version {segment.version}",
    )
    return LoadedVersion(
        segment=segment,
        definition=definition,
        commit_state=of_commits,
        tail=tail,
        marks=marks,
        read_checkpoint=opened,
        state_checksum=recorded,
    )


def _open_cache(
    storage: Storage, log_directory: str, segment: Segment
) -> tuple[Segment, VersionChecksum | None]:
    """Open the scan cache of a segment if it has the segment's newest checksum.

    Returns:
        The segment with the opened cache, and the checksum.
    """
    found, checkpoint = segment.scan_cache, segment.checkpoint
    if found is None or found.footer is None or found.reason is not None or checkpoint is None:
        return segment, None
    version = found.hint.version
    if checkpoint.version != version or segment.checksum_version not in (None, version):
        return segment, None
    try:
        file = open_cache_file(storage, found.hint, found.footer)
    except UnusableCacheError as error:
        return replace(segment, scan_cache=replace(found, reason=str(error))), None
    checksum = checksum_from_bytes(file.checksum, log_directory, version)
    return replace(segment, scan_cache=replace(found, file=file, footer=None)), checksum
