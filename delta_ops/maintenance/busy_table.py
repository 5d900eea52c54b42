"""Busy tables: runs an operation that depends on all rows beside frequent commits.

The first commit wins, so such an operation never succeeds if other writers commit all the time. It
can be retried until a time limit. It can also make the writers wait, if they share a lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import TypeVar

from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.option_words import option
from delta_ops.protocol.file_names import commit_name

T = TypeVar("T")

_BETWEEN_LOOKS_S = 1.0
"""Seconds between attempts while a vacuum runs."""


def retry_on_conflict(
    act: Callable[[DeltaLog], T], log: DeltaLog, *, timeout: timedelta, hold_writers: bool
) -> T:
    """Retry `act` after a commit conflict, until the time limit.

    Args:
        act: Reads the table and commits to it.
        log: The table. `act` receives it, or a handle that needs no lock while this one holds it.
        timeout: No attempt starts after this time.
        hold_writers: Hold the lock of `log`, so that writers that share it cannot commit.

    Raises:
        CommitConflictError: Another commit came first in each attempt; has the number of attempts.
        InvalidRequestError: The time limit is negative, or there is no lock.
    """
    if timeout < timedelta(0):
        raise InvalidRequestError(f"a timeout cannot be negative ({timeout}); give 0 or more")
    ends = time.monotonic() + timeout.total_seconds()
    for attempt in count(1):
        try:
            if not hold_writers:
                return act(log)
            with _holding_writers(log) as held:
                return act(held)
        except CommitConflictError as error:
            left = ends - time.monotonic()
            if left <= 0:
                raise _overtaken_error(error, attempt) from error
            if error.kind == "vacuum":
                time.sleep(min(_BETWEEN_LOOKS_S, left))
    raise AssertionError


@contextmanager
def _holding_writers(log: DeltaLog) -> Iterator[DeltaLog]:
    """Yield a handle of the table and hold the lock, so that no other writer can commit."""
    latest = log.snapshot().version
    path = f"{log.log_directory}/{commit_name(latest + 1)}"
    with log.storage.holding_lock(path) as storage:
        held = log.over(storage)
        version = held.snapshot().version
        if version != latest:  # the lock may cover that version alone
            raise CommitConflictError(
                log.uri, version, "was committed during the wait for the lock"
            )
        yield held


def _overtaken_error(error: CommitConflictError, attempts: int) -> CommitConflictError:
    if error.kind == "vacuum":
        return error
    often = f", the last of {attempts} attempts that were overtaken" if attempts > 1 else ""
    return CommitConflictError(
        error.table,
        error.version,
        f"{error.reason}{often}; on a busy table, give the operation time to retry "
        f"({option('timeout')}), or hold the other writers with a shared lock "
        f"({option('hold_writers')})",
        error.kind,
        error.evidence,
    )
