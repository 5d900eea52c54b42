"""Transaction: one commit that is being prepared on one snapshot.

txn = begin(log)
txn.stage(staged)
result = txn.commit(operation="WRITE")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableExistsError, naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.protocol.actions import AddFile, DeletionVector, DomainMetadata, Metadata
from delta_ops.protocol.arrow_schemas import tombstones
from delta_ops.protocol.columns.clustering import (
    clustering_columns,
    clustering_domain,
    validate_clustering,
)
from delta_ops.protocol.expression.implication import AnyPredicate, fitting_predicate
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.properties.known import ROW_TRACKING
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.transaction.changes import (
    Add,
    Change,
    Define,
    Draft,
    Read,
    Remove,
    ReplaceVector,
    SetDomain,
    SetTxn,
    tombstone,
)
from delta_ops.transaction.commit.hooks import DEFAULT_HOOKS, Hook
from delta_ops.transaction.commit.info import file_metrics
from delta_ops.transaction.commit.loop import SYSTEM_PACE, Limits, Pace
from delta_ops.transaction.commit.proposal import Description
from delta_ops.transaction.commit.run import CommitRun
from delta_ops.transaction.idempotency import Txn, result_if_done, txn_of
from delta_ops.transaction.races.conflicts import Footprint
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.staging import Staged, WriteTarget
from delta_ops.transaction.table_change import (
    DefineTable,
    MoveMarks,
    SetMetadata,
    SetProperties,
    TableChange,
    changed_definition,
)
from delta_ops.transaction.write_rules import validate_domain, validate_row_ids, validate_staged


def begin(
    log: TableOrPlace,
    *,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
    operation: Literal["write", "restore", "vacuum"] = "write",
    snapshot: Snapshot | None = None,
    pace: Pace = SYSTEM_PACE,
) -> Transaction:
    """Begin a transaction on the latest version, or for a new table.

    Args:
        operation: "restore" for a commit without new files, "vacuum" for a commit without files.
        snapshot: The version to follow; the latest version if None.
        pace: How the commit loop waits.

    Raises:
        InvalidRequestError: The snapshot belongs to another log.
        UnsupportedFeatureError: The table uses a feature that we cannot write.

    Examples:
        >>> transaction = begin("lake/orders")
        >>> transaction.stage(da.stage_write(transaction, da.to_table("lake/orders")))
        >>> transaction.commit(operation="WRITE").version
        1
    """
    validate_arguments(begin, locals())
    log = log_of(log)
    # A caller's snapshot may predate a log clean-up. Vacuum loads its own, and names no file.
    begun_ms = clock() if snapshot is None or operation == "vacuum" else 0
    if snapshot is None:
        snapshot = log.snapshot_if_exists()
    elif (snapshot.uri, snapshot.log_directory) != (log.uri, log.log_directory):
        raise InvalidRequestError(
            f"{log.uri}: the snapshot belongs to the log in {snapshot.log_directory} of "
            f"{snapshot.uri}; give a snapshot of this log"
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
    """One commit that is being prepared; used once, by one thread.

    Examples:
        >>> transaction = begin("lake/orders")
        >>> transaction.set_properties({"delta.appendOnly": "true"})
        >>> transaction.set_transaction(("nightly", 1))
        >>> transaction.commit(operation="SET TBLPROPERTIES").version
        1
        >>> DeltaLog("lake/orders").snapshot().properties.append_only
        True
    """

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
        self.clock, self.on_event = clock, on_event
        self.draft, self._operation = Draft(), operation
        self._run = CommitRun(
            log=log,
            snapshot=snapshot,
            draft=self.draft,
            clock=clock,
            on_event=on_event,
            pace=pace,
            begun_ms=begun_ms,
        )
        self.partition_time_zone = "UTC"
        """Time zone for partition timestamps without one."""
        self.is_of_one_change = False
        """Whether the transaction belongs to a single change of rows, which may be rerun."""
        self.commit_texts: Mapping[str, str] = {}
        """More fields of `commitInfo`, by names that are not in its `RESERVED_NAMES`."""

    def begin_again(self) -> Transaction:
        """Begin a transaction on the latest version, with the same txns and no other change."""
        again = begin(self.log, clock=self.clock, on_event=self.on_event, pace=self._run.pace)
        again.partition_time_zone = self.partition_time_zone
        again.is_of_one_change, again.commit_texts = self.is_of_one_change, self.commit_texts
        for txn in self.draft.txns.values():
            again.set_transaction(txn)
        return again

    @property
    def creates_table(self) -> bool:
        """Whether this commit creates the table."""
        return self.snapshot is None and self.draft.definition is not None

    @property
    def may_be_committed(self) -> bool:
        """Whether a version may name the staged files; if not, they may be deleted."""
        return self._run.may_be_committed

    @property
    def definition(self) -> TableDefinition:
        """The table after this commit.

        Raises:
            TableNotFoundError: There is no table, and this commit does not create it.
        """
        return self._run.definition

    @property
    def metadata(self) -> Metadata:
        """The table's metadata after this commit."""
        return self.definition.metadata

    @property
    def schema(self) -> StructType:
        """The table's schema after this commit."""
        return self.definition.schema

    @property
    def clustering_columns(self) -> tuple[ColumnPath, ...]:
        """The clustering columns, by physical names."""
        if not self.definition.has("clustering"):
            return ()
        known = self.snapshot.domain_metadata() if self.snapshot else {}
        return clustering_columns({**known, **self.draft.domains}, self.log.uri)

    @property
    def target(self) -> WriteTarget:
        """The table after this commit, for an engine that writes files."""
        return WriteTarget(
            storage=self.log.storage,
            definition=self.definition,
            clustered_by=self.clustering_columns,
            now_ms=self.clock(),
            on_event=self.on_event,
        )

    def change_table(self, change: TableChange) -> None:
        """Change the table's definition.

        Raises:
            InvalidRequestError: The change does not fit the table.
            TableNotFoundError: There is no table, and the change does not create one.
            UnsupportedFeatureError: We cannot write the changed table.
        """
        before = self.draft.definition or (self.snapshot.definition if self.snapshot else None)
        has_files = bool(self.snapshot or self.draft.added or self.draft.put_back)
        with naming_table(self.log.uri):
            definition = changed_definition(
                before, change, table=self.log.uri, has_files=has_files, operation=self._operation
            )
        if definition is not before:
            changes_protocol = before is None or definition.protocol != before.protocol
            self.apply(Define(definition=definition, changes_protocol=changes_protocol))

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
            InvalidRequestError: The table exists, or the definition is invalid.
        """
        if self.snapshot is not None:
            raise InvalidRequestError(f"{self.log.uri} is already a table; append or overwrite")
        self.draft.definition = None
        change = DefineTable(
            schema=schema,
            created_ms=self.clock(),
            partition_by=partition_by,
            properties=configuration or {},
            name=name,
            description=description,
        )
        self.change_table(change)

    def require_new_table(self) -> None:
        """Commit only as the table's first version.

        Raises:
            TableExistsError: The table exists.
        """
        if self.snapshot is not None:
            raise TableExistsError(self.log.uri)
        self._run.must_be_first = True

    def set_properties(self, changes: Mapping[str, str | None]) -> None:
        """Set table properties, and add the features that they need; see `SetProperties`.

        Raises:
            InvalidRequestError: A property is invalid, or rows without ids cannot be tracked.
            TableNotFoundError: There is no table, and this commit does not create it.
            UnsupportedFeatureError: We could not write the changed table.
        """
        was_tracked = ROW_TRACKING.value_in(self.metadata.configuration)
        self.change_table(SetProperties(properties=changes))
        is_tracked = ROW_TRACKING.value_in(self.metadata.configuration)
        if self.snapshot is not None and is_tracked and not was_tracked:
            self.read(TRUE, is_serial=True)  # rows of a concurrent writer have no ids
            validate_row_ids(self.snapshot)

    def set_metadata(self, metadata: Metadata, features: Iterable[str] = ()) -> None:
        """Replace the table's metadata, and add features to its protocol.

        Raises:
            InvalidRequestError: The metadata need a feature that the protocol lacks.
            UnsupportedFeatureError: We could not write the changed table.
        """
        self.change_table(SetMetadata(metadata=metadata, features=tuple(features)))

    def set_clustering(self, columns: Sequence[ColumnPath]) -> None:
        """Set the clustering columns, and add the feature.

        Args:
            columns: Physical names, each from the column down to a field of structs.

        Raises:
            InvalidRequestError: A column does not exist.
        """
        validate_clustering(tuple(columns), self.definition.physical_schema, self.log.uri)
        self.set_metadata(self.metadata, ("clustering",))
        self.apply(SetDomain(domain=clustering_domain(columns)))

    def set_domain_metadata(self, domain: DomainMetadata) -> None:
        """Set or remove a domain.

        Raises:
            InvalidRequestError: The protocol does not allow it.
        """
        validate_domain(domain, self.definition, table=self.log.uri)
        self.apply(SetDomain(domain=domain))

    def apply(self, *changes: Change) -> None:
        """Add changes to the commit; see `delta_ops.transaction.changes`."""
        for change in changes:
            self.draft.apply(change)

    def stage(self, staged: Staged) -> None:
        """Add staged files.

        Raises:
            InvalidRequestError: The files do not fit the table.
        """
        validate_staged(staged, self.definition, table=self.log.uri)
        if staged.counted:
            self.change_table(MoveMarks(counted=staged.counted))
        self.apply(Add(files=staged.adds, num_rows=staged.num_rows))

    def remove(self, files: Iterable[AddFile], *, data_change: bool = True) -> None:
        """Remove live files; with `data_change` False, staged files hold their rows."""
        now_ms, live = self.clock(), tuple(files)
        removes = tuple(tombstone(add, now_ms, data_change=data_change) for add in live)
        self.apply(Remove(files=removes, rearranged=() if data_change else live))

    def remove_rows(self, files: pa.Table) -> None:
        """Remove live files, given as rows of `arrow_schemas.ADD`."""
        self.apply(Remove(files=tuple(tombstones(files, self.clock()))))

    def replace_vector(self, file: AddFile, vector: DeletionVector | None) -> None:
        """Replace or remove the deletion vector of a live file."""
        self.apply(ReplaceVector(file=file, vector=vector, now_ms=self.clock()))

    def read(
        self, predicate: AnyPredicate, *, changes_rows: bool = False, is_serial: bool = False
    ) -> None:
        """Depend on the rows that match a predicate; see `changes.Read`.

        Raises:
            InvalidRequestError: The predicate does not fit the table.
            TableNotFoundError: There is no table, and this commit does not create it.
        """
        with naming_table(self.log.uri):
            rows = fitting_predicate(predicate, self.schema)
        self.apply(Read(predicate=rows, changes_rows=changes_rows, is_serial=is_serial))

    def set_transaction(self, txn: Txn | tuple[str, int]) -> None:
        """Record a txn, and commit only if the table does not hold it.

        Raises:
            InvalidRequestError: The commit already has a txn of the application.
        """
        identity = txn_of(txn)
        if identity.app_id in self.draft.txns:
            raise InvalidRequestError(f"txn {identity.app_id} is in the commit twice")
        self.apply(SetTxn(txn=identity))

    def done_before(self) -> CommitResult | None:
        """The result if the table holds every txn of this commit; call this before the work.

        Raises:
            StaleRunError: A newer run has overwritten what this run is about to write.
            InvalidRequestError: The table holds some of the txns and lacks others.
        """
        txns = tuple(self.draft.txns.values())
        return result_if_done(self.log, self.snapshot, txns) if txns else None

    @property
    def footprint(self) -> Footprint:
        """The rows and files that the commit has read and changes so far."""
        return self.draft.footprint(
            self.log.uri,
            isolation=self.definition.properties.isolation_level,
            reads_rows=self._operation != "vacuum",
            partition_time_zone=self.partition_time_zone,
        )

    def validate(self) -> None:
        """Reject what `commit` would reject; for a dry run.

        Raises:
            CommitConflictError: A running vacuum may delete files that the commit restores.
            InvalidRequestError: The actions break a rule of the table.
        """
        self._run.validate(self.clustering_columns if self.draft.definition else ())

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
        """Commit at the next free version.

        Args:
            operation: The reference's name: WRITE, OPTIMIZE, ...
            parameters: `operationParameters` of commitInfo.
            metrics: `operationMetrics` in addition to the counts of files, rows and bytes.
            user_metadata: Any text, stored in commitInfo.
            hooks: Steps after the commit.
            counts_files: False omits the counts of files, rows and bytes, for an operation whose
                counts have other names in the reference.
            max_attempts: Limit of versions tried; each lost race and each failure of the store
                takes one attempt.
            timeout: No attempt begins later.

        Raises:
            CommitConflictError: A concurrent commit invalidates this commit, a limit was reached,
                or a vacuum deleted staged files; nothing was committed.
            CommitStateUnknownError: The store did not report whether the commit exists; check the
                table before a rerun.
            DataFileError: Files were deleted meanwhile: files that a commit puts back, or staged
                files of a new table. The error says whether the commit exists.
            InvalidRequestError: The actions break a rule of the table.
            StaleRunError: A newer run has overwritten what this run was about to write.
            TableExistsError: Another writer created the table first, and `require_new_table` was
                called.
            TableReplacedError: The table was deleted or replaced.
        """
        if done := self.done_before():
            return done
        self.validate()
        counted = file_metrics(self.draft.files, self.draft.num_rows) if counts_files else {}
        description = Description(
            operation=operation,
            parameters=parameters or {},
            metrics={**counted, **(metrics or {})},
            user_metadata=user_metadata,
            texts=self.commit_texts,
        )
        limits = Limits(max_attempts=max_attempts, timeout_s=timeout.total_seconds())
        return self._run.commit(description, self.footprint, limits, hooks)
