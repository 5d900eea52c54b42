"""Log compaction: the actions of several versions once more, reconciled, in one file.

Source: PROTOCOL.md, "Log Compaction Files" and "Action Reconciliation".

Every remove stays, expired or not: it takes away a file of an older checkpoint, and without it the
file would come back for whoever reads the compaction in place of the commits. For the same reason
domains that were removed stay. We write them for engines that read them and never read them
ourselves, since nothing in one tells whether it was written so; see docs/decisions/008.

A compaction is created, never replaced, so that a run after a kill finds its work done or does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.same_table import validate_same_table, withdrawing_if_replaced
from delta_ops.log.segment import LogListing, Segment, list_log
from delta_ops.log.version.replay import Replayed, replay_commits
from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.protocol.actions import Action
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, add_files, remove_files
from delta_ops.protocol.file_names import commit_name, compaction_name
from delta_ops.protocol.json.codec import encode_commit
from delta_ops.protocol.table_definition import validate
from delta_ops.storage import FileInfo
from delta_ops.storage.own_files import create_own


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompactionPlan:
    """Which commits are to be put together; none where there are fewer than two, or where they
    have been."""

    start_version: int
    end_version: int
    commits: tuple[FileInfo, ...] = ()
    """Ascending, of each version from the first to the last, both included."""

    @property
    def has_work(self) -> bool:
        """Whether there are commits to put together."""
        return bool(self.commits)

    @property
    def file_name(self) -> str:
        """What the compaction is called in the log directory."""
        return compaction_name(self.start_version, self.end_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompactionResult:
    """What `compact_log` did."""

    plan: LogCompactionPlan
    dry_run: bool
    written: bool
    """Whether a file was written; not in a dry run, nor where it is there already."""
    num_actions: int = 0
    size_bytes: int = 0


def plan_compact_log(
    listing: LogListing,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    table: str = "",
) -> LogCompactionPlan:
    """Choose the commits.

    Args:
        listing: The log's.
        start_version: The first; the one after the newest checkpoint if None.
        end_version: The last; the latest version if None.
        table: For messages.

    Raises:
        InvalidRequestError: The versions are no range.
        VersionNotFoundError: The range ends after the latest version.
        LogCorruptError: A commit of the range is not there.
    """
    validate_arguments(plan_compact_log, locals())
    latest = -1 if listing.latest_version is None else listing.latest_version
    newest = listing.checkpoints[-1].version if listing.checkpoints else -1
    start = newest + 1 if start_version is None else start_version
    end = latest if end_version is None else end_version
    if start < 0 or (start_version is not None and end < start):
        raise InvalidRequestError(
            f"{table}: there is no range of versions from {start} to {end}; give a first version "
            "of 0 or more, and a last one that is not before it"
        )
    if end > latest:
        raise VersionNotFoundError(table, f"version {end}", f"its latest version is {latest}")
    plan = LogCompactionPlan(start_version=start, end_version=end)
    if end <= start:
        return plan
    missing = next((v for v in range(start, end + 1) if v not in listing.commits), None)
    if missing is not None:
        raise LogCorruptError(
            table,
            f"_delta_log/{commit_name(missing)}",
            f"version {missing} is missing, so that versions {start} to {end} cannot be put "
            "together; give a range of versions whose commits are there",
        )
    return replace(plan, commits=tuple(listing.commits[v] for v in range(start, end + 1)))


def compact_log(
    log: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    dry_run: bool = False,
) -> LogCompactionResult:
    """Write the compaction of a range of versions, unless it is there.

    Args:
        start_version: As for `plan_compact_log`; so is `end_version`.

    Raises:
        UnsupportedFeatureError: The table uses a feature that is unknown here.
        TableReplacedError: The table was deleted, or another stands in its place.
        InvalidRequestError, VersionNotFoundError, LogCorruptError: As `plan_compact_log`; the last
            also where a commit is malformed, or the range ends in a state that cannot be read.
    """
    validate_arguments(compact_log, locals())
    log = log_of(log)
    _validate(log.snapshot())
    listing = list_log(log.storage, log.log_directory)
    plan = plan_compact_log(listing, start_version, end_version, table=log.uri)
    if plan.has_work and _is_there(log, plan):
        plan = replace(plan, commits=())
    if not plan.has_work or dry_run:
        return LogCompactionResult(plan=plan, dry_run=dry_run, written=False)
    # What the table asked of its writers then may be more than it does today.
    end = log.snapshot(plan.end_version)
    _validate(end)
    actions = list(_actions(_replay(log, plan)))
    content = encode_commit(actions)
    validate_same_table(end)
    path = f"{log.log_directory}/{plan.file_name}"
    with withdrawing_if_replaced(end, lambda: [path]):
        is_own = create_own(log.storage, path, content)
    if not is_own:
        return LogCompactionResult(plan=plan, dry_run=False, written=False)
    return LogCompactionResult(
        plan=plan,
        dry_run=False,
        written=True,
        num_actions=len(actions),
        size_bytes=len(content),
    )


def _is_there(log: DeltaLog, plan: LogCompactionPlan) -> bool:
    try:
        log.storage.stat(f"{log.log_directory}/{plan.file_name}")
    except FileNotFoundError:
        return False
    return True


def _replay(log: DeltaLog, plan: LogCompactionPlan) -> Replayed:
    segment = Segment(version=plan.end_version, checkpoint=None, commits=plan.commits)
    try:
        return replay_commits(log.storage, segment)
    except FileNotFoundError as error:
        raise LogCorruptError(
            log.uri,
            str(error.filename),
            "this commit is gone since it was listed; a clean-up may have deleted it: give a range "
            "of versions whose commits are there",
        ) from error


def _validate(snapshot: Snapshot) -> None:
    validate(snapshot.definition, "compact", table=snapshot.uri)


def _actions(replayed: Replayed) -> Iterator[Action]:
    """All that counts, in the order of a commit; a compaction changes no data itself."""
    state = replayed.state
    if state.protocol is not None:
        yield state.protocol
    if state.metadata is not None:
        yield state.metadata
    yield from state.transactions.values()
    yield from state.domains.values()
    for remove in remove_files(replayed.tail.removes.rows.select(REMOVE.names)):
        yield replace(remove, data_change=False)
    for add in add_files(replayed.tail.adds.rows.select(ADD.names)):
        yield replace(add, data_change=False)


def _arguments(_: Request) -> dict[str, Any]:
    return {}


def _planned_figures(result: LogCompactionResult) -> dict[str, int]:
    return {"log_versions_planned": len(result.plan.commits)}


def _figures(result: LogCompactionResult) -> dict[str, int]:
    return {
        "log_versions_compacted": len(result.plan.commits) if result.written else 0,
        "log_compaction_bytes": result.size_bytes,
    }


def _json(result: LogCompactionResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "start_version": plan.start_version,
        "end_version": plan.end_version,
        "file": plan.file_name if plan.has_work else None,
        "has_work": plan.has_work,
        "written": result.written,
        "num_actions": result.num_actions,
        "size_bytes": result.size_bytes,
    }


COMPACT_LOG = OperationEntry(
    name="compact_log",
    needs="compact",
    act=compact_log,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
)
