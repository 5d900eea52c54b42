"""Transaction: what one commit will say, prepared on one snapshot.

txn = begin(log)
txn.stage(staged)
result = txn.commit(operation="WRITE")
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeltaOpsError,
    InvalidRequestError,
    TableExistsError,
    TableNotFoundError,
    naming_table,
)
from delta_ops.events import CommitAttempted, Event, OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.protocol.actions import (
    AddCdcFile,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
)
from delta_ops.protocol.arrow_schemas import tombstones
from delta_ops.protocol.change_data import mistaken_feed_column, validate_feed_columns
from delta_ops.protocol.columns.clustering import (
    clustering_columns,
    clustering_domain,
    validate_clustering,
)
from delta_ops.protocol.columns.identity import keep_marks, move_marks
from delta_ops.protocol.columns.ids import assign_column_ids
from delta_ops.protocol.features import features_of_properties
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.predicate import TRUE, Predicate, resolve
from delta_ops.protocol.properties.known import (
    COLUMN_MAPPING_MODE,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMPS,
    ROW_TRACKING,
)
from delta_ops.protocol.properties.table_properties import (
    TableProperties,
    requested_properties,
    table_properties_from_configuration,
)
from delta_ops.protocol.protocol_upgrade import add_features
from delta_ops.protocol.row_rules import CONSTRAINTS
from delta_ops.protocol.row_tracking import (
    counts_rows,
    high_water_mark,
    name_row_columns,
    validate_tracking,
)
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.table_definition import (
    TableDefinition,
    needed_features,
    validate,
    validate_properties,
)
from delta_ops.transaction.changes import (
    Add,
    AddChangeFiles,
    Describe,
    Draft,
    PutBack,
    Remove,
    ReplaceVector,
    SetBackTxn,
    SetDomain,
    SetMetadata,
    SetProtocol,
    SetTxn,
    tombstone,
)
from delta_ops.transaction.commit import SYSTEM_PACE, Limits, Outcome, Pace, Proposal, commit_loop
from delta_ops.transaction.commit_info import commit_info, file_metrics
from delta_ops.transaction.conflicts import Footprint
from delta_ops.transaction.create_table import new_metadata, new_protocol
from delta_ops.transaction.creation_race import is_same_table, validate_joinable
from delta_ops.transaction.deleted_meanwhile import (
    validate_added,
    validate_new_table,
    validate_no_vacuum,
    validate_put_back,
)
from delta_ops.transaction.hooks import (
    DEFAULT_HOOKS,
    CommittedVersion,
    Hook,
    follow_up,
)
from delta_ops.transaction.idempotency import Txn, all_done, txn_of
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.write_rules import (
    validate_actions,
    validate_balance,
    validate_staged,
)


def begin(
    log: TableOrPlace,
    *,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
    operation: Literal["write", "restore", "vacuum"] = "write",
    snapshot: Snapshot | None = None,
    pace: Pace = SYSTEM_PACE,
) -> Transaction:
    """A transaction on the latest version, or on no table yet.

    Args:
        operation: "restore" for one that stages no new file, "vacuum" for one that says nothing of
            files at all.
        snapshot: The version to go on from; the latest if None.
        pace: How the commit loop waits.

    Raises:
        InvalidRequestError: The snapshot is of another log.
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    validate_arguments(begin, locals())
    log = log_of(log)
    # Nobody knows how old a given snapshot is: the log may have been cleaned up since.
    # Vacuum's own are new, and its commits name no file.
    begun_ms = clock() if snapshot is None or operation == "vacuum" else 0
    if snapshot is None:
        snapshot = log.snapshot_if_exists()
    elif (snapshot.uri, snapshot.log_directory) != (log.uri, log.log_directory):
        raise InvalidRequestError(
            f"{log.uri}: the snapshot given is of the log in {snapshot.log_directory} of "
            f"{snapshot.uri}; give one of this log"
        )
    if snapshot is not None:
        validate(snapshot.definition, operation, table=log.uri, engine=None)
    return Transaction(
        log,
        snapshot,
        begun_ms=begun_ms,
        clock=clock,
        on_event=on_event,
        operation=operation,
        pace=pace,
    )


