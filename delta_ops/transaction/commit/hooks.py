"""Hooks: steps that run after a commit and cannot undo it.

A hook that fails is reported in the result and as an event; the commit remains. Interrupts and
errors of listeners propagate, with a note that the version was committed.

After the hooks, two checks follow:

1. Lost commits are reported, see `log.lost_commits`. The check reads the versions that other
   writers have committed since our last commit, and the version whose checksum was read when the
   table was opened. If nobody else writes the table, it reads nothing.
2. The table at the path must still be the table that the commit was made for. If it is, it was not
   replaced at any time during the commit. In the same way, a branch must still exist and be open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

from delta_ops.clock import Clock
from delta_ops.errors import (
    DeltaOpsError,
    SessionEndedError,
    StorageError,
    TableReplacedError,
)
from delta_ops.events import CheckpointDamaged, CommitLost, Committed, HookFailed, OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.checkpoint.incomplete import delete_stale, stale_files
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.write import create_checksum
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.log.lost_commits import LostCommit, find_lost_commits
from delta_ops.log.refs.branches import branch_id_of
from delta_ops.log.refs.side_logs import is_side_log, validate_open
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.scan_cache_write.state import (
    delete_unused,
    has_scan_cache,
    state_of_cache,
    tag_existing,
    unused_files,
)
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.log.segment import list_log
from delta_ops.log.snapshot import advance
from delta_ops.protocol.actions import Action, CommitInfo, Metadata
from delta_ops.protocol.file_names import checksum_name, commit_name
from delta_ops.protocol.properties.known import SCAN_CACHE, SCAN_CACHE_INTERVAL
from delta_ops.protocol.properties.table_properties import TableProperties
from delta_ops.storage.store_clock import store_time_ms
from delta_ops.transaction.commit.info import is_ours

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedVersion:
    """The committed version, as a hook receives it."""

    log: DeltaLog
    version: int
    properties: TableProperties
    clock: Clock
    actions: Sequence[Action]
    """All actions of the commit, commitInfo included."""
    read_snapshot: Snapshot | None
    """The snapshot that the transaction was prepared on; None for version 0."""
    winners: Sequence[Commit]
    """The commits between `read_snapshot` and this version, ascending."""

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether the version is a multiple of `delta.checkpointInterval`, as in the reference."""
        return self.version > 0 and self.version % self.properties.checkpoint_interval == 0

    @property
    def txn_id(self) -> str | None:
        """`commitInfo.txnId`."""
        return next((a.txn_id for a in self.actions if isinstance(a, CommitInfo)), None)

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the table, as text."""
        changed = next((each for each in self.actions if isinstance(each, Metadata)), None)
        if changed is not None:
            return changed.configuration
        before = self.snapshot_before()
        return {} if before is None else before.metadata.configuration

    def snapshot_before(self) -> Snapshot | None:
        """The previous version, without I/O; None for version 0."""
        return self.read_snapshot and advance(self.read_snapshot, self.winners)

    def open_snapshot(self) -> Snapshot:
        """Load the committed version; usually reads only its commit file.

        Version 0 and a version whose commit file was cleaned up are loaded in full.

        Raises:
            TableReplacedError: Another commit or another table has taken its place.
        """
        before = self.snapshot_before()
        if before is None:
            return self._whole_snapshot()
        storage, directory = self.log.storage, self.log.log_directory
        try:
            newest = storage.stat(f"{directory}/{commit_name(self.version)}")
        except FileNotFoundError:  # cleaned up since
            return self._whole_snapshot()
        commit = read_commit_if_there(storage, directory, self.version)
        if commit is None:
            return self._whole_snapshot()
        if commit.txn_id != self.txn_id:
            raise TableReplacedError(
                self.log.uri,
                f"has a different commit as version {self.version}, not that of this operation",
                f"It is unknown whether version {self.version} still exists.",
            )
        return advance(before, [commit], newest)

    def _whole_snapshot(self) -> Snapshot:
        snapshot = self.log.snapshot(self.version)
        if self.read_snapshot is None or self.read_snapshot.metadata.id == snapshot.metadata.id:
            return snapshot
        raise TableReplacedError(
            self.log.uri, "is no longer there", f"Version {self.version} was committed before."
        )


Hook = Callable[[CommittedVersion], None]


def write_checksum(committed: CommittedVersion) -> None:
    """Create the version's checksum, if its values are cheap to compute.

    If a checkpoint is due, all files are read anyway, and the values are counted from the files.
    """
    create_checksum(
        committed.log.storage,
        committed.log.log_directory,
        committed.version,
        committed.snapshot_before(),
        committed.actions,
        recount=committed.is_checkpoint_due,
    )


def checkpoint_if_due(committed: CommittedVersion) -> None:
    """Write a checkpoint at every `delta.checkpointInterval`th version, unless it exists.

    Also deletes the files of unfinished checkpoints since the previous checkpoint.
    """
    if not committed.is_checkpoint_due:
        return
    log = committed.log
    snapshot = log.snapshot(committed.version)
    if not snapshot.commits_since_checkpoint:
        return
    now_ms = committed.clock()
    write_checkpoint(snapshot, now_ms=now_ms)
    since = snapshot.checkpoint.version if snapshot.checkpoint else 0
    stale = stale_files(list_log(log.storage, log.log_directory, from_version=since), now_ms)
    if stale:
        delete_stale(log.storage, log.log_directory, stale, store_time_ms(log.storage))


def scan_cache_if_due(committed: CommittedVersion) -> None:
    """Write the scan cache of a table that has one, if it is older than the table's interval.

    It is written with a checkpoint only, and never by a commit in between. A table without a scan
    cache gets one if its property `delta_ops.scanCache` is true. Otherwise the maintenance
    operation `scan_cache` decides.
    """
    log = committed.log
    if not committed.is_checkpoint_due or is_side_log(log.log_directory):
        return
    configuration = committed.configuration
    wanted = SCAN_CACHE.value_in(configuration)
    if wanted is False or not (wanted or has_scan_cache(log.storage)):
        return
    snapshot = log.snapshot(committed.version)
    cached_version = state_of_cache(snapshot).version
    interval = SCAN_CACHE_INTERVAL.value_in(configuration)
    if cached_version is not None and snapshot.version - cached_version < interval:
        tag_existing(snapshot)
        return
    write_scan_cache(snapshot)
    if unused_files(log.storage, log.log_directory, committed.clock()):
        now_ms = store_time_ms(log.storage)
        delete_unused(log.storage, unused_files(log.storage, log.log_directory, now_ms))


DEFAULT_HOOKS: tuple[Hook, ...] = (write_checksum, checkpoint_if_due, scan_cache_if_due)


def follow_up(
    committed: CommittedVersion, hooks: Sequence[Hook], on_event: OnEvent
) -> tuple[str, ...]:
    """Report a commit and run its hooks.

    Returns:
        One sentence for each failed hook.

    Raises:
        TableReplacedError: The table was deleted or replaced during the commit.
    """
    log, version = committed.log, committed.version
    with noting_commit(log.uri, version):
        on_event(Committed(table=log.uri, version=version))
        failed = run_hooks(hooks, committed, on_event)
        _validate_in_place(committed)
    return failed


def run_hooks(
    hooks: Sequence[Hook], committed: CommittedVersion, on_event: OnEvent
) -> tuple[str, ...]:
    """Run hooks after a commit; returns one sentence for each failed hook."""
    failed = []
    lost_commits: list[LostCommit] = []

    def look_for_lost_commits(committed: CommittedVersion) -> None:
        lost_commits.extend(_lost_commits(committed.read_snapshot))

    for hook in (look_for_lost_commits, *hooks):
        try:
            hook(committed)
        except Exception as error:  # a hook cannot undo the commit
            name = getattr(hook, "__name__", repr(hook))
            failed.append(f"{name} after version {committed.version}: {error}")
            on_event(
                HookFailed(
                    table=committed.log.uri,
                    version=committed.version,
                    hook=name,
                    reason=str(error),
                )
            )
    read = committed.read_snapshot
    for damaged in read.damaged_checkpoints if read else ():
        on_event(
            CheckpointDamaged(
                table=committed.log.uri, version=damaged.version, advice=damaged.advice
            )
        )
    for lost in lost_commits:
        logger.warning("%s: %s", committed.log.uri, lost.advice)
        on_event(CommitLost(table=committed.log.uri, version=lost.version, advice=lost.advice))
    return tuple(failed)


def _lost_commits(snapshot: Snapshot | None) -> list[LostCommit]:
    if snapshot is None:
        return []
    others = takewhile(lambda mark: not is_ours(mark.engine), reversed(snapshot.marks))
    return find_lost_commits(
        snapshot.storage,
        snapshot.log_directory,
        [mark for mark in others if mark.version in snapshot.checksums],
        snapshot.state_checksum,
    )


@contextmanager
def noting_commit(table: str, version: int) -> Iterator[None]:
    """Add a note about the commit to any error; the error is all that a caller then gets."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"{table}: version {version} was committed before this")
        raise


