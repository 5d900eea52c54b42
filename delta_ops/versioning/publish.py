"""Publish: commits the net changes of a branch to main, in one commit.

The commit is prepared on the base version, as if the branch were one long transaction. The commit
loop therefore compares it with every commit that main received since. By default the commit depends
on all rows of the table. With `rebase` it depends on the rows that the commits of the branch read.

1. A journal entry closes the branch at the version to publish. The next version of the branch is
   then looked up. If it exists, the branch is opened again, and the next attempt includes that
   commit. Later commits to the branch fail; see `log.refs.branches`.
2. The `txnId` of the commit is computed from the branch and its version. If a publication was
   killed, or the store's answer was lost, the next publication finds the commit by its `txnId`.
   Main's log is searched only if the branch was closed before, or if the commit is rejected.
3. If the commit conflicts with main, nothing is committed, and the branch is opened again. It stays
   closed if an earlier publication may still commit, because that one has other rules.
4. A second journal entry records the version of main. If the branch was deleted before this entry,
   a vacuum may have deleted its files, so the files are looked up.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeltaOpsError,
    InvalidRequestError,
    PublishConflictError,
    TableReplacedError,
)
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.commit_file import Commit
from delta_ops.log.refs.branches import find_branch, is_rebasing
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Branch, Refs, refs_journal
from delta_ops.option_words import option
from delta_ops.protocol.predicate import TRUE
from delta_ops.transaction import DEFAULT_HOOKS, Hook, begin
from delta_ops.transaction.branch_rules import reads_of, validate_branchable
from delta_ops.transaction.changes import Read
from delta_ops.transaction.races.missing_files import find_missing, validate_put_back
from delta_ops.units import count_text
from delta_ops.versioning.branches import put_branch
from delta_ops.versioning.landed_commit import find_landed
from delta_ops.versioning.net_changes import (
    NetChanges,
    branch_commits,
    has_later_commit,
    load_branch_head,
    load_net_changes,
    stage_net_changes,
    validate_feed,
)

OPERATION = "PUBLISH BRANCH"
"""`operation` of commitInfo."""
_TURNS = 20
"""Attempts to close a branch while other writers commit to it."""
_MOST_ATTEMPTS = 1_000_000
"""Each commit that main received since the base version takes one attempt; the time is limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The result of `publish`."""

    branch: str
    branch_version: int
    """The published version of the branch."""
    version: int | None
    """The version of main that has the changes; None if the branch changes nothing."""
    already_published: bool = False
    """Whether an earlier call had published this version of the branch."""
    added_files: int = 0
    removed_files: int = 0


def publish(
    table: TableOrPlace,
    branch: str,
    *,
    expected_branch_version: int | None = None,
    rebase: bool = False,
    user_metadata: str | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> PublishResult:
    """Commit the changes of a branch to main, in one commit or not at all.

    The branch then takes no more commits; it stays readable until it is deleted. No data is read or
    written. A second call does nothing.

    Args:
        table: A table's location or handle.
        branch: The name of the branch.
        expected_branch_version: Publish only this version of the branch, which was checked before.
        rebase: Publish beside other commits on main, if they changed no row that the branch read.
            If False, main must have the rows that the branch began with.
        user_metadata: Any text, kept in commitInfo.
        hooks: Steps after the commit.
        clock: Milliseconds since the Unix epoch.

    Raises:
        PublishConflictError: Main has moved, and its commits contradict the branch; nothing was
            published.
        InvalidRequestError: The branch is at another version than expected, or its commits cannot
            be one commit: it has several commits and the change data feed is on, or it has
            replaced the table. Or the branch has expired and lost files.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such branch, or its base version cannot be read.
        CommitStateUnknownError: The store did not report whether the commit exists. Repeat the
            call.
        DeletedMeanwhileError: The branch and its files were deleted while it was published.
        TableReplacedError: The table or the branch was deleted.
        StorageError: The store failed. Repeat the call.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> _ = da.delete(open_branch("lake/orders", "audit"), col("id") == 1)
        >>> publish("lake/orders", "audit").version
        1
        >>> da.count_rows("lake/orders")
        2
    """
    validate_arguments(publish, locals())
    log = log_of(table).main
    found = find_branch(log.storage, branch)
    publication = _Publication(
        log=log,
        own=log.on_branch(found),
        branch=found,
        expected=expected_branch_version,
        rebase=rebase,
        user_metadata=user_metadata,
        hooks=hooks,
        clock=clock,
        on_event=on_event,
        id=str(uuid.uuid4()),
    )
    return publication.run()


@dataclass(slots=True, kw_only=True)
class _Publication:
    """One call of `publish`, which documents the fields."""

    log: DeltaLog
    own: DeltaLog
    """The log of the branch."""
    branch: Branch
    expected: int | None
    rebase: bool
    user_metadata: str | None
    hooks: Sequence[Hook]
    clock: Clock
    on_event: OnEvent
    id: str
    was_closed: bool = False
    """Whether an earlier publication had closed the branch, and may have committed or may still
    commit."""

    def run(self) -> PublishResult:
        head = self._close()
        if self.branch.published_version is not None:
            return self._earlier_result(self.branch.published_version)
        if head is None:
            return PublishResult(
                branch=self.branch.name, branch_version=self.branch.base_version, version=None
            )
        with self._opening_again():
            commits = branch_commits(self.own, head)
            assert self.own.base
            net = load_net_changes(self.own.base, commits)
            if self.branch.expires_ms < self.clock():
                self._validate_files_exist(net)
            # An open branch has no publication in progress; `_commit` finds one that overlaps.
            landed = self._landed_version() if self.was_closed else None
            version = self._commit(head, commits, net) if landed is None else landed
        self._record(head, net, version)
        return PublishResult(
            branch=self.branch.name,
            branch_version=head.version,
            version=version,
            already_published=landed is not None,
            added_files=len(net.adds),
            removed_files=len(net.removes),
        )

    def _close(self) -> Snapshot | None:
        """Close the branch and return the version to publish; None if it has no commits.

        A killed publication may have committed an earlier version of the branch. Then that version
        is returned. Otherwise the publication may have been killed before it saw a later commit.
        """
        for _ in range(_TURNS):
            if self.branch.published_version is not None:
                return None
            last = self.branch.last_version
            head = load_branch_head(self.own) if last is None else self.own.snapshot(last)
            self._validate_expected(head.version)
            has_later = has_later_commit(self.own, head.version)
            if head.version == self.branch.base_version and not has_later:
                return None
            self.was_closed = self.branch.last_version is not None and not is_rebasing(self.branch)
            self.branch = self._change(partial(_close_at, head.version, self.id), "close")
            if self.branch.last_version != head.version:
                continue  # another publication was first
            if not has_later_commit(self.own, head.version):
                return head
            if self.was_closed and self._landed_version() is not None:
                return head
            self._open()
        raise CommitConflictError(
            self.log.uri,
            self.branch.base_version,
            f"branch {self.branch.name!r} got other commits in each of {_TURNS} attempts to "
            "publish it",
        )

    def _validate_files_exist(self, net: NetChanges) -> None:
        """Reject an expired branch that has lost files, as vacuums of other engines delete them.

        Raises:
            InvalidRequestError: A file is gone.
        """
        assert self.own.base
        if missing := find_missing(net.adds, self.own.base):
            raise InvalidRequestError(
                f"{self.log.uri}: branch {self.branch.name!r} has expired, and "
                f"{count_text(len(missing), 'file')} of it were deleted, such as "
                f"{missing[0].path}; create another branch, and make the changes again"
            )

    def _validate_expected(self, version: int) -> None:
        if self.expected is not None and version != self.expected:
            raise InvalidRequestError(
                f"{self.log.uri}: branch {self.branch.name!r} is at version {version}, and "
                f"version {self.expected} was expected; check that version, then publish it"
            )

    def _earlier_result(self, version: int) -> PublishResult:
        last = self.branch.last_version
        assert last is not None
        self._validate_expected(last)
        return PublishResult(
            branch=self.branch.name, branch_version=last, version=version, already_published=True
        )

    @contextmanager
    def _opening_again(self) -> Iterator[None]:
        """Open the branch again after an error, unless a commit exists or may still come."""
        try:
            yield
        except CommitStateUnknownError:
            raise
        except DeltaOpsError as error:
            # An earlier publication, which was only paused, may publish with a rebase.
            others_fail = isinstance(error, PublishConflictError) and self.rebase
            if others_fail or not self.was_closed:
                with suppress(DeltaOpsError):  # the first error is raised
                    self._open()
            raise

    def _open(self) -> None:
        """Open the branch for commits, unless another publication has taken over."""

        def reopen(branch: Branch) -> Branch:
            is_ours = branch.publisher == self.id and branch.published_version is None
            return replace(branch, last_version=None, publisher=None) if is_ours else branch

        self.branch = self._change(reopen, "open")

    def _change(self, change: Callable[[Branch], Branch], verb: str) -> Branch:
        """Change the branch in the journal.

        Raises:
            TableReplacedError: The branch was deleted.
        """

        def decide(refs: Refs) -> Change[Refs] | None:
            branch = refs.branches.get(self.branch.id)
            if branch is None:
                raise TableReplacedError(self.log.uri, "had a branch that was deleted")
            changed = branch if branch.published_version is not None else change(branch)
            if changed == branch:
                return None
            text = f"{verb} branch {branch.name} at version {changed.last_version}"
            return Change(state=put_branch(refs, changed), text=text)

        entry = refs_journal(self.log.storage).append(decide, self.clock)
        return entry.state.branches[self.branch.id]

    @property
    def _txn_id(self) -> str:
        """`commitInfo.txnId` of the commit on main."""
        assert self.branch.last_version is not None
        return _txn_id(self.branch.id, self.branch.last_version)

    def _landed_version(self) -> int | None:
        """The version that an earlier publication of the same version committed."""
        assert self.branch.last_version is not None
        return find_publication(
            self.log, self.branch.id, self.branch.last_version, self.branch.base_version
        )

    def _commit(self, head: Snapshot, commits: Sequence[Commit], net: NetChanges) -> int:
        base = self.own.base
        assert base
        _validate_publishable(base, head, commits, net)
        transaction = begin(self.log, snapshot=base, clock=self.clock, on_event=self.on_event)
        stage_net_changes(transaction, base, head, net)
        transaction.apply(*self._reads(base, head, commits))
        transaction.draft.txn_id = self._txn_id
        try:
            result = transaction.commit(
                operation=OPERATION,
                parameters={
                    "branch": self.branch.name,
                    "branchId": self.branch.id,
                    "baseVersion": base.version,
                    "branchVersion": head.version,
                },
                user_metadata=self.user_metadata,
                hooks=self.hooks,
                max_attempts=_MOST_ATTEMPTS,
            )
        except CommitConflictError as error:
            # A publication that this one took over may have committed since.
            landed = self._landed_version()
            if landed is None:
                raise self._conflict(error) from error
            return landed
        assert result.version is not None
        return result.version

    def _reads(self, base: Snapshot, head: Snapshot, commits: Sequence[Commit]) -> list[Read]:
        """The rows that the publication depends on."""
        # After a change of the schema, conditions may name columns that the base version lacks.
        if not self.rebase or head.schema != base.schema:
            return [Read(predicate=TRUE, is_serial=True)]
        return [read for commit in commits for read in reads_of(commit)]

    def _conflict(self, error: CommitConflictError) -> PublishConflictError:
        cure = f"Publish it with {option('rebase', True)} if the branch does not depend on that"
        if self.rebase or error.kind not in ("concurrent append", "delete read"):
            cure = "Create another branch, and make the changes again"
        return PublishConflictError(
            error.table,
            error.version,
            error.reason,
            error.kind,
            error.evidence,
            self.branch.name,
            cure,
        )

    def _record(self, head: Snapshot, net: NetChanges, version: int) -> None:
        """Record the publication in the journal; if the branch is gone, look up its files."""
        try:
            self._change(
                lambda branch: replace(
                    branch, last_version=head.version, published_version=version
                ),
                "record publication of",
            )
        except TableReplacedError:
            validate_put_back(net.adds, head, version)


def find_publication(
    log: DeltaLog, branch_id: str, branch_version: int, base_version: int
) -> int | None:
    """The version of main that a publication committed, also if its branch was deleted.

    Args:
        branch_version: The published version of the branch.
        base_version: The base version of the branch; earlier commits are not read.

    Raises:
        LogCorruptError, StorageError: As `DeltaLog.snapshot`.
    """
    return find_landed(log, _txn_id(branch_id, branch_version), after_version=base_version)


def _txn_id(branch_id: str, branch_version: int) -> str:
    """`commitInfo.txnId` of the commit that publishes a version of a branch."""
    return str(uuid.uuid5(uuid.UUID(branch_id), f"publish {branch_version}"))


def _close_at(version: int, publisher: str, branch: Branch) -> Branch:
    """The branch with a new publisher; if it was open, it is closed at this version."""
    last = version if branch.last_version is None else branch.last_version
    return replace(branch, last_version=last, publisher=publisher)


def _validate_publishable(
    base: Snapshot, head: Snapshot, commits: Sequence[Commit], net: NetChanges
) -> None:
    """Reject a branch whose commits cannot be one commit.

    Raises:
        InvalidRequestError: With the reason.
    """
    validate_branchable(head.definition, table=head.uri)
    if head.metadata.id != base.metadata.id:
        raise InvalidRequestError(
            f"{head.uri}: the branch has replaced the table, so it cannot be published; replace "
            "the table on main"
        )
    validate_feed(base, head, commits, net, "branch")
