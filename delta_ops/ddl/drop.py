"""Drop table: delete a table with all files under its root.

Source: PROTOCOL.md, "Protocol Evolution" (a client that lacks a feature must reject the table).

No store deletes many files atomically. The order of steps ensures that nobody reads a table with
missing files:

1. A last commit adds a feature that no engine has. From then on no engine opens or writes the
   table, and a concurrent commit loses the race.
2. The rest of the log is deleted, so that no older version can be read.
3. All other files under the root are deleted, until a listing is empty.
4. The last commit is deleted, and the location is free for another table.

Only one call at a time does this (see `running_drops`), and the last commit carries the id of the
table. Each deleted file therefore belongs to the table of the call. If the call is killed, the
table is either unchanged or cannot be opened, and a call with `resume` finds the last commit and
continues. Links and their targets stay.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.ddl.running_drops import DROPS, Claim, claiming, validate_claim
from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    TableReplacedError,
)
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.commit_file import Commit, create_commit, read_commit_if_there
from delta_ops.log.refs.refs import refs_journal
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.segment import list_log
from delta_ops.log.version.indexes.definitions import INDEXES_DIRECTORY
from delta_ops.maintenance.admission import validate_log_deletable, validate_vacuumable
from delta_ops.option_words import option
from delta_ops.protocol.actions import CommitInfo, Protocol
from delta_ops.protocol.features import FEATURES_READER_VERSION, FEATURES_WRITER_VERSION
from delta_ops.protocol.file_names import LAST_CHECKPOINT, commit_name
from delta_ops.storage import FileInfo
from delta_ops.transaction.commit.info import engine_info

DROPPED = "dropped-by-delta_ops"
"""The feature of a table that is being deleted."""
_TABLE_ID = "tableId"
_BATCH = 1000
_ALWAYS_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """The result of `drop_table`."""

    num_files: int
    """Number of files under the root, including the log."""
    size_bytes: int
    dry_run: bool
    resumed: bool = False
    """Whether an earlier call had begun the drop."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted; the table cannot be opened, and the next call continues."""


