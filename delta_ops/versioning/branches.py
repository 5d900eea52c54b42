"""Branches: versions with commits of their own.

A branch costs one entry in the journal of refs. No file of the table is listed, unless the base
version is so old that a vacuum may have deleted some of its files.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import date, timedelta

from msgspec.structs import replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.log.refs.branches import branch_named, find_branch
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import (
    Branch,
    Refs,
    load_refs,
    parse_ref,
    refs_journal,
    time_by,
    validate_ref_name,
    validate_table_exists,
)
from delta_ops.option_words import option
from delta_ops.transaction.branch_rules import validate_branchable
from delta_ops.versioning.lifetime import (
    given_life_ms,
    safe_life,
    validate_life,
)
from delta_ops.versioning.version_to_keep import VersionToKeep


def create_branch(
    table: TableOrPlace,
    name: str,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
    expires_in: timedelta | None = None,
    enforce_retention: bool = True,
    clock: Clock = system_clock,
) -> Branch:
    """Create a branch: a version that takes commits which main does not see.

    Vacuum and log clean-up of delta_ops keep the files of the branch. A vacuum of another engine
    does not know branches, so a branch must be published or deleted before such a vacuum may
    delete its files. After its expiry, the next vacuum of delta_ops deletes the branch.

    Args:
        table: A table's location or handle.
        name: Letters, digits and `. _ + / -`, such as `audit/2026-11-29`.
        version: The version of main that the branch begins with; the latest version if None.
        timestamp: Begin with the version of this time instead.
        ref: Begin with the version of a tag instead, such as `tag:2026-11`.
        expires_in: Lifetime, at least a minute. By default, the branch expires a day before a
            vacuum of another engine may delete the first removed file of the base version, as
            `delta.deletedFileRetentionDuration` allows.
        enforce_retention: Reject a lifetime that is longer than the default.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The name is invalid or taken, the branch would live too long or
            less than a minute, the table has row tracking or identity columns, or several of
            version, timestamp and ref were given, or the ref is a branch.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: The version cannot be read, or some of its files were deleted.
        TableBusyError: A vacuum or log clean-up may be deleting files of the version.
        TableReplacedError: The table was deleted, or another table is in its place.
        UnsupportedFeatureError: The table uses a feature that we cannot write, or a later version
            of delta_ops wrote the refs of the table.
        StorageError: The store failed. The branch may exist; list the branches.

    Examples:
        >>> branch = create_branch("lake/orders", "audit")
        >>> audit = open_branch("lake/orders", "audit")
        >>> da.delete(audit, col("id") == 1).version
        1
        >>> da.count_rows(audit), da.count_rows("lake/orders")
        (2, 3)
    """
    validate_arguments(create_branch, locals())
    validate_ref_name(name, "branch")
    log = log_of(table)
    if ref is not None and parse_ref(ref)[0] == "branch":
        raise InvalidRequestError(
            f"{log.uri}: {ref!r} is a branch, and a branch of a branch is not supported; publish "
            "that branch first, or create the branch at a version of main"
        )
    snapshot = log.snapshot(version, timestamp, ref=ref)
    kept = VersionToKeep(log=log, snapshot=snapshot, verb="branch from")
    validate_branchable(snapshot.definition, table=log.uri)
    now_ms = time_by(clock)
    is_latest = version is None and timestamp is None and ref is None
    wanted_ms = None if expires_in is None else given_life_ms(expires_in, "a branch")
    safe = safe_life(log, snapshot, is_latest=is_latest, now_ms=now_ms, wanted_ms=wanted_ms)
    life_ms = safe.longest_ms if wanted_ms is None else wanted_ms
    validate_life(life_ms, safe, snapshot, "a branch", enforce=enforce_retention)
    branch = Branch(
        id=str(uuid.uuid4()),
        name=name,
        base_version=snapshot.version,
        table_id=snapshot.metadata.id,
        created_ms=now_ms,
        expires_ms=time_by(lambda: now_ms + life_ms),
        txn_id=snapshot.txn_id,
    )
    refs_journal(log.storage).append(_Creation(version=kept, branch=branch).decide, clock)
    return branch


def open_branch(table: TableOrPlace, name: str) -> DeltaLog:
    """Open a branch: a handle that every read, write and change accepts as the table.

    Raises:
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such branch, or its base version cannot be read.
        LogCorruptError: The journal of refs, or the log, is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> audit = open_branch("lake/orders", "audit")
        >>> da.write(audit, da.to_table("lake/orders")).version
        1
        >>> da.count_rows("lake/orders", ref="branch:audit")
        6
    """
    validate_arguments(open_branch, locals())
    log = log_of(table)
    return log.on_branch(find_branch(log.storage, name))


def list_branches(table: TableOrPlace, *, timestamp: str | date | None = None) -> list[Branch]:
    """List the branches of a table, by name; expired branches too.

    Args:
        table: A table's location or handle.
        timestamp: List the branches of this time; UTC unless it has a zone.

    Raises:
        InvalidRequestError: The text is not a time.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: The journal of refs does not go back to this time.
        LogCorruptError: The journal of refs is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> [(branch.name, branch.base_version) for branch in list_branches("lake/orders")]
        [('audit', 0)]
    """
    validate_arguments(list_branches, locals())
    log = log_of(table)
    return load_refs(log.storage, log.log_directory, timestamp).named_branches


def delete_branch(
    table: TableOrPlace, name: str, *, dry_run: bool = False, clock: Clock = system_clock
) -> Branch:
    """Delete a branch with its commits, unless they were published, and return it.

    A full vacuum later deletes the files that only the branch needs. The name can be used again.

    Args:
        table: A table's location or handle.
        name: The name of the branch.
        dry_run: Delete nothing.
        clock: Milliseconds since the Unix epoch.

    Raises:
        TableNotFoundError: There is no table here.
        InvalidRequestError: There is no such branch.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed. The branch may be deleted; list the branches.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> delete_branch("lake/orders", "audit").base_version
        0
        >>> list_branches("lake/orders")
        []
    """
    validate_arguments(delete_branch, locals())
    log = log_of(table)

    deleted: list[Branch] = []

    def decide(refs: Refs) -> Change[Refs] | None:
        deleted[:] = [existing_branch(refs, name, log)]
        state = drop_branch(refs, *deleted)
        return None if dry_run else Change(state=state, text=f"delete branch {name}")

    refs_journal(log.storage).append(decide, clock)
    return deleted[0]


def rename_branch(
    table: TableOrPlace, name: str, new_name: str, *, clock: Clock = system_clock
) -> Branch:
    """Rename a branch; open handles of the branch stay valid.

    Raises:
        TableNotFoundError: There is no table here.
        InvalidRequestError: There is no such branch, or the new name is invalid or taken.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed. The branch may be renamed; list the branches.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> rename_branch("lake/orders", "audit", "audit/2026-11-29").name
        'audit/2026-11-29'
    """
    validate_arguments(rename_branch, locals())
    validate_ref_name(new_name, "branch")
    log = log_of(table)

    def decide(refs: Refs) -> Change[Refs]:
        branch = existing_branch(refs, name, log)
        _validate_free(refs, new_name, log.uri)
        renamed = replace(branch, name=new_name)  # a rebase takes the name at its end
        return Change(state=put_branch(refs, renamed), text=f"rename branch {name} to {new_name}")

    entry = refs_journal(log.storage).append(decide, clock)
    renamed = branch_named(entry.state, new_name)
    assert renamed
    return renamed


def existing_branch(refs: Refs, name: str, log: DeltaLog) -> Branch:
    """The branch of a name.

    Raises:
        TableNotFoundError: There is no table here.
        InvalidRequestError: There is no such branch.
    """
    branch = branch_named(refs, name)
    if branch is None:
        validate_table_exists(log.storage)
        raise InvalidRequestError(
            f"{log.uri}: there is no branch {name!r}; {option('list_branches')} shows the names"
        )
    return branch


def put_branch(refs: Refs, branch: Branch) -> Refs:
    """The refs with a new or changed branch."""
    return replace(refs, branches={**refs.branches, branch.id: branch})


def drop_branch(refs: Refs, *branches: Branch) -> Refs:
    """The refs without some branches, and without the branches that would replace these."""
    ids = {each.id for each in branches}
    left = {
        key: each
        for key, each in refs.branches.items()
        if key not in ids and each.replaces not in ids
    }
    return replace(refs, branches=left)


@dataclass(slots=True, kw_only=True)
class _Creation:
    """The creation of one branch."""

    version: VersionToKeep
    branch: Branch

    def decide(self, refs: Refs) -> Change[Refs]:
        """The refs with the branch."""
        branch = self.branch
        _validate_free(refs, branch.name, self.version.log.uri)
        self.version.validate_kept(refs)
        return Change(
            state=put_branch(refs, branch),
            text=f"create branch {branch.name} at version {branch.base_version}",
        )


def _validate_free(refs: Refs, name: str, table: str) -> None:
    if branch_named(refs, name) is not None:
        raise InvalidRequestError(
            f"{table}: there is a branch {name!r}; open it with {option('open_branch')}, delete "
            "it, or choose another name"
        )
