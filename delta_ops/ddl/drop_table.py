"""Drop table: delete a table with all files under its root.

Source: PROTOCOL.md, "Protocol Evolution" (who does not know a feature must refuse the table).

On no store can many files be deleted at once, so that a half table must never pass for a whole one:

1. a last commit gives the table a feature that nobody has: from then on no engine opens or writes
   the table, and of two who commit at once one is refused;
2. the rest of the log goes, so that no older version can be asked for;
3. all other files under the root go, listed until there are none;
4. the last commit goes, and with it the place is free for another table.

Killed at any moment, the table is either as it was or cannot be opened, and the next call finds the
last commit and goes on. Where several calls are at it, the others stop when the first is done: what
is made at the place from then on is not theirs. Links are left where they are, and so is what they
lead to.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.log.commit_file import create_commit, read_commit_if_there
from delta_ops.log.segment import list_log
from delta_ops.maintenance.admission import validate_log_deletable, validate_vacuumable
from delta_ops.protocol.actions import CommitInfo, Protocol
from delta_ops.protocol.features import FEATURES_READER_VERSION, FEATURES_WRITER_VERSION
from delta_ops.protocol.file_names import LAST_CHECKPOINT, commit_name
from delta_ops.storage import FileInfo
from delta_ops.transaction.commit_info import engine_info

DROPPED = "dropped-by-delta_ops"
"""The feature that a table has while it is deleted."""
_BATCH = 1000
_ALWAYS_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """What `drop_table` did."""

    num_files: int
    """Files under the root, those of the log among them."""
    size_bytes: int
    dry_run: bool
    resumed: bool = False
    """Whether an earlier call had begun."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted; the table cannot be opened, and the next call goes on."""


def drop_table(
    target: TableOrPlace,
    name: str,
    *,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> DropResult:
    """Delete a table with all files under its root.

    Args:
        name: The last part of the table's path, as confirmation.

    Raises:
        InvalidRequestError: The name is another one, or there is another table below the root.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table has a feature or keeps things of which we do not know
            what they mean for its files.
    """
    validate_arguments(drop_table, locals())
    log = log_of(target)
    _validate_name(log, name)
    marked = _find_mark(log)
    if marked is None:
        snapshot = log.snapshot_if_exists()
        if snapshot is None:
            raise TableNotFoundError(log.uri)
        validate_vacuumable(snapshot)
        validate_log_deletable(snapshot)
    num_files, size_bytes = _measure(log)
    result = DropResult(
        num_files=num_files, size_bytes=size_bytes, dry_run=dry_run, resumed=marked is not None
    )
    if dry_run:
        return result
    version = marked if marked is not None else _mark(log, clock)
    return DropResult(
        num_files=num_files,
        size_bytes=size_bytes,
        dry_run=False,
        resumed=marked is not None,
        failures=_delete(log, version, num_files, on_event),
    )


def _validate_name(log: DeltaLog, name: str) -> None:
    wanted = log.uri.rstrip("/").rpartition("/")[2]
    if not wanted or name != wanted:
        raise InvalidRequestError(
            f"{log.uri}: to delete this table and all files under it, give its name, {wanted!r}; "
            f"{name!r} is another one"
        )


def _find_mark(log: DeltaLog) -> int | None:
    """The version of the last commit of a table that is being deleted."""
    latest = max(list_log(log.storage, log.log_directory).commits, default=None)
    if latest is None:
        return None
    commit = read_commit_if_there(log.storage, log.log_directory, latest)
    protocol = commit.protocol if commit else None
    is_marked = protocol is not None and DROPPED in (protocol.writer_features or ())
    return latest if is_marked else None


def _mark(log: DeltaLog, clock: Clock) -> int:
    protocol = Protocol(
        min_reader_version=FEATURES_READER_VERSION,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=(DROPPED,),
        writer_features=(DROPPED,),
    )
    while True:
        version = log.snapshot().version + 1
        now_ms = clock()
        info = {
            "inCommitTimestamp": now_ms,
            "timestamp": now_ms,
            "operation": "DROP TABLE",
            "operationParameters": {},
            "engineInfo": engine_info(),
            "txnId": str(uuid.uuid4()),
        }
        try:
            create_commit(
                log.storage, log.log_directory, version, [CommitInfo(values=info), protocol]
            )
        except FileExistsError:
            # Another's commit, or this one, of which the answer was lost.
            if (found := _find_mark(log)) is not None:
                return found
            continue
        return version


def _measure(log: DeltaLog) -> tuple[int, int]:
    num_files = size_bytes = 0
    own = f"{log.log_directory}/"
    for file in log.storage.list_tree(""):
        if f"/{own}" in file.path:
            inner = file.path.partition(f"/{own}")[0]
            raise InvalidRequestError(
                f"{log.uri}: there is another table below it, in {inner}; drop or move that first"
            )
        num_files += 1
        size_bytes += file.size
    return num_files, size_bytes


def _delete(log: DeltaLog, version: int, num_files: int, on_event: OnEvent) -> tuple[str, ...]:
    storage, directory = log.storage, log.log_directory
    mark = f"{directory}/{commit_name(version)}"
    storage.delete(f"{directory}/{LAST_CHECKPOINT}")
    done = 0
    for place in (directory, ""):
        is_empty = False
        while not is_empty:  # what a writer left that was at work, the next listing shows
            is_empty = True
            for files in _batches(storage.list_tree(place), mark):
                if not any(storage.find([mark])):  # another call is done, and the place is free
                    return ()
                if failures := storage.delete_many(file.path for file in files):
                    return tuple(failures)
                is_empty = False
                done += len(files)
                total = max(num_files, done)
                on_event(Progress(table=log.uri, operation="drop", done=done, total=total))
    storage.delete(mark)
    storage.delete_empty(_empty_directories(log), _ALWAYS_MS)
    return ()


def _batches(files: Iterator[FileInfo], mark: str) -> Iterator[list[FileInfo]]:
    others = (file for file in files if file.path != mark)
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
