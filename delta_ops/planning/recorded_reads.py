"""Recorded reads: which rows of a table are asked for, kept where its property asks for it.

A read with a predicate on other than partition columns leaves it in one of a fixed number of slots,
drawn by lot, which are files below the table's `_delta_ops/`. So a table has at most `NUM_SLOTS`
records, of recent reads more than of old ones, however many processes read it. A predicate has
values of rows; they are as visible as the table.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial

import msgspec

from delta_ops.clock import system_clock
from delta_ops.errors import StorageError
from delta_ops.log import Snapshot
from delta_ops.protocol.predicate import Predicate, columns, resolve
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.properties.known import RECORD_READS, is_on
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_parallel

READS = "_delta_ops/reads"
NUM_SLOTS = 256
_MOST_BYTES = 1 << 14
"""A longer record, of thousands of values, is none."""


class RecordedRead(msgspec.Struct, frozen=True):
    """A read that asked for some rows."""

    predicate: str
    """As text of Spark SQL."""
    time_ms: int


def record_read(snapshot: Snapshot, predicate: Predicate | None) -> None:
    """Record a read if the table asks for it; one request of the store.

    A record that cannot be written, as by who may only read the table, is none.
    """
    if predicate is None or not is_on(RECORD_READS, snapshot.metadata.configuration):
        return
    if columns(resolve(predicate, snapshot.schema)) <= set(snapshot.partition_columns):
        return
    read = RecordedRead(predicate=predicate_text(predicate), time_ms=system_clock())
    record = msgspec.json.encode(read)
    if len(record) <= _MOST_BYTES:
        slot = random.randrange(NUM_SLOTS)  # noqa: S311  # a lot, no secret
        with suppress(StorageError):
            snapshot.storage.replace(f"{READS}/{slot:03d}.json", record)


def recorded_reads(storage: Storage) -> list[RecordedRead]:
    """The records of a table, oldest first; those that cannot be understood are left out.

    Raises:
        StorageError: The store failed.
    """
    paths = [
        info.path
        for info in storage.list_from(READS, "")
        if info.path.endswith(".json") and info.size <= _MOST_BYTES
    ]
    found = [read for read in run_parallel(partial(_read, storage), paths) if read]
    return sorted(found, key=lambda read: read.time_ms)[-NUM_SLOTS:]


def _read(storage: Storage, path: str) -> RecordedRead | None:
    with suppress(FileNotFoundError, msgspec.MsgspecError):
        return msgspec.json.decode(storage.read(path), type=RecordedRead)
    return None
