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
from delta_ops.clock import DAY_MS, Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.refs.branches import BRANCHES_DIRECTORY, branch_named, find_branch
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import (
    Branch,
    Refs,
    parse_ref,
    refs_journal,
    time_by,
    validate_ref_name,
)
from delta_ops.log.segment import list_log
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.transaction.branch_rules import validate_branchable
from delta_ops.units import duration_text
from delta_ops.versioning.version_to_keep import VersionToKeep

_ALWAYS_MS = 2**62
_MARGIN_MS = DAY_MS
"""A branch expires this long before another engine's vacuum may delete its files, and our own
maintenance deletes it this long after it expired."""


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
        expires_in: Lifetime of the branch. By default, the branch expires a day before a vacuum of
            another engine may delete the first removed file of the base version, as
            `delta.deletedFileRetentionDuration` allows.
        enforce_retention: Reject a lifetime that is longer than the default.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The name is invalid or taken, the branch would live too long, the table
            has row tracking or identity columns, or several of version, timestamp and ref were
            given, or the ref is a branch.
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
    life_ms = _life_ms(log, snapshot, is_latest, expires_in, enforce_retention, now_ms)
    branch = Branch(
        id=str(uuid.uuid4()),
        name=name,
        base_version=snapshot.version,
        table_id=snapshot.metadata.id,
        created_ms=now_ms,
        expires_ms=time_by(lambda: now_ms + life_ms),
    )
    refs_journal(log.storage).append(_Creation(version=kept, branch=branch).decide, clock)
    return branch


def open_branch(table: TableOrPlace, name: str) -> DeltaLog:
    """Open a branch: a handle that every read, write and change accepts as the table.

    Raises:
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


def list_branches(table: TableOrPlace) -> list[Branch]:
    """List the branches of a table, by name; expired branches too.

    Raises:
        LogCorruptError: The journal of refs is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> [(branch.name, branch.base_version) for branch in list_branches("lake/orders")]
        [('audit', 0)]
    """
    validate_arguments(list_branches, locals())
    branches = refs_journal(log_of(table).storage).load().state.branches.values()
    return sorted(branches, key=lambda branch: branch.name)


def delete_branch(table: TableOrPlace, name: str, *, clock: Clock = system_clock) -> None:
    """Delete a branch, with its commits unless they were published.

    A full vacuum later deletes the files that only the branch needs. The name can be used again.

    Raises:
        InvalidRequestError: There is no such branch.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed. The branch may be deleted; list the branches.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> delete_branch("lake/orders", "audit")
        >>> list_branches("lake/orders")
        []
    """
    validate_arguments(delete_branch, locals())
    log = log_of(table)

    def decide(refs: Refs) -> Change[Refs]:
        branch = existing_branch(refs, name, log.uri)
        return Change(state=drop_branch(refs, branch), text=f"delete branch {name}")

    refs_journal(log.storage).append(decide, clock)


def rename_branch(
    table: TableOrPlace, name: str, new_name: str, *, clock: Clock = system_clock
) -> Branch:
    """Rename a branch; open handles of the branch stay valid.

    Raises:
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
        branch = existing_branch(refs, name, log.uri)
        _validate_free(refs, new_name, log.uri)
        renamed = replace(branch, name=new_name)
        return Change(state=put_branch(refs, renamed), text=f"rename branch {name} to {new_name}")

    entry = refs_journal(log.storage).append(decide, clock)
    renamed = branch_named(entry.state, new_name)
    assert renamed
    return renamed


def delete_expired_branches(storage: Storage, clock: Clock) -> tuple[str, ...]:
    """Delete the branches that expired a day ago or earlier; returns their names.

    Their files stay until a vacuum finds that they are old enough. A commit or publication that is
    running notices that the branch was deleted.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`.
    """
    deleted: list[str] = []

    def decide(refs: Refs) -> Change[Refs] | None:
        now_ms = clock()
        expired = [each for each in refs.branches.values() if is_over(each, now_ms)]
        deleted[:] = sorted(each.name for each in expired)
        for each in expired:
            refs = drop_branch(refs, each)
        text = f"delete expired branches {', '.join(deleted)}"
        return Change(state=refs, text=text) if expired else None

    refs_journal(storage).append(decide, clock)
    return tuple(deleted)


