"""Vacuum commits: records a vacuum in the table's history, before and after it.

Names, parameters and metrics follow Delta Lake: VACUUM START, then VACUUM END. Neither changes a
file. START carries a txn with the version of the plan, and END a txn with the same number. A START
without an END is a vacuum that was killed or is running. The next vacuum ignores it and has its own
START and END.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.admission import validate_vacuumable
from delta_ops.maintenance.vacuum.plan import VacuumPlan
from delta_ops.protocol.properties.known import VACUUM_LOGGING
from delta_ops.protocol.table_definition import is_supported
from delta_ops.transaction import CommitResult, begin
from delta_ops.transaction.commit.hooks import DEFAULT_HOOKS, Hook, write_checksum
from delta_ops.transaction.races.vacuum_runs import (
    END,
    START,
    LoggedVacuum,
    is_visible_to_writers,
    next_run,
    run_app_id,
)

_TRIES = 3


def is_logged(snapshot: Snapshot, requested: bool | None) -> bool:
    """Whether a vacuum of this table commits: the argument, else the table property.

    Raises:
        InvalidRequestError: The property is neither true nor false.
    """
    if requested is not None:
        return requested
    try:
        return VACUUM_LOGGING.value_in(snapshot.metadata.configuration)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{snapshot.uri}: {error}") from error


class VacuumCommits:
    """The commits of one vacuum: START before files are deleted, END afterwards.

    Args:
        is_enforced: Whether a retention below the table's would have been rejected.
        specified_ms: The retention that the caller gave; None for the table's.
        user_metadata: Any text, kept in commitInfo of both.
    """

    def __init__(
        self,
        log: DeltaLog,
        *,
        is_enforced: bool,
        specified_ms: int | None,
        user_metadata: str | None,
        clock: Clock,
        on_event: OnEvent,
    ) -> None:
        self._log = log
        self._is_enforced = is_enforced
        self._specified_ms = specified_ms
        self._user_metadata = user_metadata
        self._clock = clock
        self._on_event = on_event
        self._run: LoggedVacuum | None = None

    @property
    def has_begun(self) -> bool:
        """Whether START was committed."""
        return self._run is not None

    def begin(self, snapshot: Snapshot, plan: VacuumPlan) -> bool:
        """Commit VACUUM START, unless other writers can still see an earlier START of this run.

        Returns:
            Whether a START was committed.

        Raises:
            CommitConflictError: Other writers were first in each of several attempts.
        """
        if self._run is not None and is_visible_to_writers(
            snapshot, self._run, now_ms=self._clock()
        ):
            return False
        parameters, metrics = self._start_parameters(snapshot), _start_metrics(plan)
        for attempt in range(1, _TRIES + 1):
            run = next_run(snapshot, now_ms=self._clock())
            if self._run is not None:
                run = run._replace(slot=self._run.slot)
            try:
                outcome = self._commit(snapshot, START, run, parameters, metrics)
            except CommitConflictError:
                if attempt == _TRIES:
                    raise
            else:
                if not outcome.already_committed:
                    self._run = run
                    return True
            # Another vacuum took the slot, or metadata or protocol were changed.
            snapshot = snapshot.refresh()
            validate_vacuumable(snapshot)
        raise CommitConflictError(
            self._log.uri, snapshot.version, "is one of many vacuums that start at the same time"
        )

    def end(self, snapshot: Snapshot, *, deleted: int | None, num_directories: int) -> None:
        """Commit VACUUM END.

        Args:
            deleted: How many files this process has deleted; None if it failed.
            num_directories: How many directories were listed.
        """
        assert self._run is not None
        parameters = {"status": "FAILED" if deleted is None else "COMPLETED"}
        metrics = {}
        if deleted is not None:
            metrics = {"numDeletedFiles": deleted, "numVacuumedDirectories": num_directories}
        for attempt in range(1, _TRIES + 1):
            try:
                self._commit(snapshot, END, self._run, parameters, metrics)
            except CommitConflictError:
                # A change of metadata or protocol matters only if it forbids a vacuum.
                if attempt == _TRIES:
                    raise
                snapshot = snapshot.refresh()
                validate_vacuumable(snapshot)
            else:
                return

    def _start_parameters(self, snapshot: Snapshot) -> dict[str, bool | int]:
        parameters: dict[str, bool | int] = {"retentionCheckEnabled": self._is_enforced}
        if self._specified_ms is not None:
            parameters["specifiedRetentionMillis"] = self._specified_ms
        parameters["defaultRetentionMillis"] = snapshot.properties.deleted_file_retention_ms
        return parameters

    def _commit(
        self,
        snapshot: Snapshot,
        operation: str,
        run: LoggedVacuum,
        parameters: Mapping[str, object],
        metrics: Mapping[str, int],
    ) -> CommitResult:
        phase = "start" if operation == START else "end"
        transaction = begin(
            self._log,
            snapshot=snapshot,
            operation="vacuum",
            clock=self._clock,
            on_event=self._on_event,
        )
        transaction.set_transaction((run_app_id(snapshot, phase, run.slot), run.version))
        return transaction.commit(
            operation=operation,
            parameters=parameters,
            metrics=metrics,
            counts_files=False,
            user_metadata=self._user_metadata,
            hooks=_hooks(snapshot, operation),
        )


def _start_metrics(plan: VacuumPlan) -> dict[str, int]:
    return {
        "numFilesToDelete": len(plan.files) + len(plan.leftovers),
        "sizeOfDataToDelete": plan.size_bytes,
    }


def _hooks(snapshot: Snapshot, operation: str) -> Sequence[Hook]:
    """The hooks after a commit; none if we write no checkpoints and checksums for the table."""
    if not is_supported(snapshot.definition, "write", engine=None):
        return ()
    # A checkpoint drops tombstones, which show that a vacuum is due.
    return DEFAULT_HOOKS if operation == END else (write_checksum,)
