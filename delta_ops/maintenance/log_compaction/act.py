"""Log compaction: writes the reconciled actions of several versions to one file.

Source: PROTOCOL.md, "Log Compaction Files" and "Action Reconciliation".

Every remove stays, expired or not: it hides a file of an older checkpoint. Without the remove, the
file would come back for readers that use the compaction in place of the commits. Removed domains
stay for the same reason. We write compactions for engines that read them. We never read them,
because a compaction does not show whether its writer kept these actions; see docs/decisions/008.

A compaction is created and never replaced, so a run after a kill finds the file or writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delta_ops.arguments import validate_arguments
from delta_ops.errors import LogCorruptError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.same_table import validate_same_table, withdrawing_if_replaced
from delta_ops.log.segment import Segment, list_log
from delta_ops.log.version.replay import Replayed, replay_commits
from delta_ops.maintenance.log_compaction.plan import LogCompactionPlan, plan_compact_log
from delta_ops.protocol.actions import Action
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, add_files, remove_files
from delta_ops.protocol.json.codec import encode_commit
from delta_ops.protocol.table_definition import validate
from delta_ops.storage.own_files import create_own


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompactionResult:
    """The result of `compact_log`."""

    plan: LogCompactionPlan
    dry_run: bool
    written: bool
    """Whether a file was written; False in a dry run, or if the file exists."""
    num_actions: int = 0
    size_bytes: int = 0


def compact_log(
    log: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    dry_run: bool = False,
) -> LogCompactionResult:
    """Write the compaction of a range of versions, if it does not exist.

    Args:
        start_version: As for `plan_compact_log`; so is `end_version`.

    Raises:
        UnsupportedFeatureError: The table uses a feature that is unknown here.
        TableReplacedError: The table was deleted, or another table is in its place.
        InvalidRequestError, VersionNotFoundError, LogCorruptError: As `plan_compact_log`.
            LogCorruptError also if a commit is malformed, or the range ends in a state that cannot
            be read.

    Examples:
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> compact_log("lake/orders", 0, 1).written
        True
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
    # The table may have required more features of its writers at that version.
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
            "this commit was deleted after it was listed, perhaps by a log cleanup: give a range "
            "of versions whose commits exist",
        ) from error


def _validate(snapshot: Snapshot) -> None:
    validate(snapshot.definition, "compact", table=snapshot.uri)


def _actions(replayed: Replayed) -> Iterator[Action]:
    """The reconciled actions in the order of a commit, with `dataChange` false."""
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
