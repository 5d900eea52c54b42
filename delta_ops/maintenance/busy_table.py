"""Busy tables: an operation that depends on all rows, beside writers that do not wait for it.

Whoever commits first wins, so that where somebody commits all the time such an operation never
does. It can be begun again until a time limit, or keep the writers waiting, by the lock within
which they commit.
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
from delta_ops.protocol.file_names import commit_name

T = TypeVar("T")

_BETWEEN_LOOKS_S = 1.0
"""While a vacuum goes on."""


def insist(
    act: Callable[[DeltaLog], T], log: DeltaLog, *, timeout: timedelta, hold_writers: bool
) -> T:
    """What `act` returns, which is called again where another commit came first.

    Args:
        act: Looks at the table and commits to it.
        log: The table; `act` is given it, or a handle that needs no lock while this one holds it.
        timeout: After it `act` is not begun again.
        hold_writers: Keep writers that share the lock of `log` from committing meanwhile.

    Raises:
        CommitConflictError: With how often that was tried.
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
    """A handle of the table while nobody else can commit its next version."""
    latest = log.snapshot().version
    path = f"{log.log_directory}/{commit_name(latest + 1)}"
    with log.storage.holding_lock(path) as storage:
        held = log.over(storage)
        version = held.snapshot().version
        if version != latest:  # the lock may be one of that version alone
            raise CommitConflictError(log.uri, version, "came while the lock was waited for")
        yield held


def _overtaken_error(error: CommitConflictError, attempts: int) -> CommitConflictError:
    if error.kind == "vacuum":
        return error
    often = f", the last of {attempts} attempts that were overtaken" if attempts > 1 else ""
    return CommitConflictError(
        error.table,
        error.version,
        f"{error.reason}{often}; on a table that is busy give the operation time to try again "
        "(timeout), or let the writers wait for it by a lock that they share (hold_writers)",
        error.kind,
        error.evidence,
    )