def drop_table(
    target: TableOrPlace,
    name: str,
    *,
    resume: bool = False,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> DropResult:
    """Delete a table with all files under its root.

    Args:
        name: The last part of the table's path, as confirmation.
        resume: Continue a drop that was killed or that failed because of the store. The earlier
            process must have ended: this call does not stop it.

    Raises:
        InvalidRequestError: The name does not match, there is another table below the root, or
            the table has branches that are not published, or sessions that have not ended.
        TableBusyError: Another call has not ended, or took over from this call.
        TableNotFoundError: There is no table.
        TableReplacedError: The table was deleted or replaced since this call began.
        UnsupportedFeatureError: The table has a feature or contents unknown to us, so we do not
            know which files belong to it.

    Examples:
        >>> drop_table("lake/orders", "orders", dry_run=True).num_files > 0
        True
        >>> _ = drop_table("lake/orders", "orders")
        >>> DeltaLog("lake/orders").exists()
        False
    """
    validate_arguments(drop_table, locals())
    log = log_of(target)
    _validate_name(log, name)
    found = _find_last_commit(log)
    table_id = _open(log).metadata.id if found is None else _table_id_of(found)
    num_files, size_bytes = _measure(log)
    failures: tuple[str, ...] = ()
    if not dry_run:
        with claiming(log.storage, table_id, resume=resume, now_ms=clock()) as claim:
            last = _find_or_create_last_commit(log, table_id, clock)
            failures = _delete(log, last, claim, num_files, on_event)
    return DropResult(
        num_files=num_files,
        size_bytes=size_bytes,
        dry_run=dry_run,
        resumed=found is not None,
        failures=failures,
    )


def _open(log: DeltaLog) -> Snapshot:
    """Load the latest version, and validate that the table may be deleted."""
    snapshot = log.snapshot_if_exists()
    if snapshot is None:
        raise TableNotFoundError(log.uri)
    validate_vacuumable(snapshot)
    validate_log_deletable(snapshot)
    _validate_no_refs(log)
    return snapshot


def _validate_no_refs(log: DeltaLog) -> None:
    """Reject a table with branches or sessions whose commits would be lost, or with releases."""
    refs = refs_journal(log.storage).load().state
    if refs.sessions:
        raise InvalidRequestError(
            f"{log.uri}: the table has sessions that have not ended ({', '.join(refs.sessions)}); "
            "commit or abandon them, then drop the table"
        )
    names = sorted(e.name for e in refs.named_branches if e.published_version is None)
    if names:
        raise InvalidRequestError(
            f"{log.uri}: the table has branches that are not published ({', '.join(names)}); "
            f"publish them or delete them with {option('delete_branch')}, then drop the table"
        )
    if refs.holds:
        sets = sorted({each.release_set for each in refs.holds.values()})
        raise InvalidRequestError(
            f"{log.uri}: releases of {', '.join(sets)} have versions of the table; delete these "
            f"releases with {option('delete_releases')}, then drop the table"
        )


def confirmation_of(log: DeltaLog) -> str:
    """The name that confirms a drop: the last part of the table's path."""
    return log.uri.rstrip("/").rpartition("/")[2]


def _validate_name(log: DeltaLog, name: str) -> None:
    wanted = confirmation_of(log)
    if not wanted or name != wanted:
        raise InvalidRequestError(
            f"{log.uri}: to delete this table and all files under it, give its name, {wanted!r}; "
            f"{name!r} is not its name"
        )


def _find_last_commit(log: DeltaLog) -> Commit | None:
    """Find the last commit of a table that is being deleted; None for any other table."""
    latest = max(list_log(log.storage, log.log_directory).commits, default=None)
    if latest is None:
        return None
    commit = read_commit_if_there(log.storage, log.log_directory, latest)
    protocol = commit.protocol if commit else None
    is_last = protocol is not None and DROPPED in (protocol.writer_features or ())
    return commit if is_last else None


def _table_id_of(last: Commit) -> str | None:
    """`metaData.id` of the table; None if an older delta_ops wrote the last commit."""
    assert last.info
    parameters = last.info.values.get("operationParameters")
    found = parameters.get(_TABLE_ID) if isinstance(parameters, dict) else None
    return found if isinstance(found, str) else None


def _find_or_create_last_commit(log: DeltaLog, table_id: str | None, clock: Clock) -> Commit:
    """Find the last commit of the table with this id, or create it."""
    refused = None
    while True:
        if (found := _find_last_commit(log)) is not None:
            _validate_same(log, _table_id_of(found), table_id)
            return found
        snapshot = log.snapshot_if_exists()
        if snapshot is None:
            raise TableReplacedError(log.uri, "is gone")
        _validate_same(log, snapshot.metadata.id, table_id)
        validate_vacuumable(snapshot)
        validate_log_deletable(snapshot)
        if refused == snapshot.version + 1:  # its name is taken, and no commit has appeared
            file = f"{log.log_directory}/{commit_name(refused)}"
            raise LogCorruptError(log.uri, file, "it exists and is not a commit file; move it away")
        _create_last_commit(log, snapshot, clock())
        refused = snapshot.version + 1


def _validate_same(log: DeltaLog, found: str | None, wanted: str | None) -> None:
    if found != wanted:
        raise TableReplacedError(log.uri, "was replaced by another table")


def _create_last_commit(log: DeltaLog, snapshot: Snapshot, now_ms: int) -> None:
    """Create the last commit after a version, unless another commit comes first."""
    protocol = Protocol(
        min_reader_version=FEATURES_READER_VERSION,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=(DROPPED,),
        writer_features=(DROPPED,),
    )
    info = {
        "inCommitTimestamp": now_ms,
        "timestamp": now_ms,
        "operation": "DROP TABLE",
        "operationParameters": {_TABLE_ID: snapshot.metadata.id},
        "engineInfo": engine_info(),
        "txnId": str(uuid.uuid4()),
    }
    version = snapshot.version + 1
    try:
        create_commit(log.storage, log.log_directory, version, [CommitInfo(values=info), protocol])
    except FileExistsError:
        return  # another writer's commit, or this commit after a lost response
    try:
        validate_same_table(snapshot)
    except (TableReplacedError, LogCorruptError) as error:  # a new table may end before this commit
        log.storage.delete(f"{log.log_directory}/{commit_name(version)}")
        raise TableReplacedError(log.uri, "was replaced by another table") from error


def _measure(log: DeltaLog) -> tuple[int, int]:
    num_files = size_bytes = 0
    own = f"{log.log_directory}/"
    for file in log.storage.list_tree(""):
        if f"/{own}" in file.path and not file.path.startswith(f"{INDEXES_DIRECTORY}/"):
            inner = file.path.partition(f"/{own}")[0]
            raise InvalidRequestError(
                f"{log.uri}: it contains another table, in {inner}; drop or move that table first"
            )
        num_files += 1
        size_bytes += file.size
    return num_files, size_bytes


def _delete(
    log: DeltaLog, last: Commit, claim: Claim, num_files: int, on_event: OnEvent
) -> tuple[str, ...]:
    storage, directory = log.storage, log.log_directory
    last_path = f"{directory}/{commit_name(last.version)}"
    done = 0
    _validate_own(log, last, claim)
    storage.delete(f"{directory}/{LAST_CHECKPOINT}")
    for place in (directory, ""):
        is_empty = False
        while not is_empty:  # the next listing shows files that a running writer has added
            is_empty = True
            for files in _batches(storage.list_tree(place), last_path):
                _validate_own(log, last, claim)
                if failures := storage.delete_many(file.path for file in files):
                    return tuple(failures)
                is_empty = False
                done += len(files)
                total = max(num_files, done)
                on_event(Progress(table=log.uri, operation="drop", done=done, total=total))
    storage.delete_empty(_empty_directories(log), _ALWAYS_MS)
    _validate_own(log, last, claim)
    storage.delete(last_path)
    storage.delete_empty([directory], _ALWAYS_MS)
    return ()


def _validate_own(log: DeltaLog, last: Commit, claim: Claim) -> None:
    """Stop if the files may belong to another table or to another call."""
    validate_claim(log.storage, claim)
    found = read_commit_if_there(log.storage, log.log_directory, last.version)
    if found is None or found.txn_id != last.txn_id:
        raise TableReplacedError(
            log.uri, "was deleted by someone else meanwhile", "This call stopped."
        )


def _batches(files: Iterator[FileInfo], last_path: str) -> Iterator[list[FileInfo]]:
    """Files to delete, without the last commit and the claims of running drops."""
    others = (f for f in files if f.path != last_path and not f.path.startswith(f"{DROPS}/"))
    while batch := list(islice(others, _BATCH)):
        yield batch


def _empty_directories(log: DeltaLog) -> list[str]:
    found: list[str] = []

    def note(paths: Sequence[str]) -> Sequence[str]:
        found.extend(path.rstrip("/") for path in paths if path.endswith("/"))
        return paths

    for _ in log.storage.list_tree("", note):
        pass
    return found
