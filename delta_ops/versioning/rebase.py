"""Rebase: moves a branch to the latest version of main.

The net changes of the branch become one commit that follows the latest version, in the log of a new
branch. The new branch then gets the name of the old branch.

1. One journal entry closes the branch, as a publication does, and adds the new branch. The new
   branch has no name until the end, so readers do not see it, but vacuum keeps its files. The next
   version of the old branch is then looked up, so each commit is either rebased, or its writer gets
   an error.
2. The commits of main since the base version are compared with the rows that the branch read.
3. The new branch gets its commit.
4. A second journal entry replaces the branch by the new branch. It is rejected if another call has
   taken over. If a rebase was killed before this entry, the branch stays closed, and the next
   rebase or publication takes over.

A branch whose publication has begun is not rebased: its commit may still reach main, and then a
publication of the new branch would commit the same rows again.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import (
    CommitConflictError,
    DeltaOpsError,
    InvalidRequestError,
    PublishConflictError,
    TableBusyError,
    TableReplacedError,
)
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.refs.branches import REBASING, find_branch, is_rebasing
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Branch, Refs, refs_journal
from delta_ops.protocol.predicate import TRUE
from delta_ops.transaction import Transaction, begin
from delta_ops.transaction.branch_rules import reads_of
from delta_ops.transaction.changes import Read
from delta_ops.transaction.races.conflicts import find_conflict
from delta_ops.versioning.branches import drop_branch, put_branch
from delta_ops.versioning.net_changes import (
    branch_commits,
    has_later_commit,
    load_branch_head,
    load_net_changes,
    stage_net_changes,
    validate_feed,
)
from delta_ops.versioning.version_to_keep import VersionToKeep

OPERATION = "REBASE BRANCH"
"""`operation` of commitInfo."""
_TURNS = 20
"""Attempts to close a branch while other writers commit to it."""


def rebase_branch(
    table: TableOrPlace,
    branch: str,
    *,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> Branch:
    """Move a branch to the latest version of main, with its changes in one commit.

    The branch then has the rows of main with its own changes, so it can be checked again and
    published without other rows in between. No data is read or written. The expiry stays. Handles
    that were opened before take no more commits; open the branch again.

    Args:
        table: A table's location or handle.
        branch: The name of the branch.
        clock: Milliseconds since the Unix epoch.

    Raises:
        PublishConflictError: Commits of main contradict the branch, or the log lacks some of these
            commits. The branch stays as it was.
        InvalidRequestError: The branch was published, or its commits cannot be one commit, see
            `publish`.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such branch, or its base version cannot be read.
        TableBusyError: A publication of the branch has begun.
        TableReplacedError: The table or the branch was deleted.
        CommitConflictError: The branch got other commits in each attempt.
        LogCorruptError, StorageError: The store failed. Repeat the call.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> rows = da.to_table("lake/orders")
        >>> _ = da.write(open_branch("lake/orders", "audit"), rows)
        >>> _ = da.write("lake/orders", rows)
        >>> rebase_branch("lake/orders", "audit").base_version
        1
        >>> da.count_rows("lake/orders", ref="branch:audit")
        9
    """
    validate_arguments(rebase_branch, locals())
    log = log_of(table).main
    found = find_branch(log.storage, branch)
    return _Rebase(
        log=log,
        branch=found,
        latest=log.snapshot(),
        clock=clock,
        on_event=on_event,
        id=str(uuid.uuid4()),
    ).run()


@dataclass(slots=True, kw_only=True)
class _Rebase:
    """One call of `rebase_branch`, which documents the fields."""

    log: DeltaLog
    branch: Branch
    latest: Snapshot
    """The latest version of main."""
    clock: Clock
    on_event: OnEvent
    id: str
    """The id of the new branch."""

    def run(self) -> Branch:
        branch, latest = self.branch, self.latest
        _validate_rebasable(branch, self.log.uri)
        if branch.last_version is None and branch.base_version == latest.version:
            self.log.on_branch(branch)  # the base is still the same commit
            return branch
        own = self.log.on_branch(branch)
        head = self._close(own)
        try:
            self._write(own, head)
            return self._replace()
        except DeltaOpsError:
            with suppress(DeltaOpsError):  # the first error is raised
                self._give_up()
            raise

    @property
    def _publisher(self) -> str:
        return f"{REBASING}{self.id}"

    def _close(self, own: DeltaLog) -> Snapshot:
        """Close the branch, add the new branch, and return the version to rebase."""
        for _ in range(_TURNS):
            head = load_branch_head(own)
            self._begin(head.version)
            if not has_later_commit(own, head.version):
                return head
            self._give_up()
        raise CommitConflictError(
            self.log.uri,
            self.branch.base_version,
            f"branch {self.branch.name!r} got other commits in each of {_TURNS} attempts to "
            "rebase it",
        )

    def _begin(self, version: int) -> None:
        """Close the branch at a version, and add the new branch."""
        kept = VersionToKeep(log=self.log, snapshot=self.latest, verb="rebase a branch to")

        def decide(refs: Refs) -> Change[Refs]:
            known = self._find_old(refs)
            _validate_rebasable(known, self.log.uri)
            kept.validate_kept(refs)
            closed = replace(known, last_version=version, publisher=self._publisher)
            new = replace(
                known,
                id=self.id,
                base_version=self.latest.version,
                table_id=self.latest.metadata.id,
                txn_id=self.latest.txn_id,
                last_version=None,
                publisher=None,
                replaces=known.id,
            )
            left = drop_branch(refs, *_successors(refs, known))
            return Change(
                state=put_branch(put_branch(left, closed), new),
                text=f"begin to rebase branch {known.name} at version {version} to version "
                f"{new.base_version}",
            )

        refs_journal(self.log.storage).append(decide, self.clock)

    def _write(self, own: DeltaLog, head: Snapshot) -> None:
        """Commit the net changes to the new branch, if main does not contradict them."""
        base, latest = own.base, self.latest
        assert base
        commits = branch_commits(own, head)
        net = load_net_changes(base, commits)
        validate_feed(base, head, commits, net, "branch")
        if head.metadata.id != base.metadata.id:
            raise InvalidRequestError(
                f"{self.log.uri}: branch {self.branch.name!r} has replaced the table, so it cannot "
                "be rebased; create another branch"
            )
        reads = [read for commit in commits for read in reads_of(commit)]
        on_base = begin(self.log, snapshot=base, clock=self.clock, on_event=self.on_event)
        stage_net_changes(on_base, base, head, net)
        # After a change of the schema, conditions may name columns that the base version lacks.
        is_same_schema = head.schema == base.schema
        on_base.apply(*(reads if is_same_schema else [Read(predicate=TRUE, is_serial=True)]))
        self._validate_follows(on_base, base)
        if not on_base.draft.actions(0):
            return
        new = self._find_new(refs_journal(self.log.storage).load().state)
        on_latest = begin(self.log.on_branch(new), clock=self.clock, on_event=self.on_event)
        stage_net_changes(on_latest, latest, head, net)
        on_latest.apply(*reads)
        on_latest.commit(
            operation=OPERATION,
            parameters={
                "branch": self.branch.name,
                "branchId": self.branch.id,
                "baseVersion": base.version,
                "branchVersion": head.version,
            },
        )

    def _validate_follows(self, ours: Transaction, base: Snapshot) -> None:
        """Reject the rebase if a commit of main since the base version contradicts the branch.

        Raises:
            PublishConflictError: A commit does, or the commits were deleted.
        """
        commits = list(self.log.commits(base.version + 1, self.latest.version))
        if len(commits) != self.latest.version - base.version:
            reason = "commits before it were cleaned up, so their changes are unknown"
            raise self._conflict(self.latest.version, reason)
        for number, commit in enumerate(commits):
            found = find_conflict(commit, ours.footprint, base, commits[:number])
            if found is not None:
                raise self._conflict(found.version, found.reason, found.kind, found.evidence)

    def _conflict(
        self, version: int, reason: str, kind: str = "", evidence: tuple[str, ...] = ()
    ) -> PublishConflictError:
        cure = "Create another branch, and make the changes again"
        name = self.branch.name
        return PublishConflictError(
            self.log.uri, version, reason, kind, evidence, name, cure, "rebased"
        )

    def _replace(self) -> Branch:
        """Give the name of the branch to the new branch."""

        def decide(refs: Refs) -> Change[Refs]:
            known, new = self._find_old(refs), self._find_new(refs)
            if known.publisher != self._publisher:
                raise TableReplacedError(self.log.uri, "had a rebase that another call took over")
            named = replace(new, name=known.name, replaces=None)
            return Change(
                state=put_branch(drop_branch(refs, known), named),
                text=f"rebase branch {known.name} to version {new.base_version}",
            )

        state = refs_journal(self.log.storage).append(decide, self.clock).state
        return state.branches[self.id]

    def _give_up(self) -> None:
        """Drop the new branch, and open the old branch unless another call has taken over."""

        def decide(refs: Refs) -> Change[Refs] | None:
            known, new = refs.branches.get(self.branch.id), refs.branches.get(self.id)
            if known is None or new is None or new.replaces is None:
                return None
            left = drop_branch(refs, new)
            if known.publisher == self._publisher:
                left = put_branch(left, replace(known, last_version=None, publisher=None))
            return Change(state=left, text=f"give up the rebase of branch {known.name}")

        refs_journal(self.log.storage).append(decide, self.clock)

    def _find_old(self, refs: Refs) -> Branch:
        """The branch as the journal has it.

        Raises:
            TableReplacedError: It was deleted.
        """
        known = refs.branches.get(self.branch.id)
        if known is None:
            raise TableReplacedError(self.log.uri, "had a branch that was deleted")
        return known

    def _find_new(self, refs: Refs) -> Branch:
        """The new branch as the journal has it.

        Raises:
            TableReplacedError: Another rebase has dropped it.
        """
        new = refs.branches.get(self.id)
        if new is None:
            raise TableReplacedError(self.log.uri, "had a rebase that another call took over")
        return new


def _validate_rebasable(branch: Branch, table: str) -> None:
    """Reject a branch whose commits are on main, or may still get there.

    Raises:
        InvalidRequestError: The branch was published.
        TableBusyError: A publication has begun.
    """
    if branch.published_version is not None:
        raise InvalidRequestError(
            f"{table}: branch {branch.name!r} was published as version {branch.published_version}; "
            "create another branch"
        )
    if branch.last_version is not None and not is_rebasing(branch):
        raise TableBusyError(
            table,
            f"a publication of branch {branch.name!r} has begun, and its outcome is not known",
            "Publish the branch again to finish it",
        )


def _successors(refs: Refs, branch: Branch) -> list[Branch]:
    """New branches that earlier rebases of a branch have left."""
    return [each for each in refs.branches.values() if each.replaces == branch.id]
