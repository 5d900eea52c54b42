"""Net changes: reduces the commits of a branch or session to one commit, and stages it.

Source: PROTOCOL.md, "Action Reconciliation" (a file is identified by its path and its vector).

1. A file that was added and removed on the branch does not appear.
2. A file whose first action is a remove was live in the base version. So was a file that was added
   without a change of data, if the base version has it: its description was replaced.
3. A file of the base version that was removed and put back does not appear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError, LogCorruptError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.log.snapshot import advance
from delta_ops.protocol.actions import (
    AddCdcFile,
    AddFile,
    DomainMetadata,
    FileAction,
    RemoveFile,
)
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, add_files, remove_files
from delta_ops.protocol.arrow_values import TRUE_SCALAR, array_of
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.transaction import Transaction
from delta_ops.transaction.changes import (
    Add,
    AddChangeFiles,
    Define,
    Describe,
    Remove,
    ReplaceVector,
    SetBackTxns,
    SetDomain,
)

FileKey = tuple[str, str | None]
"""A canonical path, and the id of the deletion vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChanges:
    """The changes of a branch, as one commit."""

    adds: tuple[AddFile, ...]
    """Files that the base version lacks."""
    removes: tuple[RemoveFile, ...]
    """Files of the base version."""
    described: tuple[AddFile, ...]
    """Files of the base version with another description, such as statistics."""
    change_files: tuple[AddCdcFile, ...]
    txns: dict[str, int]
    """Versions by application id."""
    domains: tuple[DomainMetadata, ...]


@dataclass(slots=True, kw_only=True)
class _Touched:
    first: FileAction
    last: FileAction


def load_branch_head(own: DeltaLog) -> Snapshot:
    """The latest version of a branch, with commits that a listing does not show yet.

    Args:
        own: The log of the branch.
    """
    head = own.snapshot()
    while (commit := _read_commit(own, head.version + 1)) is not None:
        head = advance(head, [commit])
    return head


def has_later_commit(own: DeltaLog, version: int) -> bool:
    """Whether a branch has a commit after a version."""
    return _read_commit(own, version + 1) is not None


def branch_commits(own: DeltaLog, head: Snapshot) -> list[Commit]:
    """All commits of a branch up to a version.

    Raises:
        LogCorruptError: A commit is missing.
    """
    assert own.base
    versions = range(own.base.version + 1, head.version + 1)
    found: dict[int, Commit | None] = {
        each.version: each for each in _listed_commits(own, versions)
    }
    commits = [found.get(each) or _read_commit(own, each) for each in versions]
    if None in commits:
        raise LogCorruptError(
            own.uri,
            own.log_directory,
            "a commit of the branch is missing; restore it from a backup",
        )
    return [each for each in commits if each is not None]


def _listed_commits(own: DeltaLog, versions: range) -> Iterator[Commit]:
    return own.commits(versions.start, versions.stop - 1) if versions else iter(())


def _read_commit(own: DeltaLog, version: int) -> Commit | None:
    return read_commit_if_there(own.storage, own.log_directory, version)


def load_net_changes(base: Snapshot, commits: Sequence[Commit]) -> NetChanges:
    """The net changes of commits that follow a base version.

    Args:
        commits: The `branch_commits` of a branch, or the fragments of a session, ascending.
    """
    doubtful = _doubtful_files(commits, base.uri)
    known = set()
    if doubtful:
        paths = array_of({path for path, _ in doubtful}, pa.string())
        for files in base.stream_live([*ADD.names, CANONICAL_PATH]):
            named = files.filter(pc.is_in(files[CANONICAL_PATH], value_set=paths))
            known |= {_file_key(each, base.uri) for each in add_files(named.select(ADD.names))}
    return net_changes(commits, base.uri, known=doubtful & known)


def _file_key(file: FileAction, table: str) -> FileKey:
    """The identity of a file: its path and its deletion vector."""
    vector = file.deletion_vector
    return canonical_path(file.path, table), vector.unique_id if vector else None


def _doubtful_files(commits: Sequence[Commit], table: str) -> frozenset[FileKey]:
    """Files that the base version may have, although their first action is an add."""
    touched = _touched_files(commits, table)
    return frozenset(key for key, each in touched.items() if _is_doubtful(each))


