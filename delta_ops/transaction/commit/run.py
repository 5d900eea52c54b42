"""Commit runs: the checks before a commit, the commit loop, and the hooks after it.

Several writers may find no table and try to create it. If the winner created the same table, a
loser commits to that table: it has read no files, so no commit of the new table contradicts what it
read. The loser is rejected if the winner's table has a row rule that was not checked on the loser's
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from delta_ops.clock import Clock
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeltaOpsError,
    InvalidRequestError,
    TableExistsError,
    TableNotFoundError,
)
from delta_ops.events import CommitAttempted, Event, OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.refs.side_logs import is_side_log
from delta_ops.log.session_place import is_of_session
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.clustering import validate_clustering
from delta_ops.protocol.properties.known import SORT_KEY
from delta_ops.protocol.row_rules import Identity, RowRule, rules_of_expressions
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.transaction.branch_rules import (
    READS,
    reads_text,
    validate_branchable,
    validate_put_back_on_branch,
    validate_session_draft,
)
from delta_ops.transaction.changes import Draft
from delta_ops.transaction.commit.hooks import CommittedVersion, Hook, follow_up
from delta_ops.transaction.commit.loop import Limits, Outcome, Pace, commit_loop
from delta_ops.transaction.commit.proposal import (
    Description,
    Proposal,
    propose,
    propose_for_existing,
)
from delta_ops.transaction.commit.session_conflicts import validate_fragment
from delta_ops.transaction.idempotency import result_if_done
from delta_ops.transaction.races.conflicts import Footprint, conflict_error, find_conflict
from delta_ops.transaction.races.missing_files import (
    validate_added,
    validate_new_table,
    validate_put_back,
)
from delta_ops.transaction.races.vacuum_runs import validate_no_vacuum
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.write_rules import validate_draft


@dataclass(kw_only=True)
class CommitRun:
    """The commit of a draft: the checks before it, the commit loop, and the hooks after it."""

    log: DeltaLog
    snapshot: Snapshot | None
    draft: Draft
    clock: Clock
    on_event: OnEvent
    pace: Pace
    begun_ms: int
    """When the snapshot was loaded, in milliseconds since the Unix epoch."""
    must_be_first: bool = False
    """Whether the commit must create the table."""
    may_be_committed: bool = False
    """Whether a version may name the staged files."""

    @property
    def definition(self) -> TableDefinition:
        """The table after the commit.

        Raises:
            TableNotFoundError: There is no table, and the commit does not create it.
        """
        definition = self.draft.definition or (self.snapshot.definition if self.snapshot else None)
        if definition is None:
            raise TableNotFoundError(self.log.uri)
        return definition

    @property
    def _is_side_log(self) -> bool:
        return is_side_log(self.log.log_directory)

    @property
    def _is_in_session(self) -> bool:
        return is_of_session(self.log.log_directory)

    def validate(self, clustered_by: tuple[ColumnPath, ...]) -> None:
        """Reject a draft that breaks a rule of the table.

        Args:
            clustered_by: The clustering columns after the commit, by physical names.

        Raises:
            CommitConflictError: A running vacuum may delete files that the commit restores.
            InvalidRequestError: The actions break a rule of the table.
        """
        draft, snapshot, definition = self.draft, self.snapshot, self.definition
        validate_draft(draft, definition, snapshot, table=self.log.uri)
        if draft.definition is not None:
            before = snapshot.schema if snapshot else None
            validate_clustering(clustered_by, definition.physical_schema, self.log.uri, before)
            if clustered_by and definition.properties.sort_key:
                raise InvalidRequestError(
                    f"{self.log.uri}: the table has a sort key ({SORT_KEY.name}), so it cannot be "
                    "clustered too; remove the property or the clustering columns first"
                )
        if self._is_in_session:
            validate_session_draft(draft, table=self.log.uri)
        if self._is_side_log:
            validate_branchable(definition, table=self.log.uri)
            assert snapshot
            validate_put_back_on_branch(draft.put_back, snapshot)
        if snapshot is not None and draft.put_back and draft.avoids_vacuum:
            validate_no_vacuum(snapshot, now_ms=self.clock())

    def commit(
        self,
        description: Description,
        footprint: Footprint,
        limits: Limits,
        hooks: Sequence[Hook],
    ) -> CommitResult:
        """Commit, and run the hooks; raises as `Transaction.commit`."""
        files_of_new_table = self._validate_files_exist()
        if self._is_in_session:
            assert self.snapshot
            validate_fragment(self.log, self.snapshot, footprint)
            hooks = ()  # a fragment is read as a commit, so it needs no checkpoint or checksum
        if self._is_side_log:
            reads = reads_text(self.draft.reads, footprint.partition_time_zone)
            description = replace(description, texts={**description.texts, READS: reads})
        proposal = propose(
            self.draft,
            self.definition,
            self.snapshot,
            description,
            footprint,
            table=self.log.uri,
            begun_ms=self.begun_ms,
            now_ms=self.clock(),
        )
        if self._is_in_session:  # the commit of the session gets a time
            proposal = replace(proposal, in_commit_timestamps=False)
        try:
            outcome = self._commit(proposal, limits)
        except DeltaOpsError as error:
            self.may_be_committed = isinstance(error, CommitStateUnknownError)
            raise
        if outcome.already_committed or outcome.version is None:
            self.may_be_committed = False
            return CommitResult(
                version=outcome.version, already_committed=True, attempts=outcome.attempts
            )
        validate_new_table(files_of_new_table, self.log, committed=outcome.version)
        committed = self._committed_version(outcome.version, outcome)
        failed = follow_up(committed, hooks, self.on_event)
        if self.snapshot is not None:
            validate_put_back(self.draft.put_back, self.snapshot, outcome.version)
        return CommitResult(
            version=outcome.version,
            already_committed=False,
            attempts=outcome.attempts,
            metrics=description.metrics,
            failed_hooks=failed,
            open_snapshot=committed.open_snapshot,
        )

    def _validate_files_exist(self) -> Sequence[AddFile]:
        """Reject staged files that were deleted meanwhile.

        Returns:
            The files of a new table, which are checked again after the commit.
        """
        added = self.draft.added
        if self.snapshot is None:
            validate_new_table(added, self.log, committed=None)
            return added
        if new := [*added, *self.draft.vectored]:
            horizon_ms = self.clock() - self.definition.properties.deleted_file_retention_ms
            validate_added(new, self.snapshot, horizon_ms=horizon_ms)
        return ()

    def _commit(self, proposal: Proposal, limits: Limits) -> Outcome:
        try:
            return self._loop(proposal, limits)
        except CommitConflictError:
            if self.snapshot is not None or not self._join_created_table():
                raise
        assert self.snapshot
        if done := result_if_done(self.log, self.snapshot, proposal.txns):
            return Outcome(version=done.version, attempts=1, already_committed=True)
        if self.must_be_first:
            raise TableExistsError(self.log.uri)
        _validate_joinable(self.log, self.snapshot, proposal.footprint)
        return self._loop(propose_for_existing(proposal, self.snapshot), limits)

    def _loop(self, proposal: Proposal, limits: Limits) -> Outcome:
        return commit_loop(
            self.log,
            self.snapshot,
            proposal,
            clock=self.clock,
            on_event=self._on_loop_event,
            limits=limits,
            pace=self.pace,
        )

    def _on_loop_event(self, event: Event) -> None:
        self.on_event(event)
        if isinstance(event, CommitAttempted):
            # Stays True until the outcome is known: an interrupt may come during the creation.
            self.may_be_committed = True

    def _join_created_table(self) -> bool:
        """Continue on a table that another writer created, if it equals the table of the draft."""
        created = self.log.snapshot_if_exists()
        if created is None or self.draft.removed:
            return False
        validate(created.definition, "write", table=self.log.uri, engine=None)
        if not self.must_be_first and not _is_same_table(self.definition, created.definition):
            return False
        self.snapshot, self.draft.definition = created, None
        return True

    def _committed_version(self, version: int, outcome: Outcome) -> CommittedVersion:
        return CommittedVersion(
            log=self.log,
            version=version,
            properties=self.definition.properties,
            clock=self.clock,
            actions=outcome.actions,
            read_snapshot=self.snapshot,
            winners=outcome.winners,
        )


def _is_same_table(ours: TableDefinition, created: TableDefinition) -> bool:
    """Whether files that were written for our definition fit the created table."""
    our_rules, their_rules = _rules(ours), _rules(created)
    return (
        ours.schema == created.schema
        and ours.partition_columns == created.partition_columns
        and their_rules <= our_rules
        # Two writers of a new identity column would assign the same values.
        and not any(isinstance(rule, Identity) for rule in our_rules)
    )


def _rules(definition: TableDefinition) -> frozenset[RowRule]:
    return frozenset(rules_of_expressions(definition.schema, definition.metadata.configuration))


def _validate_joinable(log: DeltaLog, created: Snapshot, ours: Footprint) -> None:
    """Reject a commit that one of the new table's commits invalidates.

    Raises:
        CommitConflictError: With the commit and the reason.
    """
    commits = list(log.commits(0, created.version))
    if len(commits) <= created.version:
        raise CommitConflictError(log.uri, created.version, "a commit before it was cleaned up")
    for commit in commits:
        # `_is_same_table` has already compared the resulting definition.
        changes = replace(commit, protocol=None, metadata=None)
        if conflict := find_conflict(changes, ours, created):
            raise conflict_error(conflict, log.uri)
