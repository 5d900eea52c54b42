"""Recorded reads: keep the predicates of reads if a table property enables it.

A read with a predicate on more than partition columns writes it to a random slot. The slots are a
fixed number of files below the table's `_delta_ops/`. A table therefore has at most `NUM_SLOTS`
recorded reads, mostly recent reads, for any number of processes. A predicate may contain values of
rows, and everyone who can read the table can read it.
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
from delta_ops.protocol.properties.known import RECORD_READS
from delta_ops.protocol.properties.property import is_on
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_parallel

READS = "_delta_ops/reads"
NUM_SLOTS = 256
_MOST_BYTES = 1 << 14
"""Longer records, with thousands of values, are not written."""


class RecordedRead(msgspec.Struct, frozen=True):
    """A recorded read of some rows."""

    predicate: str
    """Spark SQL text."""
    time_ms: int


# Made at import: two threads that decode a type for the first time crash the process.
_DECODER = msgspec.json.Decoder(RecordedRead)


def record_read(snapshot: Snapshot, predicate: Predicate | None) -> None:
    """Record a read if the table's property enables it; takes one request to the store.

    A failure to write the record is ignored, for example without write permission.
    """
    if predicate is None or not is_on(RECORD_READS, snapshot.metadata.configuration):
        return
    if columns(resolve(predicate, snapshot.schema)) <= set(snapshot.partition_columns):
        return
    read = RecordedRead(predicate=predicate_text(predicate), time_ms=system_clock())
    record = msgspec.json.encode(read)
    if len(record) <= _MOST_BYTES:
        slot = random.randrange(NUM_SLOTS)  # noqa: S311  # not a secret
        with suppress(StorageError):
            snapshot.storage.replace(f"{READS}/{slot:03d}.json", record)


def recorded_reads(storage: Storage) -> list[RecordedRead]:
    """Load the recorded reads of a table, oldest first; unreadable slots are skipped.

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
        return _DECODER.decode(storage.read(path))
    return None