def is_over(branch: Branch, now_ms: int) -> bool:
    """Whether the next vacuum deletes a branch, because it expired a day ago or earlier."""
    return branch.expires_ms < now_ms - _MARGIN_MS


def delete_logs_of_deleted_branches(storage: Storage, horizon_ms: int) -> None:
    """Delete the logs of branches that are not in the journal of refs, unless they are young.

    The journal is read after the listing: a branch has its entry before it has a directory, and no
    id is used twice.

    Args:
        horizon_ms: Keep a log that has a file of this time or later, because it may be in use.
            Milliseconds since the Unix epoch.

    Raises:
        LogCorruptError, UnsupportedFeatureError: As `Journal.load`.
        StorageError: The store failed.
    """
    directories = storage.list_directories(BRANCHES_DIRECTORY)
    if not directories:
        return
    branches = refs_journal(storage).load().state.branches
    for directory in directories:
        if directory.rpartition("/")[2] in branches:
            continue
        files = list(storage.list_tree(directory))
        if all(info.modified_ms < horizon_ms for info in files):
            storage.delete_many(info.path for info in files)
            inner = {info.path.rpartition("/")[0] for info in files}
            storage.delete_empty([*sorted(inner, reverse=True), directory], _ALWAYS_MS)


def existing_branch(refs: Refs, name: str, table: str) -> Branch:
    """The branch of a name.

    Raises:
        InvalidRequestError: There is no such branch.
    """
    branch = branch_named(refs, name)
    if branch is None:
        raise InvalidRequestError(
            f"{table}: there is no branch {name!r}; list_branches shows the names"
        )
    return branch


def put_branch(refs: Refs, branch: Branch) -> Refs:
    """The refs with a new or changed branch."""
    return replace(refs, branches={**refs.branches, branch.id: branch})


def drop_branch(refs: Refs, branch: Branch) -> Refs:
    """The refs without a branch."""
    left = {key: each for key, each in refs.branches.items() if key != branch.id}
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
            f"{table}: there is a branch {name!r}; open it with open_branch, delete it, or choose "
            "another name"
        )


def _life_ms(
    log: DeltaLog,
    base: Snapshot,
    is_latest: bool,
    expires_in: timedelta | None,
    enforce_retention: bool,
    now_ms: int,
) -> int:
    """How long the branch lives.

    Raises:
        InvalidRequestError: The life is negative, or longer than another engine's vacuum keeps the
            files of the branch.
    """
    latest = base if is_latest else log.snapshot()
    begun_ms = now_ms if is_latest else _replaced_ms(log, base, latest, now_ms)
    retention_ms = latest.properties.deleted_file_retention_ms
    longest_ms = begun_ms + retention_ms - _MARGIN_MS - now_ms
    life_ms = longest_ms if expires_in is None else expires_in // timedelta(milliseconds=1)
    if life_ms > 0 and (life_ms <= longest_ms or not enforce_retention):
        return life_ms
    if expires_in is not None and life_ms <= 0:
        raise InvalidRequestError(f"a branch must live for some time, not for {expires_in}")
    allowed = f"at most {duration_text(longest_ms)}" if longest_ms > 0 else "no time"
    raise InvalidRequestError(
        f"{log.uri}: a branch at version {base.version} is safe from vacuums of other engines for "
        f"{allowed}: removed files stay for {duration_text(retention_ms)} "
        "(delta.deletedFileRetentionDuration), less a day. Raise that property, or if only "
        f"delta_ops vacuums this table, give {option('expires_in')} and "
        f"{option('enforce_retention', False)}"
    )


def _replaced_ms(log: DeltaLog, base: Snapshot, latest: Snapshot, now_ms: int) -> int:
    """When the commit after the base version may have removed files; 0 if that is unknown."""
    if base.version == latest.version:
        return now_ms
    commits = list_log(log.storage, log.log_directory, from_version=base.version + 1).commits
    follower = commits.get(base.version + 1)
    return 0 if follower is None else min(follower.modified_ms, now_ms)