def net_changes(
    commits: Sequence[Commit], table: str, *, known: Collection[FileKey] = ()
) -> NetChanges:
    """Reduce the commits of a branch to one commit.

    Args:
        commits: All commits of the branch, ascending.
        table: The root of the table.
        known: The `_doubtful_files` that the base version has.
    """
    adds: list[AddFile] = []
    removes: list[RemoveFile] = []
    described: list[AddFile] = []
    for key, each in _touched_files(commits, table).items():
        was_live = isinstance(each.first, RemoveFile) or key in known
        match each.last:
            case AddFile() as add if not was_live:
                adds.append(replace(add, data_change=True))
            case AddFile() as add if isinstance(each.first, AddFile):
                described.append(replace(add, data_change=False))
            case RemoveFile() as remove if was_live:
                removes.append(replace(remove, data_change=True))
    return NetChanges(
        adds=tuple(adds),
        removes=tuple(removes),
        described=tuple(described),
        change_files=tuple(file for commit in commits for file in commit.cdc),
        txns={txn.app_id: txn.version for commit in commits for txn in commit.transactions},
        domains=tuple({d.domain: d for commit in commits for d in commit.domains}.values()),
    )


def _touched_files(commits: Iterable[Commit], table: str) -> dict[FileKey, _Touched]:
    """The first and the last action of each file."""
    found: dict[FileKey, _Touched] = {}
    for commit in commits:
        actions: list[FileAction] = [*remove_files(commit.removes), *add_files(commit.adds)]
        for action in actions:
            key = _file_key(action, table)
            if key in found:
                found[key].last = action
            else:
                found[key] = _Touched(first=action, last=action)
    return found


def _is_doubtful(touched: _Touched) -> bool:
    return isinstance(touched.first, AddFile) and not touched.first.data_change


def stage_net_changes(
    transaction: Transaction, base: Snapshot, head: Snapshot, net: NetChanges
) -> None:
    """Add the net changes to a transaction on main."""
    if head.definition != base.definition:
        changes_protocol = head.protocol != base.protocol
        transaction.apply(Define(definition=head.definition, changes_protocol=changes_protocol))
    now_ms = transaction.clock()
    outside, adds, removes = _split_outside(net, base.uri)
    for add, remove in outside:
        file = replace(add, deletion_vector=remove.deletion_vector)
        transaction.apply(ReplaceVector(file=file, vector=add.deletion_vector, now_ms=now_ms))
    transaction.apply(
        # The files stay for the retention from now on, not from their removal on the branch.
        Remove(files=tuple(_date_removal(each, now_ms) for each in removes)),
        Add(files=tuple(adds), num_rows=sum(map(_num_records, adds))),
        Describe(files=net.described),
        AddChangeFiles(files=net.change_files),
        SetBackTxns(versions=net.txns),
        *(SetDomain(domain=domain) for domain in net.domains),
    )


def validate_feed(
    base: Snapshot, head: Snapshot, commits: Sequence[Commit], net: NetChanges, kind: str
) -> None:
    """Reject commits that the change data feed cannot show as one commit.

    Args:
        kind: "branch" or "session", for messages.

    Raises:
        InvalidRequestError: Several commits change files and have change files, or files were
            compacted.
    """
    if not (base.definition.has_change_feed or head.definition.has_change_feed):
        return
    changing = [each for each in commits if len(each.adds) or len(each.removes) or each.cdc]
    if len(changing) > 1 and net.change_files:
        raise InvalidRequestError(
            f"{head.uri}: the {kind} has {len(changing)} commits that change files, and the change "
            "data feed (delta.enableChangeDataFeed) needs the changed rows of one commit; make the "
            f"changes in one commit on another {kind}, or append and overwrite only"
        )
    if any(not _changes_data(each) for each in changing):
        raise InvalidRequestError(
            f"{head.uri}: the {kind} has compacted files, which the change data feed "
            "(delta.enableChangeDataFeed) would show as changed rows; make the changes on another "
            f"{kind}, and compact main afterwards"
        )


def _changes_data(commit: Commit) -> bool:
    """Whether all file actions of a commit change data."""
    return all(
        pc.all(pc.fill_null(actions["dataChange"], TRUE_SCALAR), min_count=0).as_py()
        for actions in (commit.adds, commit.removes)
    )


def _split_outside(
    net: NetChanges, table: str
) -> tuple[list[tuple[AddFile, RemoveFile]], list[AddFile], list[RemoveFile]]:
    """Split off files outside of the table whose deletion vector changes."""
    removed = {canonical_path(each.path, table): each for each in net.removes}
    outside: list[tuple[AddFile, RemoveFile]] = []
    adds: list[AddFile] = []
    for add in net.adds:
        path = canonical_path(add.path, table)
        if is_absolute(path) and path in removed:
            outside.append((add, removed.pop(path)))
        else:
            adds.append(add)
    return outside, adds, list(removed.values())


def _date_removal(remove: RemoveFile, now_ms: int) -> RemoveFile:
    return replace(remove, deletion_timestamp=now_ms)


def _num_records(add: AddFile) -> int:
    stats = parse_stats(add.stats)
    return (stats.num_records or 0) if stats else 0