class Transaction:
    """One commit in the making; used once, by one thread."""

    def __init__(
        self,
        log: DeltaLog,
        snapshot: Snapshot | None,
        *,
        begun_ms: int,
        clock: Clock,
        on_event: OnEvent,
        operation: Literal["write", "restore", "vacuum"] = "write",
        pace: Pace = SYSTEM_PACE,
    ) -> None:
        self.log, self.snapshot = log, snapshot
        self._begun_ms, self._operation, self._pace = begun_ms, operation, pace
        self.clock, self.on_event = clock, on_event
        self._draft = Draft()
        self._definition: TableDefinition | None = None
        self._reads: list[Predicate] = []
        self._num_changed_reads = 0
        self._is_serial = False
        self._is_only_new = False
        self.partition_time_zone = "UTC"
        """Zone in which whoever reads takes partition values of type timestamp that name none."""
        self.may_be_committed = False
        """Whether a version names the staged files, or can come to; if not, they may be deleted."""
        self.is_of_one_change = False
        """Whether whoever began it uses it for one change of rows alone, which may begin again."""

    def begin_again(self) -> Transaction:
        """A transaction on the latest version that carries the same txns, and nothing else."""
        again = begin(self.log, clock=self.clock, on_event=self.on_event, pace=self._pace)
        again.partition_time_zone = self.partition_time_zone
        again.is_of_one_change = self.is_of_one_change
        for txn in self._draft.txns.values():
            again.set_transaction(txn)
        return again

    @property
    def creates_table(self) -> bool:
        """Whether this commit is to be the table's first."""
        return self.snapshot is None and self._draft.metadata is not None

    @property
    def is_empty(self) -> bool:
        """Whether the commit would change nothing and leave no txn."""
        return not self._draft.actions(now_ms=0)

    @property
    def metadata(self) -> Metadata:
        """The table's metadata as this commit leaves it.

        Raises:
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        current = self._draft.metadata or (self.snapshot.metadata if self.snapshot else None)
        if current is None:
            raise TableNotFoundError(self.log.uri)
        return current

    @property
    def protocol(self) -> Protocol:
        """The table's protocol as this commit leaves it.

        Raises:
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        current = self._draft.protocol or (self.snapshot.protocol if self.snapshot else None)
        if current is None:
            raise TableNotFoundError(self.log.uri)
        return current

    @property
    def definition(self) -> TableDefinition:
        """The table as this commit leaves it.

        Raises:
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        if self._definition is not None:
            return self._definition
        if self.snapshot is None:
            raise TableNotFoundError(self.log.uri)
        return self.snapshot.definition

    @property
    def schema(self) -> StructType:
        """The table's schema as this commit leaves it."""
        return self.definition.schema

    @property
    def properties(self) -> TableProperties:
        """The table's properties as this commit leaves it."""
        return self.definition.properties

    @property
    def clustering_columns(self) -> tuple[ColumnPath, ...]:
        """The columns by which the table is clustered, by physical names.

        Raises:
            InvalidRequestError: The table does not tell them.
        """
        if not self.definition.has("clustering"):
            return ()
        known = self.snapshot.domain_metadata() if self.snapshot else {}
        return clustering_columns({**known, **self._draft.domains}, self.log.uri)

    def create_table(
        self,
        schema: StructType,
        *,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        """Make this commit the table's first.

        Raises:
            InvalidRequestError: There is a table, or the definition cannot be used.
        """
        if self.snapshot is not None:
            raise InvalidRequestError(f"{self.log.uri} is a table already; append or overwrite")
        asked = requested_properties(configuration or {})
        with naming_table(self.log.uri):
            metadata = new_metadata(
                schema,
                partition_by=partition_by,
                configuration=_set_values(asked.properties),
                name=name,
                description=description,
                created_ms=self.clock(),
            )
        self._define(metadata, new_protocol(metadata, asked.features))

    def replace_table(
        self,
        schema: StructType,
        *,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        """Give the table another definition; its id, features and column mapping stay.

        Whoever calls it removes the rows.

        Raises:
            InvalidRequestError: The definition cannot be used.
            TableNotFoundError: There is no table.
        """
        current = self.metadata
        asked = requested_properties(configuration or {})
        wished = _set_values(asked.properties)
        names = [COLUMN_MAPPING_MODE.name] if self.definition.is_mapped else []
        if all(map(IN_COMMIT_TIMESTAMPS.value_in, (current.configuration, wished))):
            # Else earlier versions, which carry no time, would be asked for theirs.
            names += [IN_COMMIT_TIMESTAMP_VERSION.name, IN_COMMIT_TIMESTAMP_TIME.name]
        kept = {n: current.configuration[n] for n in names if n in current.configuration}
        with naming_table(self.log.uri):
            made = new_metadata(
                schema,
                partition_by=partition_by,
                configuration={**kept, **wished},
                name=name,
                description=description,
                created_ms=self.clock(),
            )
        metadata = replace(made, id=current.id)
        wanted = needed_features(TableDefinition(protocol=self.protocol, metadata=metadata))
        protocol = add_features(self.protocol, (*wanted, *asked.features))
        self._define(metadata, None if protocol == self.protocol else protocol)

    def require_new_table(self) -> None:
        """Commit only as the table's first version: nothing is added to one that stands there.

        Raises:
            TableExistsError: There is one.
        """
        if self.snapshot is not None:
            raise TableExistsError(self.log.uri)
        self._is_only_new = True

    def set_properties(self, changes: Mapping[str, str | None]) -> None:
        """Set table properties, and remove those whose value is None.

        The protocol gets the features that they ask for; the name `delta.feature.<name>` with the
        value supported asks for one by itself.

        Raises:
            InvalidRequestError: There is no such property, it is not for users, its value cannot
                be understood, or it is a constraint.
            TableNotFoundError: There is no table, and `create_table` has not been called.
            UnsupportedFeatureError: The table could not be written any more.
        """
        asked = requested_properties(changes)
        for name, value in asked.properties.items():
            if value is not None and name.lower().startswith(CONSTRAINTS):
                raise InvalidRequestError(
                    f"{self.log.uri}: {name} would be a constraint that nobody has held against "
                    "the rows that are there; add it with an engine that checks them"
                )
        configuration = _set_values({**self.metadata.configuration, **asked.properties})
        wanted = features_of_properties(_set_values(asked.properties))
        protocol = add_features(self.protocol, (*wanted, *asked.features))
        metadata = replace(self.metadata, configuration=configuration)
        self._begin_tracking(configuration)
        self._define(metadata, None if protocol == self.protocol else protocol)

    def _begin_tracking(self, configuration: Mapping[str, str]) -> None:
        """Refuse to track rows of which some have no ids, or that somebody adds meanwhile."""
        before = self.metadata.configuration
        if self.snapshot is None or not ROW_TRACKING.value_in(configuration):
            return
        if ROW_TRACKING.value_in(before):
            return
        self.read_serially(TRUE)
        live = self.snapshot.stream_live(["baseRowId"])
        if any(each["baseRowId"].null_count for each in live):
            raise InvalidRequestError(
                f"{self.log.uri} has rows without ids, so that they cannot be tracked; add the "
                "feature rowTracking, rewrite the files (an overwrite of all rows), and set "
                "delta.enableRowTracking then"
            )

    def _define(self, metadata: Metadata, protocol: Protocol | None = None) -> None:
        """Change what the table is, and refuse what we could not write any more."""
        metadata = assign_column_ids(metadata, self._metadata_of_files, self.log.uri)
        validate_tracking(metadata, self.log.uri)
        metadata = name_row_columns(metadata)
        self._draft.apply(SetMetadata(metadata=metadata))
        if protocol is not None:
            self._draft.apply(SetProtocol(protocol=protocol))
        definition = TableDefinition(protocol=self.protocol, metadata=metadata)
        self._definition = definition
        table_properties_from_configuration(metadata.configuration)
        validate_properties(definition, table=self.log.uri)
        if self.snapshot is None or not mistaken_feed_column(self.snapshot.definition):
            validate_feed_columns(definition, self.log.uri)
        validate(definition, self._operation, table=self.log.uri, engine=None)

    @property
    def _metadata_of_files(self) -> Metadata | None:
        """What the files that there are were written by; None: there are none yet."""
        if self.snapshot is None and not (self._draft.added or self._draft.put_back):
            return None
        return self.metadata

    def stage(self, staged: Staged) -> None:
        """Add staged files.

        Raises:
            InvalidRequestError: They do not fit the table.
        """
        validate_staged(staged, self.definition, table=self.log.uri)
        if staged.counted:
            self._define(move_marks(self.metadata, staged.counted, self.log.uri))
        self._draft.apply(Add(files=staged.adds, num_rows=staged.num_rows))

    @property
    def new_files(self) -> tuple[AddFile, ...]:
        """The files that bring rows and that no version has named yet."""
        return tuple(each for each in self._draft.added if each.data_change)

    @property
    def removes_rows(self) -> bool:
        """Whether files are removed whose rows are gone then."""
        return any(each.data_change for each in self._draft.removed)

    def remove(self, files: Iterable[AddFile], *, data_change: bool = True) -> None:
        """Remove live files; with `data_change` False, staged ones hold their rows."""
        now_ms, live = self.clock(), tuple(files)
        removes = tuple(tombstone(add, now_ms, data_change=data_change) for add in live)
        self._draft.apply(Remove(files=removes, rearranged=() if data_change else live))

    def remove_rows(self, files: pa.Table) -> None:
        """Remove live files that are rows of `arrow_schemas.ADD`."""
        self._draft.apply(Remove(files=tuple(tombstones(files, self.clock()))))

    def replace_vector(self, file: AddFile, vector: DeletionVector | None) -> None:
        """Give a live file another deletion vector, or none."""
        self._draft.apply(ReplaceVector(file=file, vector=vector, now_ms=self.clock()))

    def add_change_files(self, files: Iterable[AddCdcFile]) -> None:
        """Name files that tell all rows which the commit changes; nothing else is told then."""
        self._draft.apply(AddChangeFiles(files=tuple(files)))

    def put_back(self, files: Iterable[AddFile], *, vacuum_was_killed: bool = False) -> None:
        """Add files that the log has known before and that are not live, as they are given.

        Whoever calls it has seen the files since the transaction began.

        Args:
            vacuum_was_killed: A vacuum that has begun and not ended will delete nothing more.
        """
        self._draft.apply(PutBack(files=tuple(files), vacuum_was_killed=vacuum_was_killed))

    def describe(self, files: Iterable[AddFile]) -> None:
        """Say something else of live files; `data_change` must be False, for they stay."""
        self._draft.apply(Describe(files=tuple(files)))

    def set_metadata(self, metadata: Metadata, features: Iterable[str] = ()) -> None:
        """Give the table other metadata, such as those of another of its versions.

        Args:
            features: The protocol gets them if it has them not.

        Raises:
            InvalidRequestError: They ask for a feature that the table's protocol does not have.
            UnsupportedFeatureError: The table could not be written any more.
        """
        before = self._metadata_of_files
        protocol = add_features(self.protocol, features)
        self._define(
            metadata if before is None else keep_marks(metadata, before),
            None if protocol == self.protocol else protocol,
        )

    def set_definition(self, metadata: Metadata, protocol: Protocol) -> None:
        """Give the table other metadata and another protocol, which may have fewer features.

        Whoever calls it has seen that nothing rests on the features that go.

        Raises:
            InvalidRequestError: The metadata ask for a feature that the protocol does not have.
            UnsupportedFeatureError: The table could not be written any more.
        """
        self._define(metadata, protocol)

    def set_back_transactions(self, versions: Mapping[str, int]) -> None:
        """Leave these versions by application id, whatever the table holds."""
        for app_id, version in versions.items():
            self._draft.apply(SetBackTxn(app_id=app_id, version=version))

    def read(self, predicate: Predicate) -> None:
        """Depend on the rows for which the predicate is true: whoever adds one first wins.

        Raises:
            InvalidRequestError: It does not fit the table, so that no race could be judged by it.
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        with naming_table(self.log.uri):
            resolve(predicate, self.schema)
        self._reads.append(predicate)

    def read_to_change(self, predicate: Predicate) -> None:
        """Read rows each of which this commit deletes or replaces, and depend on no other.

        Another commit may have deleted other rows of the same files by vectors before.
        """
        self.read(predicate)
        self._num_changed_reads += 1

    def read_serially(self, predicate: Predicate) -> None:
        """Read, and let no row count as added later, whatever the table's isolation level."""
        self.read(predicate)
        self._is_serial = True

    def set_transaction(self, txn: Txn | tuple[str, int]) -> None:
        """Commit only if the table does not hold this txn, and leave it there.

        Raises:
            InvalidRequestError: The application has a txn in this commit already.
        """
        identity = txn_of(txn)
        if identity.app_id in self._draft.txns:
            raise InvalidRequestError(f"txn {identity.app_id} is in the commit twice")
        self._draft.apply(SetTxn(txn=identity))

    def set_domain_metadata(self, domain: DomainMetadata) -> None:
        """Set or remove a domain.

        Raises:
            InvalidRequestError: The table's protocol does not allow domains, or this one belongs to
                a feature of the protocol.
        """
        if domain.domain.startswith("delta."):
            raise InvalidRequestError(
                f"the domain {domain.domain} belongs to the protocol; choose another prefix"
            )
        if not self.definition.has("domainMetadata"):
            raise InvalidRequestError(
                f"{self.log.uri} has no domains: domainMetadata is not among the writer features "
                "of its protocol"
            )
        self._draft.apply(SetDomain(domain=domain))

    def set_clustering(self, columns: Sequence[ColumnPath]) -> None:
        """Say by which columns the table is clustered; the protocol gets the feature.

        Args:
            columns: By physical names, from the column down to a field of structs.

        Raises:
            InvalidRequestError: There is no such column.
        """
        validate_clustering(tuple(columns), self.definition.physical_schema, self.log.uri)
        self.set_metadata(self.metadata, ("clustering",))
        self._draft.apply(SetDomain(domain=clustering_domain(columns)))

    def done_before(self) -> CommitResult | None:
        """The result if every txn of this commit is in the table already; ask before the work.

        Raises:
            StaleRunError: A newer run has overwritten what this one is about to write.
            InvalidRequestError: Some of the txns are in the table and some are not.
        """
        txns = tuple(self._draft.txns.values())
        if self.snapshot is None or not txns:
            return None
        stored = self.snapshot.transactions()
        if not all_done(txns, stored, table=self.log.uri):
            return None
        first = txns[0]
        carried_by = version_of_transaction(
            self.log.storage,
            self.log.log_directory,
            first.app_id,
            stored[first.app_id].version,
            base=self.log.base,
        )
        return CommitResult(version=carried_by, already_committed=True, attempts=0)

    def validate(self) -> None:
        """Refuse what `commit` would refuse; for a dry run.

        Raises:
            CommitConflictError: A vacuum is going on that may delete what is put back.
            InvalidRequestError: The actions break a rule of the table.
        """
        validate_actions(
            self._draft.files,
            self.definition,
            append_only=self._is_append_only,
            table=self.log.uri,
            known=self._paths_of((*self._draft.named_again, *self._draft.vectored)),
        )
        if self._draft.metadata is not None:
            before = self.snapshot.schema if self.snapshot else None
            schema = self.definition.physical_schema
            validate_clustering(self.clustering_columns, schema, self.log.uri, before)
        validate_balance(self._draft.files, self._draft.rearranged, table=self.log.uri)
        if self.snapshot is not None and self._draft.put_back and self._draft.heeds_vacuum:
            validate_no_vacuum(self.snapshot, now_ms=self.clock())

    def _paths_of(self, files: Iterable[AddFile]) -> frozenset[str]:
        return frozenset(canonical_texts((each.path for each in files), self.log.uri))

    def commit(
        self,
        *,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        metrics: Mapping[str, int] | None = None,
        user_metadata: str | None = None,
        counts_files: bool = True,
        hooks: Sequence[Hook] = DEFAULT_HOOKS,
        max_attempts: int = 1000,
        timeout: timedelta = timedelta(minutes=10),
    ) -> CommitResult:
        """Commit, whatever version that turns out to be.

        Args:
            operation: As the reference names it: WRITE, OPTIMIZE, ...
            parameters: `operationParameters` of commitInfo.
            metrics: More `operationMetrics` than the counts of files, rows and bytes.
            user_metadata: Any text, kept in commitInfo.
            counts_files: False: `metrics` are all of `operationMetrics`, for an operation of which
                the reference names the counts otherwise.
            max_attempts: Versions tried before the commit is given up; each lost race and each
                failure of the store takes one.
            timeout: After it no further attempt is begun.

        Raises:
            CommitConflictError: A concurrent commit invalidates this one, the limits were reached,
                or a vacuum has deleted what was staged; nothing was committed.
            CommitStateUnknownError: The store did not tell; look before running again.
            DataFileError: It was committed, and what it brings back has been deleted meanwhile; or
                what was staged for a new table has, which the error says was committed or not.
            InvalidRequestError: The actions break a rule of the table.
            StaleRunError: A newer run has overwritten what this one was about to write.
            TableExistsError: Another has made the table first, and this was to be a new one.
            TableReplacedError: The table was deleted, or another was made at its place.
        """
        done = self.done_before()
        if done is not None:
            return done
        self.validate()
        if self.snapshot is not None and (new := [*self._draft.added, *self._draft.vectored]):
            horizon_ms = self.clock() - self.properties.deleted_file_retention_ms
            validate_added(new, self.snapshot, horizon_ms=horizon_ms)
        of_new_table = [*self._draft.added] if self.snapshot is None else []
        validate_new_table(of_new_table, self.log, committed=None)
        counted = file_metrics(self._draft.files, self._draft.num_rows) if counts_files else {}
        counts = {**counted, **(metrics or {})}
        proposal = self._proposal(operation, parameters or {}, counts, user_metadata)
        try:
            outcome = self._run(
                proposal, Limits(max_attempts=max_attempts, timeout_s=timeout.total_seconds())
            )
        except DeltaOpsError as error:
            self.may_be_committed = isinstance(error, CommitStateUnknownError)
            raise
        if outcome.already_committed or outcome.version is None:
            self.may_be_committed = False
            return CommitResult(
                version=outcome.version, already_committed=True, attempts=outcome.attempts
            )
        committed = self._committed_version(outcome.version, outcome)
        validate_new_table(of_new_table, self.log, committed=outcome.version)
        failed = follow_up(committed, hooks, self.on_event)
        if self.snapshot is not None:
            validate_put_back(self._draft.put_back, self.snapshot, outcome.version)
        return CommitResult(
            version=outcome.version,
            already_committed=False,
            attempts=outcome.attempts,
            metrics=counts,
            failed_hooks=failed,
            open_snapshot=committed.open_snapshot,
        )

    @property
    def _is_append_only(self) -> bool:
        """Whether the table is, or is from this commit on."""
        if self.properties.append_only or self.snapshot is None:
            return self.properties.append_only
        # That property alone: another one may be what this commit puts right.
        before = self.snapshot.metadata.configuration
        alone = {name: before[name] for name in ("delta.appendOnly",) if name in before}
        return table_properties_from_configuration(alone).append_only

    def _run(self, proposal: Proposal, limits: Limits) -> Outcome:
        try:
            return self._loop(proposal, limits)
        except CommitConflictError:
            if self.snapshot is not None or not self._joins_created_table():
                raise
        if done := self.done_before():
            return Outcome(version=done.version, attempts=1, already_committed=True)
        if self._is_only_new:
            raise TableExistsError(self.log.uri)
        assert self.snapshot
        validate_joinable(self.log, self.snapshot, proposal.footprint)
        actions = tuple(a for a in proposal.actions if not isinstance(a, Protocol | Metadata))
        timed = self.properties.in_commit_timestamps
        joined = replace(
            proposal,
            actions=actions,
            in_commit_timestamps=timed,
            row_id_mark=self._row_id_mark,
        )
        return self._loop(joined, limits)

    def _loop(self, proposal: Proposal, limits: Limits) -> Outcome:
        return commit_loop(
            self.log,
            self.snapshot,
            proposal,
            clock=self.clock,
            on_event=self._on_loop_event,
            limits=limits,
            pace=self._pace,
        )

    def _on_loop_event(self, event: Event) -> None:
        self.on_event(event)
        if isinstance(event, CommitAttempted):
            # Until the loop has said otherwise: an interrupt can come while the file is created.
            self.may_be_committed = True

    def _joins_created_table(self) -> bool:
        """Go on with a table created meanwhile, if it is the one we were about to create."""
        assert self._draft.metadata
        created = begin(self.log).snapshot
        if created is None or self._draft.removed:
            return False
        if not self._is_only_new and not is_same_table(self._draft.metadata, created.metadata):
            return False
        self.snapshot, self._definition = created, None
        self._draft.metadata = self._draft.protocol = None
        return True

    def _proposal(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int],
        user_metadata: str | None,
    ) -> Proposal:
        footprint = self.footprint
        return Proposal(
            actions=self._draft.actions(self.clock()),
            info=commit_info(
                operation, parameters, metrics, footprint, user_metadata, self.definition
            ),
            txn_id=str(uuid.uuid4()),
            footprint=footprint,
            txns=tuple(self._draft.txns.values()),
            begun_ms=self._begun_ms,
            log_retention_ms=self.properties.log_retention_ms,
            in_commit_timestamps=self.properties.in_commit_timestamps,
            begins_timestamps=self._begins_timestamps,
            row_id_mark=self._row_id_mark,
        )

    @property
    def _row_id_mark(self) -> int | None:
        """The greatest id that a row was given; None where rows are not counted."""
        if not counts_rows(self.definition):
            return None
        known = self.snapshot.domain_metadata() if self.snapshot else {}
        return high_water_mark(known, self.log.uri)

    @property
    def _begins_timestamps(self) -> bool:
        """Whether commits of a table that is there carry their time from this one on."""
        if self.snapshot is None or not self.properties.in_commit_timestamps:
            return False
        # That property alone: another one may be what this commit puts right.
        return not IN_COMMIT_TIMESTAMPS.value_in(self.snapshot.metadata.configuration)

    @property
    def footprint(self) -> Footprint:
        """What the commit has read and changes so far."""
        draft = self._draft
        removed = (action.path for action in draft.removed)
        rests_on_no_row = draft.is_rearrangement or self._operation == "vacuum"
        level = self.properties.isolation_level if not self._is_serial else "Serializable"
        return Footprint(
            reads=tuple(self._reads),
            removed_paths=frozenset(canonical_texts(removed, self.log.uri)),
            changes_all_it_reads=0 < len(self._reads) == self._num_changed_reads,
            puts_back=bool(draft.put_back) and draft.heeds_vacuum,
            named_again=self._paths_of(self._draft.named_again),
            app_ids=frozenset(draft.txns) | frozenset(draft.txns_set_back),
            domains=frozenset(draft.domains),
            changes_metadata=draft.metadata is not None,
            partition_time_zone=self.partition_time_zone,
            isolation="SnapshotIsolation" if rests_on_no_row else level,
        )

    def _committed_version(self, version: int, outcome: Outcome) -> CommittedVersion:
        return CommittedVersion(
            log=self.log,
            version=version,
            properties=self.properties,
            clock=self.clock,
            actions=outcome.actions,
            read_snapshot=self.snapshot,
            winners=outcome.winners,
        )


def _set_values(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value is not None}