def _validate_in_place(committed: CommittedVersion) -> None:
    try:
        if committed.read_snapshot is None:
            _validate_created(committed)
        else:
            validate_same_table(committed.read_snapshot)
            log = committed.log
            validate_open(log.storage, log.log_directory, committed.version)
    except SessionEndedError:
        raise  # no list of the session's fragments has this fragment
    except (StorageError, OSError, MemoryError):
        return  # the commit exists, and nothing shows that the table was replaced
    except DeltaOpsError as error:
        reason = f"cannot be read any more ({error})"
        if isinstance(error, TableReplacedError):
            reason = error.reason
        try:
            consequence = _take_back(committed)
        except StorageError as failure:
            consequence = (
                f"It is unknown whether version {committed.version} still exists ({failure})."
            )
        raise TableReplacedError(committed.log.uri, reason, consequence) from error


def _validate_created(committed: CommittedVersion) -> None:
    """Reject a new table that was deleted or replaced since its first commit."""
    log = committed.log
    commit = read_commit_if_there(log.storage, log.log_directory, committed.version)
    if commit is not None and commit.txn_id == committed.txn_id:
        return
    own = next(each for each in committed.actions if isinstance(each, Metadata))
    # A missing commit may have been cleaned up; then the table continues under the same id.
    if commit is not None or log.snapshot().metadata.id != own.id:
        raise TableReplacedError(log.uri, "was deleted or replaced since then")


def _take_back(committed: CommittedVersion) -> str:
    """Delete the files that the commit left in another table, unless a reader may depend on them.

    Returns:
        A sentence for the error.
    """
    storage, directory, version = (
        committed.log.storage,
        committed.log.log_directory,
        committed.version,
    )
    if branch_id_of(directory) is not None:
        return f"Version {version} was committed to the branch, and will not be published."
    # Our checksum must not be read together with another writer's commit.
    storage.delete(f"{directory}/{checksum_name(version)}")
    commit = read_commit_if_there(storage, directory, version)
    if commit is None or commit.txn_id != committed.txn_id:
        return f"The commit of version {version} was deleted with it."
    if set(list_log(storage, directory).commits) == {version}:
        # A lone commit file would prevent other writers from creating a table.
        storage.delete(f"{directory}/{commit_name(version)}")
        return f"The commit of version {version} was undone."
    return (
        f"Version {version} of the current table is this commit, which was made for the previous "
        "table: revert that version, or delete the table if you do not need it."
    )
