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
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    TableReplacedError,
    naming_table,
)
from delta_ops.lazy import lazy
from delta_ops.log import pruning
from delta_ops.log.bad_path import line_of_path, naming_place
from delta_ops.log.checkpoint.damaged import (
    DamagedCheckpoint,
    damaged_checkpoint,
    is_about,
    segment_below,
)
from delta_ops.log.checkpoint.read import (
    OpenCheckpoint,
    open_checkpoint,
    stream_adds,
    stream_removes,
)
from delta_ops.log.checksum import validate_checkpoint
from delta_ops.log.commit_file import Commit, CommitMark, read_commits
from delta_ops.log.fresh_listing import retry_if_vanished
from delta_ops.log.lost_commits import NO_CHECKSUM, StateChecksum, load_state_checksum
from delta_ops.log.outside_files import OutsideFiles, TableFiles
from delta_ops.log.reconciliation import (
    EMPTY_TAIL,
    FileRows,
    Tail,
    extend_tail,
    file_rows,
    unseen_rows,
)
from delta_ops.log.repeated_files import all_differ, drop_repeated
from delta_ops.log.replay import replay_commits
from delta_ops.log.segment import Checkpoint, Segment, find_segment, list_log
from delta_ops.log.table_state import EMPTY_STATE, TableState, joined_state, state_of_commits
from delta_ops.protocol.actions import (
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, REMOVE, add_files
from delta_ops.protocol.columns.clustering import clustering_columns
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.properties.table_properties import TableProperties
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.storage import FileInfo, Storage

_NO_REMOVES = REMOVE.empty_table()
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
        if self.checkpoint is None or not is_about(error, self.checkpoint):
            raise error
        base_version = self.base.version if self.base else None
        segment = segment_below(
            self.storage, self.log_directory, self.version, self.checkpoint, base_version
        )
        if segment is None:
            raise error
        try:
            found = load_readable(
                self.storage, self.log_directory, segment, self.base, outside=self.outside
            )
        except (DeltaOpsError, FileNotFoundError):
            raise error from None
        damaged = damaged_checkpoint(self.checkpoint, error, self.uri)
        found = replace(
            found, passed_over=(*self.passed_over, damaged, *found.passed_over), newest=self.newest
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
        try:
            opened = open_checkpoint(self.storage, self.checkpoint, self.ahead)
        except FileNotFoundError as error:
            raise LogCorruptError(
                self.uri,
                self.checkpoint.parts[0].path,
                "the checkpoint is gone; if a clean-up has deleted it since the table was opened, "
                "open the table again, else restore it from a backup",
            ) from error
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
        with naming_place(self._place_of_file):
            adds = self._add_table(pruning.sources(columns), predicate, partition_time_zone)
            return pruning.file_view(adds, columns, self.definition, self.uri, partition_time_zone)

    def add_files(
        self, predicate: Predicate | None = None, *, partition_time_zone: str = "UTC"
    ) -> list[AddFile]:
        """The live files as the log has them, for who reads or changes them; see `files`."""
        return add_files(self.add_rows(predicate, partition_time_zone=partition_time_zone))

    def add_rows(
        self, predicate: Predicate | None = None, *, partition_time_zone: str = "UTC"
    ) -> pa.Table:
        """Live files as rows of `arrow_schemas.ADD`, which take far less where they are many."""
        with naming_place(self._place_of_file):
            return self._add_table(ADD.names, predicate, partition_time_zone)

    def stream_live(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Live files in tables of bounded size.

        Args:
            columns: Any of `arrow_schemas.ADD`, or `CANONICAL_PATH`.

        Raises:
            LogCorruptError: A file lacks the partition values that its table demands, or a file of
                the checkpoint is gone or malformed.
        """
        for files in self._stream_live(columns):
            if "partitionValues" in columns and self.partition_columns:
                self._validate_partition_values(files.rows["partitionValues"])
            yield pa.Table.from_arrays(
                [files.paths if n == CANONICAL_PATH else files.rows[n] for n in columns],
                names=list(columns),
            )

    def _validate_partition_values(self, values: pa.ChunkedArray) -> None:
        if values.null_count:
            raise LogCorruptError(
                self.uri,
                self.log_directory,
                f"at version {self.version} there are {values.null_count} files without "
                f"partitionValues, and the table is partitioned by "
                f"{', '.join(self.partition_columns)}",
            )

    def _stream_live(self, columns: Sequence[str]) -> Iterator[FileRows]:
        """The live files; where the checkpoint turns out to be damaged, the rest from elsewhere."""
        done = 0
        try:
            for files in self._stream_own(columns):
                yield files
                done += 1
        except LogCorruptError as error:
            other = self.equivalent(error)
        else:
            return
        # The same again, as far as it could be read.
        seen = [
            chunk
            for files in islice(self._stream_own(columns), done)
            for chunk in file_rows(files.rows, self.uri).keys.chunks
        ]
        known = pa.chunked_array(seen, pa.string())
        for files in other._stream_live(columns):
            found = file_rows(files.rows, self.uri)
            yield found.filter(pc.invert(pc.is_in(found.keys, value_set=known)))

    def _stream_own(self, columns: Sequence[str]) -> Iterator[FileRows]:
        yield self.tail.adds
        names = set(columns) - {CANONICAL_PATH} | {"path", "deletionVector"}
        wanted = [name for name in ADD.names if name in names]
        if self.opened_checkpoint is not None:
            batches = stream_adds(self.storage, self.opened_checkpoint, wanted)
        elif self.base is not None:
            batches = self.base.stream_live(wanted)
        else:
            return
        with naming_place(self._place_of_checkpoint):
            if len(self.tail):
                yield from unseen_rows(batches, self.tail, self.uri)
            elif CANONICAL_PATH in columns:
                yield from (file_rows(batch, self.uri) for batch in batches)
            else:
                yield from (FileRows(rows=batch) for batch in batches)

    def tombstones(self, columns: Sequence[str] = tuple(REMOVE.names)) -> pa.Table:
        """Removed files that the log still knows, expired ones included.

        Args:
            columns: Any of `arrow_schemas.REMOVE`.
        """
        try:
            return self._own_tombstones(columns)
        except LogCorruptError as error:
            return self.equivalent(error).tombstones(columns)

    def _own_tombstones(self, columns: Sequence[str]) -> pa.Table:
        names = set(columns) | {"path", "deletionVector"}
        wanted = [name for name in REMOVE.names if name in names]
        tables = [self.tail.removes.rows.select(wanted)]
        if self.opened_checkpoint is not None:
            stored = stream_removes(self.storage, self.opened_checkpoint, wanted)
        else:
            stored = iter([self.base.tombstones(wanted)] if self.base is not None else [])
        with naming_place(self._place_of_checkpoint):
            tables += [files.rows for files in unseen_rows(stored, self.tail, self.uri)]
        if not any(map(len, tables)):  # of most tables
            return _NO_REMOVES.select(list(columns))
        schema = pa.schema([REMOVE.field(name) for name in columns])
        return pa.concat_tables(tables, promote_options="none").select(schema.names).cast(schema)

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
        if latest.metadata.id != self.metadata.id:
            raise TableReplacedError(
                self.uri,
                f"at version {self.version} is no longer there: its id was {self.metadata.id}, and "
                f"that of the table in its place is {latest.metadata.id}",
            )
        if latest.version == self.version and _path(latest.newest) != _path(self.newest):
            # No clean-up takes the commit of the latest version: a checkpoint was left behind.
            raise TableReplacedError(
                self.uri, f"has lost the commit of its latest version, {self.version}"
            )
        if latest.version < self.version:
            raise TableReplacedError(
                self.uri,
                f"was at version {self.version}, and what stands there ends at version "
                f"{latest.version}",
            )
        return latest

    def _place_of_checkpoint(self, _: str) -> str:
        """Where a path stands that is not one of the commits, which were looked at before."""
        return self.checkpoint.parts[0].path if self.checkpoint else self.log_directory

    def _place_of_file(self, log_path: str) -> str:
        """Where a live file stands whose path is right and another part of it is not."""
        newest_first = range(self.version, self.version - self.commits_since_checkpoint, -1)
        place = line_of_path(self.storage, self.log_directory, newest_first, log_path)
        return self._place_of_checkpoint(log_path) if place == self.log_directory else place

    @lazy
    def _totals(self) -> tuple[int, int]:
        sizes = self.sizes()
        return len(sizes), pc.sum(sizes, min_count=0).as_py()

    def sizes(self) -> pa.ChunkedArray:
        """Bytes of each live file, in no particular order."""
        if not self._may_repeat_files:
            tables = list(self.stream_live(["size"]))
        else:
            tables = []

            def stream_tables() -> Iterator[pa.Table]:
                for table in self.stream_live(["size", "path", "deletionVector"]):
                    tables.append(table.select(["size"]))
                    yield table

            if not all_differ(stream_tables(), self.uri):
                tables = [self._add_table(["size"], None, "UTC")]
        return pa.concat_tables(tables)["size"]

    @property
    def _may_repeat_files(self) -> bool:
        """Whether anything is there that another writer reconciled."""
        return self.checkpoint is not None or (
            self.base is not None and self.base._may_repeat_files
        )

    def _add_table(
        self, columns: Sequence[str], predicate: Predicate | None, time_zone: str
    ) -> pa.Table:
        wanted = [*columns, "path", "deletionVector"]
        if predicate is not None:
            with naming_table(self.uri):
                wanted += pruning.sources_of_predicate(predicate, self.definition)
        live = self.stream_live(list(dict.fromkeys(wanted)))
        if predicate is not None:
            live = (
                pruning.match_files(table, predicate, self.definition, self.uri, time_zone)
                for table in live
            )
        adds = pa.concat_tables(live)
        if self._may_repeat_files:
            adds = drop_repeated(adds, self.uri)
        return adds.select(list(columns))


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
    """`load_snapshot`, from an older checkpoint if that of the segment cannot be read."""
    damaged: list[DamagedCheckpoint] = []
    first: LogCorruptError | None = None
    wanted: Segment | None = segment
    while wanted is not None:
        try:
            snapshot = load_snapshot(storage, log_directory, wanted, base, ahead, outside=outside)
        except LogCorruptError as error:
            first = first or error
            if wanted.checkpoint is None or not is_about(error, wanted.checkpoint):
                break
            below = segment_below(
                storage,
                log_directory,
                wanted.version,
                wanted.checkpoint,
                base.version if base else None,
            )
            if below is not None:
                damaged.append(damaged_checkpoint(wanted.checkpoint, error, storage.uri))
            wanted = below
        else:
            return replace(snapshot, passed_over=tuple(damaged)) if damaged else snapshot
    assert first is not None
    raise first


def load_snapshot(
    storage: Storage,
    log_directory: str,
    segment: Segment,
    base: Snapshot | None = None,
    ahead: Mapping[str, Sequence[str]] | None = None,
    *,
    outside: OutsideFiles,
) -> Snapshot:
    """Open the version that a segment makes up.

    Args:
        outside: As for `open_snapshot`.
        ahead: As for `open_checkpoint`.

    Raises:
        FileNotFoundError: A file of the segment is gone.
        LogCorruptError: Protocol or metadata is missing, or a file of the segment is malformed.
        UnsupportedFeatureError: The table cannot be read by us.
    """
    newest_first = range(segment.version, segment.version - len(segment.commits), -1)
    with naming_place(partial(line_of_path, storage, log_directory, newest_first)):
        tail, of_commits, marks = replay_commits(storage, segment)
    said = load_state_checksum(storage, log_directory, segment, marks)
    opened = None
    if said.checksum is None and segment.checkpoint is not None:
        opened = open_checkpoint(storage, segment.checkpoint, ahead)
    below = said.checksum or (opened.state if opened else base.state if base else EMPTY_STATE)
    protocol, metadata = _require_state(
        of_commits.protocol or below.protocol,
        of_commits.metadata or below.metadata,
        storage.uri,
        f"{log_directory}, version {segment.version}",
    )
    return Snapshot(
        storage=storage,
        log_directory=log_directory,
        version=segment.version,
        checkpoint=segment.checkpoint,
        commits_since_checkpoint=len(segment.commits),
        protocol=protocol,
        metadata=metadata,
        commit_state=of_commits,
        tail=tail,
        outside=outside,
        base=base,
        read_checkpoint=opened,
        state_checksum=said,
        ahead=ahead,
        txn_id=marks[-1].txn_id if marks else said.txn_id,
        marks=marks,
        checksums=segment.checksums,
        newest=segment.newest,
    )


def _path(file: FileInfo | None) -> str | None:
    return file.path if file else None


def is_same_file(known: FileInfo, found: FileInfo | None) -> bool:
    """Whether a file is still what it was; where that is not certain, False.

    Stores tell times more exactly in one answer than in another, so the tag of a content decides.
    """
    if found is None or found.size != known.size:
        return False
    if known.etag is not None and found.etag is not None:
        return found.etag == known.etag
    return found.modified_ms == known.modified_ms


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
    protocol, metadata = _require_state(
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


def _require_state(
    protocol: Protocol | None, metadata: Metadata | None, table: str, place: str
) -> tuple[Protocol, Metadata]:
    """Protocol and metadata of a version that we can understand."""
    if protocol is None or metadata is None:
        missing = "metaData" if protocol else "protocol"
        raise LogCorruptError(table, place, f"there is no {missing}")
    try:
        validate(TableDefinition(protocol=protocol, metadata=metadata), "open", table=table)
    except LogCorruptError as error:
        raise LogCorruptError(table, f"{place}, {error.file}", error.reason) from error
    return protocol, metadata
