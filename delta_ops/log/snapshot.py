"""Snapshot: the table at one version.

Source: PROTOCOL.md, "Action Reconciliation".

Opening a snapshot reads protocol, metadata and the commits since the checkpoint. The files of the
checkpoint are read on first use, and only the requested columns. With a version checksum, it stays
closed until its transactions, domains or files are needed, and must then agree with the checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import LogCorruptError, TableNotFoundError, TableReplacedError, naming_table
from delta_ops.lazy import lazy
from delta_ops.log.checkpoint.damaged import DamagedCheckpoint
from delta_ops.log.checkpoint.read import OpenCheckpoint
from delta_ops.log.commit_file import Commit, CommitMark, read_commits
from delta_ops.log.lost_commits import NO_CHECKSUM, StateChecksum
from delta_ops.log.outside_files import OutsideFiles, TableFiles
from delta_ops.log.path_errors import line_of_path, naming_place
from delta_ops.log.replaced_table import TableMark, is_same_file, validate_not_replaced
from delta_ops.log.scan_cache.file import FoundCache
from delta_ops.log.segment import Checkpoint, Segment, find_segment, list_log, retry_if_vanished
from delta_ops.log.table_state import EMPTY_STATE, TableState, joined_state, state_of_commits
from delta_ops.log.version.files import live_sizes, stream_live, tombstones
from delta_ops.log.version.load import (
    LoadedVersion,
    definition_after,
    load_readable_version,
    load_without_checkpoint,
    open_listed_checkpoint,
)
from delta_ops.log.version.reconciliation import Tail, extend_tail
from delta_ops.log.version.scan_plan import plan_scan
from delta_ops.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from delta_ops.protocol.arrow_schemas import REMOVE, add_files
from delta_ops.protocol.columns.clustering import clustering_columns
from delta_ops.protocol.expression.implication import AnyPredicate
from delta_ops.protocol.properties.table_properties import TableProperties
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import FileInfo, Storage

_EQUIVALENT = "equivalent snapshot"
"""Key of the cached snapshot that replaces this one after its checkpoint proved damaged."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """The table at one version; opened by `DeltaLog.snapshot`.

    Examples:
        >>> snapshot = DeltaLog("lake/orders").snapshot()
        >>> snapshot.version, snapshot.arrow_schema.names
        (0, ['id', 'country', 'price'])
        >>> snapshot.properties.checkpoint_interval
        10
    """

    storage: Storage = field(repr=False)
    """Rooted at the table."""
    log_directory: str = field(repr=False)
    """Relative to the table's root."""
    version: int
    checkpoint: Checkpoint | None = field(repr=False)
    """The checkpoint that the version was read from; None if there is none."""
    commits_since_checkpoint: int
    definition: TableDefinition = field(repr=False)
    """Protocol and metadata, with the rules that follow from them."""
    commit_state: TableState = field(repr=False)
    """The state from the commits since the checkpoint; from all commits if there is none."""
    tail: Tail = field(repr=False)
    outside: OutsideFiles = field(repr=False)
    """Opens files outside of the table."""
    base: Snapshot | None = field(repr=False, default=None)
    """The snapshot of another log that this log follows. Unused if this log has a checkpoint."""
    read_checkpoint: OpenCheckpoint | None = field(repr=False, default=None)
    """The checkpoint, if it was opened with the snapshot."""
    state_checksum: StateChecksum = field(repr=False, default=NO_CHECKSUM)
    """The checksum that supplied protocol and metadata, if the checkpoint was not opened."""
    ahead: Mapping[str, Sequence[str]] | None = field(repr=False, default=None)
    """As for `open_checkpoint`, if the checkpoint is opened later."""
    txn_id: str | None = field(repr=False, default=None)
    """`commitInfo.txnId` of the version's commit; None if absent or if the commit was not read."""
    newest: FileInfo | None = field(repr=False, default=None)
    """The listed file that shows the version; None if unknown. It changes with the table only."""
    marks: tuple[CommitMark, ...] = field(repr=False, default=())
    """Marks of the commits since the checkpoint, or of all commits, ascending."""
    checksums: frozenset[int] = field(repr=False, default=frozenset())
    """Versions from the checkpoint's on, or from the first, that had a checksum when opened."""
    scan_cache: FoundCache | None = field(repr=False, default=None)
    """The scan cache that `_last_checkpoint` named when the version was opened."""
    passed_over: tuple[DamagedCheckpoint, ...] = field(repr=False, default=())
    """Newer checkpoints that could not be read when the version was opened. They were skipped."""

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
            LogCorruptError: The checkpoint is gone, malformed, or contradicts the checksum.
        """
        if self.read_checkpoint is not None or self.checkpoint is None:
            return self.read_checkpoint
        checksum = self.state_checksum.checksum
        return open_listed_checkpoint(
            self.storage, self.checkpoint, self.ahead, checksum, self.commit_state
        )

    @lazy
    def state(self) -> TableState:
        """Protocol, metadata, transactions and domains of the version."""
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
        """Finds every file that the log names."""
        return TableFiles(self.storage, self.outside)

    @property
    def protocol(self) -> Protocol:
        """The table's protocol."""
        return self.definition.protocol

    @property
    def metadata(self) -> Metadata:
        """The table's metadata."""
        return self.definition.metadata

    @property
    def schema(self) -> StructType:
        """The table's columns, including partition columns."""
        return self.definition.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """`schema` as an Arrow schema."""
        return self.definition.arrow_schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in directory order."""
        return self.definition.partition_columns

    @property
    def properties(self) -> TableProperties:
        """The table's `delta.*` properties, parsed.

        Raises:
            InvalidRequestError: A property cannot be parsed.
        """
        with naming_table(self.uri):
            return self.definition.properties

    @property
    def num_files(self) -> int:
        """Number of live data files."""
        return self._totals[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of the live data files."""
        return self._totals[1]

    def files(
        self,
        columns: Sequence[str] = ("path", "size", "partition_values", "modification_time"),
        predicate: AnyPredicate | None = None,
        *,
        partition_time_zone: str = "UTC",
    ) -> pa.Table:
        """The live files, one row per file, in no particular order.

        Args:
            columns: Any of `path` (decoded), `log_path` (as in the log), `size`,
                `modification_time`, `partition_values` (a struct of typed columns), `num_records`,
                `stats`, `tags`, `deletion_vector`.
            predicate: Skip files that cannot hold a matching row.
            partition_time_zone: Time zone for partition timestamps without one.

        Examples:
            >>> snapshot = DeltaLog("lake/orders").snapshot()
            >>> snapshot.files(predicate="id > 3").num_rows  # by statistics
            0
        """
        zone = partition_time_zone
        return plan_scan(self, predicate, columns=columns, partition_time_zone=zone).files()

    def add_files(
        self, predicate: AnyPredicate | None = None, *, partition_time_zone: str = "UTC"
    ) -> list[AddFile]:
        """The live files as add actions; see `files`."""
        return add_files(self.add_rows(predicate, partition_time_zone=partition_time_zone))

    def add_rows(
        self, predicate: AnyPredicate | None = None, *, partition_time_zone: str = "UTC"
    ) -> pa.Table:
        """Live files as rows of `arrow_schemas.ADD`; needs far less memory than `add_files`."""
        return plan_scan(self, predicate, partition_time_zone=partition_time_zone).adds

    def stream_live(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the live files in tables of bounded size.

        Args:
            columns: Any of `arrow_schemas.ADD`, or `CANONICAL_PATH`.

        Raises:
            LogCorruptError: A file lacks the partition values that its table requires, or a file of
                the checkpoint is gone or malformed.
        """
        return stream_live(self, columns)

    def tombstones(self, columns: Sequence[str] = tuple(REMOVE.names)) -> pa.Table:
        """Removed files that the log still lists, including expired tombstones.

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
        """The table's clustering columns, by physical names.

        Raises:
            InvalidRequestError: The table does not record them.
        """
        if not self.definition.has("clustering"):
            return ()
        return clustering_columns(self.domain_metadata(), self.uri)

    def refresh(self) -> Snapshot:
        """Return the latest version; reads only the commits since this one.

        Raises:
            TableReplacedError: The table was deleted or replaced by another table.

        Examples:
            >>> snapshot = DeltaLog("lake/orders").snapshot()
            >>> _ = da.delete("lake/orders", col("id") == 1)
            >>> snapshot.version, snapshot.refresh().version
            (0, 1)
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
            # A clean-up deleted the commit; a newer checkpoint covers it.
            return self.reopen()

    def reopen(self) -> Snapshot:
        """Open the latest version without reusing anything from this snapshot.

        Raises:
            TableReplacedError: The table was deleted or replaced by another table.
        """
        try:
            latest = open_snapshot(
                self.storage, self.log_directory, base=self.base, outside=self.outside
            )
        except TableNotFoundError as error:
            raise TableReplacedError(
                self.uri, f"at version {self.version} has been deleted"
            ) from error
        known, found = (TableMark(s.metadata.id, s.version, s.newest) for s in (self, latest))
        validate_not_replaced(self.uri, known, found)
        return latest

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
    with_files: bool = False,
) -> Snapshot:
    """Open the table at a version, or at its latest version.

    Args:
        base: A version of another log. This log continues from that version; earlier versions
            are opened from the other log.
        outside: Opens files outside of the table.

    Raises:
        TableNotFoundError: There is no table here.
        VersionNotFoundError: That version never existed, or has been cleaned up.
        LogCorruptError: The log is damaged, or listed files are repeatedly missing when read.
        UnsupportedFeatureError: delta_ops cannot read the table.
    """
    if base is not None and version is not None and version < base.version:
        return open_snapshot(base.storage, base.log_directory, version, base.base, outside=outside)
    base_version = base.version if base else None

    def look() -> Snapshot:
        segment = find_segment(storage, log_directory, version, base_version=base_version)
        loaded = load_readable_version(storage, log_directory, segment, base, None, with_files)
        return _snapshot_of(loaded, storage, log_directory, base=base, outside=outside)

    return retry_if_vanished(storage, log_directory, look)


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
    return Snapshot(
        storage=storage,
        log_directory=log_directory,
        version=loaded.segment.version,
        checkpoint=loaded.segment.checkpoint,
        commits_since_checkpoint=len(loaded.segment.commits),
        definition=loaded.definition,
        commit_state=loaded.commit_state,
        tail=loaded.tail,
        outside=outside,
        base=base,
        read_checkpoint=loaded.read_checkpoint,
        state_checksum=loaded.state_checksum,
        ahead=ahead,
        txn_id=loaded.marks[-1].txn_id if loaded.marks else loaded.state_checksum.txn_id,
        marks=loaded.marks,
        checksums=loaded.segment.checksums,
        newest=loaded.segment.newest,
        scan_cache=loaded.segment.scan_cache,
        passed_over=loaded.passed_over,
    )


def advance(
    snapshot: Snapshot, commits: Sequence[Commit], newest: FileInfo | None = None
) -> Snapshot:
    """The snapshot after further commits.

    Args:
        snapshot: The version just before the first commit.
        commits: Ascending, without a gap.
        newest: The file of the last commit.
    """
    if not commits:
        return snapshot
    snapshot = vars(snapshot).get(_EQUIVALENT, snapshot)
    changes = state_of_commits(commits)
    versions = [commit.version for commit in commits]
    with naming_place(partial(line_of_path, snapshot.storage, snapshot.log_directory, versions)):
        tail = extend_tail(snapshot.tail, commits, snapshot.uri)
    place = f"{snapshot.log_directory}, version {versions[-1]}"
    return replace(
        snapshot,
        version=versions[-1],
        commits_since_checkpoint=snapshot.commits_since_checkpoint + len(commits),
        definition=definition_after(snapshot.definition, changes, snapshot.uri, place),
        commit_state=joined_state(snapshot.commit_state, changes),
        tail=tail,
        txn_id=commits[-1].txn_id,
        newest=newest,
        marks=(*snapshot.marks, *(commit.mark for commit in commits)),
        # Opened once for all versions that are based on this checkpoint.
        read_checkpoint=vars(snapshot).get("opened_checkpoint", snapshot.read_checkpoint),
    )
