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
    DataFileError,
    DeltaOpsError,
    InvalidRequestError,
    TableNotFoundError,
)
from delta_ops.events import CommitAttempted, Event, OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.history import version_of_transaction
from delta_ops.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.arrow_schemas import tombstones
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.predicate import Predicate, resolve
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.table_definition import TableDefinition, validate, validate_properties
from delta_ops.protocol.table_properties import (
    TableProperties,
    table_properties_from_configuration,
)
from delta_ops.transaction.commit import Limits, Outcome, Proposal, commit_loop
from delta_ops.transaction.commit_info import commit_info, file_metrics
from delta_ops.transaction.conflicts import Footprint
from delta_ops.transaction.create_table import new_metadata, new_protocol
from delta_ops.transaction.creation_race import is_same_table, validate_joinable
from delta_ops.transaction.hooks import (
    DEFAULT_HOOKS,
    CommittedVersion,
    Hook,
    follow_up,
)
from delta_ops.transaction.idempotency import TxnId, all_done, txn_id
from delta_ops.transaction.missing_files import missing_of
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.vacuum_runs import is_vacuum_open
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
    operation: Literal["write", "restore"] = "write",
) -> Transaction:
    """A transaction on the latest version, or on no table yet.

    Args:
        operation: "restore" for one that stages no new file.

    Raises:
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    validate_arguments(begin, locals())
    log = log_of(log)
    begun_ms = clock()
    snapshot = log.snapshot_if_exists()
    if snapshot is not None:
        validate(snapshot.definition, operation, table=log.uri, engine=None)
    return Transaction(
        log, snapshot, begun_ms=begun_ms, clock=clock, on_event=on_event, operation=operation
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
        operation: Literal["write", "restore"] = "write",
    ) -> None:
        self.log, self.snapshot = log, snapshot
        self._begun_ms, self._operation = begun_ms, operation
        self.clock, self.on_event = clock, on_event
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._definition: TableDefinition | None = None
        self._files: list[FileAction] = []
        self._rearranged: list[AddFile] = []  # removed, and their rows are in other files
        self._named_again: list[AddFile] = []
        self._staged: list[AddFile] = []
        self._put_back: list[AddFile] = []
        self._heeds_vacuum = True
        self._txns: dict[str, TxnId] = {}
        self._txns_set_back: dict[str, int] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._reads: list[Predicate] = []
        self._is_serial = False
        self._num_rows = 0
        self.may_be_committed = False
        """Whether a version names the staged files, or can come to; if not, they may be deleted."""

    @property
    def creates_table(self) -> bool:
        """Whether this commit is to be the table's first."""
        return self.snapshot is None and self._metadata is not None

    @property
    def metadata(self) -> Metadata:
        """The table's metadata as this commit leaves it.

        Raises:
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        current = self._metadata or (self.snapshot.metadata if self.snapshot else None)
        if current is None:
            raise TableNotFoundError(self.log.uri)
        return current

    @property
    def protocol(self) -> Protocol:
        """The table's protocol as this commit leaves it.

        Raises:
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        current = self._protocol or (self.snapshot.protocol if self.snapshot else None)
        if current is None:
            raise TableNotFoundError(self.log.uri)
        return current

    @property
    def definition(self) -> TableDefinition:
        """The table as this commit leaves it.

        Raises:
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        changed = self._metadata is not None or self._protocol is not None
        if self.snapshot is not None and not changed:
            return self.snapshot.definition
        found = self._definition
        if found is None or found.metadata is not self.metadata:
            found = TableDefinition(protocol=self.protocol, metadata=self.metadata)
            self._definition = found
        return found

    @property
    def schema(self) -> StructType:
        """The table's schema as this commit leaves it."""
        return self.definition.schema

    @property
    def properties(self) -> TableProperties:
        """The table's properties as this commit leaves it."""
        return self.definition.properties

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
        self._metadata = new_metadata(
            schema,
            partition_by=partition_by,
            configuration=configuration,
            name=name,
            description=description,
            created_ms=self.clock(),
        )
        properties = table_properties_from_configuration(self._metadata.configuration)
        self._protocol = new_protocol(schema, properties)
        self._validate_definition()

    def set_properties(self, changes: Mapping[str, str | None]) -> None:
        """Set table properties, and remove those whose value is None.

        Raises:
            InvalidRequestError: A value cannot be understood, or asks for a feature that the
                table's protocol does not have.
            TableNotFoundError: There is no table, and `create_table` has not been called.
            UnsupportedFeatureError: The table could not be written any more.
        """
        merged = {**self.metadata.configuration, **changes}
        configuration = {name: value for name, value in merged.items() if value is not None}
        self._metadata = replace(self.metadata, configuration=configuration)
        self._validate_definition()
        had_timestamps = self.snapshot is None or self.snapshot.properties.in_commit_timestamps
        if self.properties.in_commit_timestamps and not had_timestamps:
            # It would have to name the version that it comes to.
            raise InvalidRequestError(
                f"{self.log.uri}: delta.enableInCommitTimestamps can only be set when a table is "
                "created; set it with an engine that can switch it on"
            )

    def _validate_definition(self) -> None:
        table_properties_from_configuration(self.metadata.configuration)
        validate_properties(self.definition, table=self.log.uri)
        validate(self.definition, self._operation, table=self.log.uri, engine=None)

    def stage(self, staged: Staged) -> None:
        """Add staged files.

        Raises:
            InvalidRequestError: They do not fit the table.
        """
        validate_staged(staged, self.definition, table=self.log.uri)
        self._files.extend(staged.adds)
        self._staged.extend(staged.adds)
        self._num_rows += staged.num_rows

    def remove(self, files: Iterable[AddFile], *, data_change: bool = True) -> None:
        """Remove live files; with `data_change` False, staged ones hold their rows."""
        now_ms = self.clock()
        removed = list(files)
        self._files.extend(tombstone(add, now_ms, data_change=data_change) for add in removed)
        self._rearranged.extend(removed if not data_change else ())

    def remove_rows(self, files: pa.Table) -> None:
        """Remove live files that are rows of `arrow_schemas.ADD`."""
        self._files.extend(tombstones(files, self.clock()))

    def put_back(self, files: Iterable[AddFile], *, vacuum_was_killed: bool = False) -> None:
        """Add files that the log has known before and that are not live, as they are given.

        Whoever calls it has seen the files since the transaction began.

        Args:
            vacuum_was_killed: A vacuum that has begun and not ended will delete nothing more.
        """
        named = list(files)
        self._name_again(named)
        self._put_back.extend(named)
        self._heeds_vacuum = self._heeds_vacuum and not vacuum_was_killed

    def describe(self, files: Iterable[AddFile]) -> None:
        """Say something else of live files; `data_change` must be False, for they stay."""
        named = list(files)
        self._name_again(named)
        self._rearranged.extend(named)

    def _name_again(self, files: Sequence[AddFile]) -> None:
        self._files.extend(files)
        self._named_again.extend(files)

    def set_metadata(self, metadata: Metadata) -> None:
        """Give the table the metadata of another of its versions.

        Raises:
            InvalidRequestError: They ask for a feature that the table's protocol does not have.
            UnsupportedFeatureError: The table could not be written any more.
        """
        self._metadata = metadata
        self._validate_definition()

    def set_back_transactions(self, versions: Mapping[str, int]) -> None:
        """Leave these versions by application id, whatever the table holds."""
        self._txns_set_back.update(versions)

    def read(self, predicate: Predicate) -> None:
        """Depend on the rows for which the predicate is true: whoever adds one first wins.

        Raises:
            InvalidRequestError: It does not fit the table, so that no race could be judged by it.
            TableNotFoundError: There is no table, and `create_table` has not been called.
        """
        resolve(predicate, self.schema)
        self._reads.append(predicate)

    def read_serially(self, predicate: Predicate) -> None:
        """The same, and let no row count as added later, whatever the table's isolation level."""
        self.read(predicate)
        self._is_serial = True

    def set_transaction(self, txn: TxnId | tuple[str, int]) -> None:
        """Commit only if the table does not hold this txn, and leave it there.

        Raises:
            InvalidRequestError: The application has a txn in this commit already.
        """
        identity = txn_id(txn)
        if identity.app_id in self._txns:
            raise InvalidRequestError(f"txn {identity.app_id} is in the commit twice")
        self._txns[identity.app_id] = identity

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
        self._domains[domain.domain] = domain

    def done_before(self) -> CommitResult | None:
        """The result if every txn of this commit is in the table already; ask before the work.

        Raises:
            StaleRunError: A newer run has overwritten what this one is about to write.
            InvalidRequestError: Some of the txns are in the table and some are not.
        """
        if self.snapshot is None or not self._txns:
            return None
        stored = self.snapshot.transactions()
        if not all_done(tuple(self._txns.values()), stored, table=self.log.uri):
            return None
        first = next(iter(self._txns.values()))
        carried_by = version_of_transaction(
            self.log.storage, self.log.log_directory, first.app_id, stored[first.app_id].version
        )
        return CommitResult(version=carried_by, already_committed=True, attempts=0)

    def validate(self) -> None:
        """Refuse what `commit` would refuse; for a dry run.

        Raises:
            CommitConflictError: A vacuum is going on that may delete what is put back.
            InvalidRequestError: The actions break a rule of the table.
        """
        validate_actions(
            self._files,
            self.definition,
            append_only=self._is_append_only,
            table=self.log.uri,
        )
        validate_balance(self._files, self._rearranged, table=self.log.uri)
        if self._put_back and self._heeds_vacuum:
            self._validate_no_vacuum()

    def _validate_no_vacuum(self) -> None:
        assert self.snapshot
        if is_vacuum_open(self.snapshot, now_ms=self.clock()):
            raise CommitConflictError(
                self.log.uri,
                self.snapshot.version,
                "leaves a vacuum without its end: files that this operation brings back may be "
                "deleted at any moment. Wait until it has ended, or say that it was killed "
                "(vacuum_was_killed)",
                "vacuum",
            )

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
            DataFileError: It was committed, and what it brings back has been deleted meanwhile.
            InvalidRequestError: The actions break a rule of the table.
            StaleRunError: A newer run has overwritten what this one was about to write.
            TableReplacedError: The table was deleted, or another was made at its place.
        """
        done = self.done_before()
        if done is not None:
            return done
        self.validate()
        self._validate_staged()
        counted = file_metrics(self._files, self._num_rows) if counts_files else {}
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
        failed = follow_up(self._committed(outcome.version, outcome), hooks, self.on_event)
        self._validate_put_back(outcome.version)
        return CommitResult(
            version=outcome.version,
            already_committed=False,
            attempts=outcome.attempts,
            metrics=counts,
            failed_hooks=failed,
        )

    def _validate_staged(self) -> None:
        """Refuse to name staged files that a vacuum took for leftovers, since it goes by their age.

        A slow writer's are old, and those that a disk dates whose clock was set back.
        """
        horizon_ms = self.clock() - self.properties.deleted_file_retention_ms
        # A time of 0 is that of an engine that does not know it.
        old = [add for add in self._staged if 0 != add.modification_time < horizon_ms]
        if not old or self.snapshot is None:
            return
        missing = missing_of(old, self.snapshot)
        if missing:
            raise CommitConflictError(
                self.log.uri,
                self.snapshot.version,
                f"since then a vacuum has deleted {len(missing)} of the files staged for this "
                f"operation, such as {missing[0].path}: by the store's clock they are older than "
                "delta.deletedFileRetentionDuration",
                "vacuum",
            )

    def _validate_put_back(self, version: int) -> None:
        """Tell of files that were deleted by a vacuum which gave no sign."""
        if not self._put_back:
            return
        assert self.snapshot
        missing = missing_of(self._put_back, self.snapshot)
        if missing:
            paths = canonical_texts([add.path for add in missing], self.log.uri)
            others = f" ({len(paths) - 1} others too)" if len(paths) > 1 else ""
            raise DataFileError(
                self.log.uri,
                version,
                paths[0],
                f"has been deleted while this version brought it back{others}, most likely by a "
                "vacuum. The version is committed: bring what is gone back from a backup, take it "
                f"out of the table (repair with remove_missing), or restore version {version - 1}",
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
        assert self.snapshot
        validate_joinable(self.log, self.snapshot, proposal.footprint)
        actions = tuple(a for a in proposal.actions if not isinstance(a, Protocol | Metadata))
        timed = self.properties.in_commit_timestamps
        joined = replace(proposal, actions=actions, in_commit_timestamps=timed)
        return self._loop(joined, limits)

    def _loop(self, proposal: Proposal, limits: Limits) -> Outcome:
        return commit_loop(
            self.log,
            self.snapshot,
            proposal,
            clock=self.clock,
            on_event=self._on_loop_event,
            limits=limits,
        )

    def _on_loop_event(self, event: Event) -> None:
        self.on_event(event)
        if isinstance(event, CommitAttempted):
            # Until the loop has said otherwise: an interrupt can come while the file is created.
            self.may_be_committed = True

    def _joins_created_table(self) -> bool:
        """Go on with a table created meanwhile, if it is the one we were about to create."""
        assert self._metadata
        created = begin(self.log).snapshot
        if created is None or any(isinstance(action, RemoveFile) for action in self._files):
            return False
        if not is_same_table(self._metadata, created.metadata):
            return False
        self.snapshot, self._metadata, self._protocol = created, None, None
        return True

    def _proposal(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int],
        user_metadata: str | None,
    ) -> Proposal:
        now_ms = self.clock()
        ours = {txn.app_id: txn.version for txn in self._txns.values()}
        txns = [
            SetTransaction(app_id=app_id, version=version, last_updated=now_ms)
            for app_id, version in {**self._txns_set_back, **ours}.items()
        ]
        singles = [action for action in (self._metadata, self._protocol) if action is not None]
        actions: list[Action] = [*singles, *txns, *self._domains.values(), *self._files]
        footprint = self._footprint()
        return Proposal(
            actions=tuple(actions),
            info=commit_info(operation, parameters, metrics, footprint, user_metadata),
            txn_uuid=str(uuid.uuid4()),
            footprint=footprint,
            txns=tuple(self._txns.values()),
            begun_ms=self._begun_ms,
            log_retention_ms=self.properties.log_retention_ms,
            in_commit_timestamps=self.properties.in_commit_timestamps,
        )

    def _footprint(self) -> Footprint:
        removed = (a.path for a in self._files if isinstance(a, RemoveFile))
        again = (add.path for add in self._named_again)
        only_rearranges = (
            bool(self._files)
            and self._metadata is None
            and not self._txns_set_back
            and not any(action.data_change for action in self._files)
        )
        level = self.properties.isolation_level if not self._is_serial else "Serializable"
        return Footprint(
            reads=tuple(self._reads),
            removed_paths=frozenset(canonical_texts(removed, self.log.uri)),
            puts_back=bool(self._put_back) and self._heeds_vacuum,
            named_again=frozenset(canonical_texts(again, self.log.uri)),
            app_ids=frozenset(self._txns) | frozenset(self._txns_set_back),
            domains=frozenset(self._domains),
            changes_metadata=self._metadata is not None,
            isolation="SnapshotIsolation" if only_rearranges else level,
        )

    def _committed(self, version: int, outcome: Outcome) -> CommittedVersion:
        return CommittedVersion(
            log=self.log,
            version=version,
            properties=self.properties,
            clock=self.clock,
            actions=outcome.actions,
            read_snapshot=self.snapshot,
            winners=outcome.winners,
        )


def tombstone(add: AddFile, now_ms: int, *, data_change: bool) -> RemoveFile:
    """The remove that cancels an add, with all that is known of the file."""
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now_ms,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )
