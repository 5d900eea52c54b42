"""Snapshot: the table at one version.

Source: PROTOCOL.md, "Action Reconciliation". Protocol, metadata and the commits since the
checkpoint are read when it is opened; the files of the checkpoint only when they are asked for, and
only the columns that are. Where a version checksum says what protocol and metadata are, the
checkpoint stays closed until its transactions, domains or files are asked for; it has to agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    TableReplacedError,
)
from delta_ops.lazy import lazy
from delta_ops.log.bad_path import line_of_path, naming_place
from delta_ops.log.checkpoint.damaged import DamagedCheckpoint
from delta_ops.log.checkpoint.read import OpenCheckpoint
from delta_ops.log.checksum import validate_checkpoint
from delta_ops.log.commit_file import Commit, CommitMark, read_commits
from delta_ops.log.fresh_listing import retry_if_vanished
from delta_ops.log.lost_commits import NO_CHECKSUM, StateChecksum
from delta_ops.log.outside_files import OutsideFiles, TableFiles
from delta_ops.log.replaced_table import TableMark, is_same_file, validate_not_replaced
from delta_ops.log.segment import Checkpoint, Segment, find_segment, list_log
from delta_ops.log.table_state import EMPTY_STATE, TableState, joined_state, state_of_commits
from delta_ops.log.version.files import (
    live_adds,
    live_files,
    live_sizes,
    stream_live,
    tombstones,
)
from delta_ops.log.version.load import (
    LoadedVersion,
    load_readable_version,
    load_without_checkpoint,
    open_listed_checkpoint,
    require_state,
)
from delta_ops.log.version.reconciliation import EMPTY_TAIL, Tail, extend_tail
from delta_ops.protocol.actions import (
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, add_files
from delta_ops.protocol.columns.clustering import clustering_columns
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.properties.table_properties import TableProperties
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import FileInfo, Storage

_EQUIVALENT = "equivalent snapshot"
"""Where a snapshot keeps what stands in for it, since its checkpoint is damaged."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """The table at one version; opened by `DeltaLog.snapshot`."""

    storage: Storage = field(repr=False)
    """Rooted at the table."""
    log_directory: str = field(repr=False)
    """Relative to the table's root."""
    version: int
    checkpoint: Checkpoint | None = field(repr=False)
    """The checkpoint that the version was read from."""
    commits_since_checkpoint: int
    protocol: Protocol = field(repr=False)
    metadata: Metadata = field(repr=False)
    commit_state: TableState = field(repr=False)
    """What the commits since the checkpoint, or all of them, have of it."""
    tail: Tail = field(repr=False)
    outside: OutsideFiles = field(repr=False)
    """How files are read that lie outside of the table."""
    base: Snapshot | None = field(repr=False, default=None)
    """What the first commit of the log follows, where there is no checkpoint."""
    read_checkpoint: OpenCheckpoint | None = field(repr=False, default=None)
    """The checkpoint, if it was opened with the snapshot."""
    state_checksum: StateChecksum = field(repr=False, default=NO_CHECKSUM)
    """What protocol and metadata were taken from, if the checkpoint was not opened."""
    ahead: Mapping[str, Sequence[str]] | None = field(repr=False, default=None)
    """As for `open_checkpoint`, if the checkpoint is opened later."""
    txn_id: str | None = field(repr=False, default=None)
    """`commitInfo.txnId` of the version's commit, where there is one and the commit was read."""
    newest: FileInfo | None = field(repr=False, default=None)
    """The file of the log that shows the version, as it was listed: as long as the same file stands
    there, so does the same table. None where it is not known."""
    marks: tuple[CommitMark, ...] = field(repr=False, default=())
    """Marks of the commits since the checkpoint, or of all commits, ascending."""
    checksums: frozenset[int] = field(repr=False, default=frozenset())
    """Versions from the checkpoint's on, or from the first, that had a checksum when opened."""
    passed_over: tuple[DamagedCheckpoint, ...] = field(repr=False, default=())
    """Newer checkpoints that could not be read when the version was opened."""

    @property
    def damaged_checkpoints(self) -> tuple[DamagedCheckpoint, ...]:
        """Checkpoints that could not be read so far, newest first."""
        known: Snapshot | None = vars(self).get(_EQUIVALENT)
        return self.passed_over if known is None else known.damaged_checkpoints

    def equivalent(self, error: LogCorruptError) -> Snapshot:
        """Open the version without the checkpoint that an error is about.

        Raises:
            LogCorruptError: The version cannot be read without the checkpoint.
        """
        known: Snapshot | None = vars(self).get(_EQUIVALENT)
        if known is not None:
            return known
        loaded = load_without_checkpoint(
            self.storage, self.log_directory, self.version, self.checkpoint, self.base, error
        )
        found = replace(
            _snapshot_of(
                loaded, self.storage, self.log_directory, base=self.base, outside=self.outside
            ),
            passed_over=(*self.passed_over, *loaded.passed_over),
            newest=self.newest,
        )
        vars(self)[_EQUIVALENT] = found
        return found

    @lazy
    def opened_checkpoint(self) -> OpenCheckpoint | None:
        """The checkpoint, opened; None if there is none.

        Raises:
            LogCorruptError: It is gone, malformed, or contradicts the checksum.
        """
        if self.read_checkpoint is not None or self.checkpoint is None:
            return self.read_checkpoint
        opened = open_listed_checkpoint(self.storage, self.checkpoint, self.ahead)
        if self.state_checksum.checksum is not None:
            validate_checkpoint(
                self.state_checksum.checksum, opened.state, self.commit_state, self.uri
            )
        return opened

    @lazy
    def state(self) -> TableState:
        """Protocol, metadata, transactions and domains."""
        try:
            opened = self.opened_checkpoint
        except LogCorruptError as error:
            return self.equivalent(error).state
        below = opened.state if opened else self.base.state if self.base else EMPTY_STATE
        return joined_state(below, self.commit_state)

    @property
    def uri(self) -> str:
        """The table's root."""
        return self.storage.uri

    @property
    def table_files(self) -> TableFiles:
        """Where each file is that the log names."""
        return TableFiles(self.storage, self.outside)

    @lazy
    def definition(self) -> TableDefinition:
        """What protocol and metadata demand."""
        return TableDefinition(protocol=self.protocol, metadata=self.metadata)

    @property
    def schema(self) -> StructType:
        """The table's columns, partition columns among them."""
        return self.definition.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """`schema` as Arrow has it."""
        return self.definition.arrow_schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names, in the order of the directories."""
        return self.definition.partition_columns

    @property
    def properties(self) -> TableProperties:
        """The table's `delta.*` properties, parsed.

        Raises:
            InvalidRequestError: One of them cannot be parsed.
        """
        try:
            return self.definition.properties
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{self.uri}: {error}") from error

    @property
    def num_files(self) -> int:
        """Live data files."""
        return self._totals[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of the live data files."""
        return self._totals[1]

    def files(
        self,
        columns: Sequence[str] = ("path", "size", "partition_values", "modification_time"),
        predicate: Predicate | None = None,
        *,
        partition_time_zone: str = "UTC",
    ) -> pa.Table:
        """The live files, a row each, in no particular order.

        Args:
            columns: Any of `path` (decoded), `log_path` (as in the log), `size`,
                `modification_time`, `partition_values` (a struct of typed columns), `num_records`,
                `stats`, `tags`, `deletion_vector`.
            predicate: Leaves out files that cannot hold a row for which it is true.
            partition_time_zone: Zone of partition values of type timestamp that name none.
        """
        return live_files(self, columns, predicate, partition_time_zone)

    def add_files(
        self, predicate: Predicate | None = None, *, partition_time_zone: str = "UTC"
    ) -> list[AddFile]:
        """The live files as the log has them, for who reads or changes them; see `files`."""
        return add_files(self.add_rows(predicate, partition_time_zone=partition_time_zone))

    def add_rows(
        self, predicate: Predicate | None = None, *, partition_time_zone: str = "UTC"
    ) -> pa.Table:
        """Live files as rows of `arrow_schemas.ADD`, which take far less where they are many."""
        return live_adds(self, ADD.names, predicate, partition_time_zone)

    def stream_live(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Live files in tables of bounded size.

        Args:
            columns: Any of `arrow_schemas.ADD`, or `CANONICAL_PATH`.

        Raises:
            LogCorruptError: A file lacks the partition values that its table demands, or a file of
                the checkpoint is gone or malformed.
        """
        return stream_live(self, columns)

    def tombstones(self, columns: Sequence[str] = tuple(REMOVE.names)) -> pa.Table:
        """Removed files that the log still knows, expired ones included.

        Args:
            columns: Any of `arrow_schemas.REMOVE`.
        """
        return tombstones(self, columns)

    def transactions(self) -> Mapping[str, SetTransaction]:
        """Transaction identifiers by application id."""
        return self.state.transactions

    def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """Domains that have not been removed."""
        return {name: d for name, d in self.state.domains.items() if not d.removed}

    @property
    def clustering_columns(self) -> tuple[ColumnPath, ...]:
        """The columns by which the table is clustered, by physical names.

        Raises:
            InvalidRequestError: The table does not tell them.
        """
        if not self.definition.has("clustering"):
            return ()
        return clustering_columns(self.domain_metadata(), self.uri)

    def refresh(self) -> Snapshot:
        """The latest version; reads only what was committed since.

        Raises:
            TableReplacedError: The table was deleted, or another stands in its place.
        """
        listing = list_log(self.storage, self.log_directory, from_version=self.version)
        latest = listing.latest_version
        if self.newest is not None and not is_same_file(self.newest, listing.file_of(self.version)):
            return self.reopen()
        if latest is None or latest <= self.version:
            return self
        versions = range(self.version + 1, latest + 1)
        if any(version not in listing.commits for version in versions):
            return self.reopen()
        try:
            files = [listing.commits[version] for version in versions]
            return advance(self, read_commits(self.storage, files), files[-1])
        except FileNotFoundError:
            # Cleaned up since: what a checkpoint says of that version is still there.
            return self.reopen()

    def reopen(self) -> Snapshot:
        """The latest version, opened without anything that is known.

        Raises:
            TableReplacedError: The table was deleted, or another stands in its place.
        """
        try:
            latest = open_snapshot(
                self.storage, self.log_directory, base=self.base, outside=self.outside
            )
        except TableNotFoundError as error:
            raise TableReplacedError(
                self.uri, f"at version {self.version} has been deleted"
            ) from error
        validate_not_replaced(self.uri, self._mark, latest._mark)
        return latest

    @property
    def _mark(self) -> TableMark:
        return TableMark(self.metadata.id, self.version, self.newest)

    @lazy
    def _totals(self) -> tuple[int, int]:
        sizes = self.sizes()
        return len(sizes), pc.sum(sizes, min_count=0).as_py()

    def sizes(self) -> pa.ChunkedArray:
        """Bytes of each live file, in no particular order."""
        return live_sizes(self)


def open_snapshot(
    storage: Storage,
    log_directory: str,
    version: int | None = None,
    base: Snapshot | None = None,
    *,
    outside: OutsideFiles,
) -> Snapshot:
    """The table at a version, or at its latest one.

    Args:
        base: A version from another log that the first commit of this one follows; versions
            before it are opened from that log.
        outside: How files are read that lie outside of the table.

    Raises:
        TableNotFoundError: There is no table here.
        VersionNotFoundError: That version never was, or has been cleaned up.
        LogCorruptError: The log is damaged, or its files vanish again and again.
        UnsupportedFeatureError: The table cannot be read by us.
    """
    if base is not None and version is not None and version < base.version:
        return open_snapshot(base.storage, base.log_directory, version, base.base, outside=outside)
    base_version = base.version if base else None

    def look() -> Snapshot:
        segment = find_segment(storage, log_directory, version, base_version=base_version)
        return load_readable(storage, log_directory, segment, base, outside=outside)

    return retry_if_vanished(storage, log_directory, look)


def snapshot_of_new_table(
    storage: Storage,
    log_directory: str,
    protocol: Protocol,
    metadata: Metadata,
    *,
    outside: OutsideFiles,
) -> Snapshot:
    """A table that its first commit is about to make: without files, at version -1."""
    return Snapshot(
        storage=storage,
        log_directory=log_directory,
        version=-1,
        checkpoint=None,
        commits_since_checkpoint=0,
        protocol=protocol,
        metadata=metadata,
        commit_state=replace(EMPTY_STATE, protocol=protocol, metadata=metadata),
        tail=EMPTY_TAIL,
        outside=outside,
    )


def load_readable(
    storage: Storage,
    log_directory: str,
    segment: Segment,
    base: Snapshot | None = None,
    ahead: Mapping[str, Sequence[str]] | None = None,
    *,
    outside: OutsideFiles,
) -> Snapshot:
    """Open the version of a segment; see `load_readable_version`."""
    loaded = load_readable_version(storage, log_directory, segment, base, ahead)
    return _snapshot_of(loaded, storage, log_directory, base=base, outside=outside, ahead=ahead)


def _snapshot_of(
    loaded: LoadedVersion,
    storage: Storage,
    log_directory: str,
    *,
    base: Snapshot | None,
    outside: OutsideFiles,
    ahead: Mapping[str, Sequence[str]] | None = None,
) -> Snapshot:
    marks = loaded.marks
    return Snapshot(
        storage=storage,
        log_directory=log_directory,
        version=loaded.segment.version,
        checkpoint=loaded.segment.checkpoint,
        commits_since_checkpoint=len(loaded.segment.commits),
        protocol=loaded.protocol,
        metadata=loaded.metadata,
        commit_state=loaded.commit_state,
        tail=loaded.tail,
        outside=outside,
        base=base,
        read_checkpoint=loaded.read_checkpoint,
        state_checksum=loaded.state_checksum,
        ahead=ahead,
        txn_id=marks[-1].txn_id if marks else loaded.state_checksum.txn_id,
        marks=marks,
        checksums=loaded.segment.checksums,
        newest=loaded.segment.newest,
        passed_over=loaded.passed_over,
    )


def advance(
    snapshot: Snapshot, commits: Sequence[Commit], newest: FileInfo | None = None
) -> Snapshot:
    """The snapshot after the commits that follow it, ascending and without a hole.

    Args:
        newest: The file of the last one.
    """
    if not commits:
        return snapshot
    snapshot = vars(snapshot).get(_EQUIVALENT, snapshot)
    of_commits = joined_state(snapshot.commit_state, state_of_commits(commits))
    version = commits[-1].version
    versions = [commit.version for commit in commits]
    with naming_place(partial(line_of_path, snapshot.storage, snapshot.log_directory, versions)):
        tail = extend_tail(snapshot.tail, commits, snapshot.uri)
    protocol, metadata = require_state(
        of_commits.protocol or snapshot.protocol,
        of_commits.metadata or snapshot.metadata,
        snapshot.uri,
        f"{snapshot.log_directory}, version {version}",
    )
    return replace(
        snapshot,
        version=version,
        commits_since_checkpoint=snapshot.commits_since_checkpoint + len(commits),
        protocol=protocol,
        metadata=metadata,
        commit_state=of_commits,
        tail=tail,
        txn_id=commits[-1].txn_id,
        newest=newest,
        marks=(*snapshot.marks, *(commit.mark for commit in commits)),
        # Opened once for all versions that are read from it.
        read_checkpoint=vars(snapshot).get("opened_checkpoint", snapshot.read_checkpoint),
    )
