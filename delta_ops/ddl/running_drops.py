"""Running drops: at most one call at a time deletes the files of a table.

The file names of logs repeat, and no store can delete a file only if it is still the listed file.
After one call has finished and a new table was created, a slow call could therefore delete the new
table's log. So each call first claims the table with a file below `_delta_ops/`, which only one
call can create. The location is closed to new tables until that call has ended.

1. Claims are numbered, and the highest number counts. A claim of the same table stops other calls.
2. After a kill the claim stays, because a dead process looks like a slow process. The user decides
   with `resume`: the call creates the next number, and again only one call can do so.
3. A new claim is withdrawn if the claim that it takes over is gone: the other call has finished.
4. A claim of another table comes from a call that was killed after its last deletion; it does not
   stop this call.
5. A call whose claim is no longer the highest stops with an error.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from delta_ops.errors import StorageError, TableBusyError
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.storage.own_files import create_own

DROPS = "_delta_ops/drops"
_ALWAYS_MS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right of one call to delete the files of a table."""

    number: int
    call_id: str
    table_id: str | None
    """`metaData.id`; None if unknown."""
    begun: str
    """Start time in ISO 8601, by the machine's clock."""
    process: str
    """Process and machine, as text for people."""

    @property
    def path(self) -> str:
        """The file of the claim."""
        return f"{DROPS}/{self.number:020}.json"


@contextmanager
def claiming(
    storage: Storage, table_id: str | None, *, resume: bool, now_ms: int
) -> Iterator[Claim]:
    """Hold the only claim to delete a table.

    Args:
        storage: The storage of the table.
        table_id: `metaData.id` of the table; None if unknown.
        resume: Take over the claim of a call that was killed or failed.
        now_ms: Milliseconds since the Unix epoch.

    Raises:
        TableBusyError: Another call has a claim.
        StorageError: The store failed. The claim stays, because the store may still execute
            requests of this call.
    """
    claim = _create(storage, table_id, resume=resume, now_ms=now_ms)
    try:
        yield claim
    except StorageError:
        raise
    except Exception:
        _release(storage, claim)
        raise
    _release(storage, claim)


def validate_claim(storage: Storage, claim: Claim) -> None:
    """Stop if another call has taken over.

    Raises:
        TableBusyError: Another call has taken over.
    """
    latest = _find_latest(storage)
    if latest is None or latest.call_id != claim.call_id:
        by = f"another call of {option('drop_table')}" if latest is None else _describe(latest)
        raise TableBusyError(
            storage.uri,
            f"{by} took over while this call was still running",
            "This call stopped and left the rest to the other call. Check which files still exist",
        )


def _create(storage: Storage, table_id: str | None, *, resume: bool, now_ms: int) -> Claim:
    before = _find_latest(storage)
    if before is not None and not resume:
        is_of_another = None not in (before.table_id, table_id) and before.table_id != table_id
        if not is_of_another:
            raise _busy_error(storage, before)
    claim = Claim(
        number=1 if before is None else before.number + 1,
        call_id=str(uuid.uuid4()),
        table_id=table_id,
        begun=datetime.fromtimestamp(now_ms // 1000, UTC).isoformat(),
        process=f"process {os.getpid()} on {socket.gethostname()}",
    )
    if not create_own(storage, claim.path, json.dumps(asdict(claim)).encode()):
        raise _busy_error(storage, _load(storage, claim.number))
    if before is not None and _load(storage, before.number) != before:
        storage.delete(claim.path)
        raise _busy_error(storage, None)
    return claim


def _release(storage: Storage, claim: Claim) -> None:
    with suppress(StorageError):  # a remaining claim belongs to no table, or can be taken over
        for number in _numbers(storage):
            if number <= claim.number:
                storage.delete(f"{DROPS}/{number:020}.json")
        storage.delete_empty([DROPS], _ALWAYS_MS)


def _find_latest(storage: Storage) -> Claim | None:
    for number in reversed(_numbers(storage)):
        found = _load(storage, number)
        if found is not None:
            return found
    return None


def _numbers(storage: Storage) -> list[int]:
    names = (info.path.rpartition("/")[2] for info in storage.list_from(DROPS, ""))
    digits = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return [int(each) for each in digits if len(each) == 20 and each.isdecimal()]


def _load(storage: Storage, number: int) -> Claim | None:
    try:
        text = storage.read(f"{DROPS}/{number:020}.json")
    except FileNotFoundError:
        return None
    try:
        return Claim(**{**json.loads(text), "number": number})
    except (ValueError, TypeError):
        unknown = f"unknown, see {DROPS}/{number:020}.json"
        return Claim(number=number, call_id="", table_id=None, begun=unknown, process=unknown)


def _busy_error(storage: Storage, other: Claim | None) -> TableBusyError:
    if other is None:
        reason = f"another call of {option('drop_table')} has ended just now"
        return TableBusyError(storage.uri, reason, "Check whether the table still exists")
    return TableBusyError(
        storage.uri,
        f"{_describe(other)} has not ended",
        "Wait for it. If its process has ended without dropping the table, because it was killed "
        f"or the store failed, run the drop again with {option('resume', True)}",
    )


def _describe(claim: Claim) -> str:
    return f"another call of {option('drop_table')} (begun at {claim.begun}, {claim.process})"
