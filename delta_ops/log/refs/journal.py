"""Journal: a small state that many processes change, in numbered files of one directory.

1. Entry `00000000000000000001.json` is the first, and numbers are contiguous. An entry is created
   if absent and never changed, so exactly one of several writers gets a number.
2. An entry holds the whole state after it, and what was changed. So the last entry is enough to
   know the state, and each older entry shows the state of its time.
3. A writer decides from the state of the last entry. If another writer creates the next entry
   first, it decides again from that entry.
4. An entry has a random id of its writer. If the store's answer is lost, the writer recognizes its
   entry by this id.
"""

from __future__ import annotations

import random
import re
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from delta_ops.clock import DAY_MS, HOUR_MS, Clock
from delta_ops.errors import (
    DeltaOpsError,
    LogCorruptError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.storage import Storage

State = TypeVar("State")
FORMAT_VERSION = 1
"""The format of entries that this version of delta_ops reads and writes."""
_NAME = re.compile(r"(?:.*/)?([0-9]{20})\.json")
_STORE_FAILURES = 8
"""Consecutive failures before a writer gives up; the waits add up to about ten seconds."""
_LONGEST_WAIT_S = 5.0
_KEPT_ENTRIES = 100
"""Number of newest entries that are never deleted."""
LONG_JOURNAL = 2 * _KEPT_ENTRIES
"""From this number on, it is worth while to look for old entries."""
_KEPT_MS = 30 * DAY_MS
_LATE_MS = HOUR_MS
"""A writer that takes longer may have been paused while entries were deleted."""
_LISTINGS = 10
"""Listings with a gap before the journal counts as damaged."""


class Entry(msgspec.Struct, Generic[State], frozen=True, kw_only=True, omit_defaults=True):
    """The state after one change."""

    format: int
    number: int
    """From 1; 0 before the first entry."""
    id: str
    """Chosen at random by the writer."""
    time_ms: int
    """Milliseconds since the Unix epoch; never less than in the entry before."""
    change: str
    """A description of the change, for people."""
    state: State


class _Header(msgspec.Struct, frozen=True):
    format: int


_HEADERS = msgspec.json.Decoder(_Header)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[State]):
    """A change that a writer decided on."""

    state: State
    text: str
    """A description of the change, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal(Generic[State]):
    """A journal in a directory; making one does no I/O.

    Args:
        storage: The storage of the table.
        directory: Relative to the table's root.
        entries: Decodes entries. Made at import, because two threads that decode a type for the
            first time crash the process.
        empty: The state before the first entry.
    """

    storage: Storage
    directory: str
    entries: msgspec.json.Decoder[Entry[State]]
    empty: State
    sleep: Callable[[float], None] = time.sleep

    def load(self) -> Entry[State]:
        """Load the last entry; an entry with number 0 if there is none.

        Raises:
            LogCorruptError: The entry cannot be parsed.
            UnsupportedFeatureError: A later version of delta_ops wrote the entry.
            StorageError: The store failed.
        """
        return self._follow(self._load_listed())

    def _follow(self, entry: Entry[State], until_ms: int | None = None) -> Entry[State]:
        """Find the last entry, starting from one entry: a listing may show later entries late.

        Args:
            until_ms: Leave out later entries; milliseconds since the Unix epoch.
        """
        while (later := self._read_if_there(entry.number + 1)) is not None:
            if until_ms is not None and later.time_ms > until_ms:
                break
            entry = later
        return entry

    def _load_listed(self) -> Entry[State]:
        """Load the last entry that a listing shows."""
        last = 0
        for _ in range(_LISTINGS):  # a disk lists new files in any order, and a drop deletes some
            if not (numbers := self._numbers()):
                return self._nothing()
            last = numbers[-1]
            is_whole = (
                last == 1
                or numbers[-2:-1] == [last - 1]
                or self._read_if_there(last - 1) is not None  # a listing may show it late
            )
            if is_whole and (entry := self._read_if_there(last)) is not None:
                return entry
        raise LogCorruptError(
            self.storage.uri,
            self._path(last),
            "it follows no entry; delete it if it is of an earlier table, else restore the entries "
            "before it from a backup",
        )

    def load_at(self, time_ms: int) -> Entry[State]:
        """Load the last entry that was written at or before a time.

        Args:
            time_ms: Milliseconds since the Unix epoch.

        Raises:
            LogCorruptError, UnsupportedFeatureError, StorageError: As `load`.
            VersionNotFoundError: Entries of this time were deleted.
        """
        numbers = self._numbers()
        try:
            found = bisect_right(numbers, time_ms, key=lambda number: self._read(number).time_ms)
            if found or not numbers or numbers[0] == 1:
                entry = self._read(numbers[found - 1]) if found else self._nothing()
                return self._follow(entry, time_ms) if found == len(numbers) else entry
        except FileNotFoundError:  # a vacuum has just deleted old entries
            pass
        raise VersionNotFoundError(
            self.storage.uri, "the refs of this time", f"{self.directory} has later entries only"
        )

    def delete_old(self) -> None:
        """Delete entries that are 30 days older than the newest entry, but never the newest 100.

        Raises:
            StorageError: The store failed.
        """
        infos = [i for i in self.storage.list_from(self.directory, "") if _NAME.fullmatch(i.path)]
        before_ms = infos[-1].modified_ms - _KEPT_MS if infos else 0
        old = [info.path for info in infos[:-_KEPT_ENTRIES] if info.modified_ms < before_ms]
        if old:
            self.storage.delete_many(old)

    def append(self, decide: Callable[[State], Change[State] | None], clock: Clock) -> Entry[State]:
        """Append an entry with the decided state, and return it.

        Args:
            decide: Takes the state of the last entry. Called again if another writer was first. If
                it returns None, nothing is written, and the last entry is returned. Its errors are
                raised.
            clock: Milliseconds since the Unix epoch.

        Raises:
            LogCorruptError, UnsupportedFeatureError: As `load`.
            StorageError: The store failed; the entry may exist, or may appear later.
        """
        # Creating the entry finds entries that the listing does not show.
        last, entry_id, failures = self._load_listed(), str(uuid.uuid4()), 0
        begun_ms = clock()
        while True:
            change, refusal = self._decide(decide, last.state)
            if change is None:
                # Creating no entry, the writer must look for entries that the listing did not show.
                known, last = last, self._follow(last)
                if last.number > known.number:
                    continue
                if refusal is not None:
                    raise refusal
                return last
            entry = Entry(
                format=FORMAT_VERSION,
                number=last.number + 1,
                id=entry_id,
                time_ms=max(clock(), last.time_ms),
                change=change.text,
                state=change.state,
            )
            error = self._try_create(entry)
            there = entry if error is None else self._read_if_there(entry.number)
            if there is None:  # the entry may still appear, so its number and id stay the same
                failures += 1
                if failures == _STORE_FAILURES:
                    assert error
                    raise error
                self.sleep(random.random() * min(0.1 * 2**failures, _LONGEST_WAIT_S))  # noqa: S311
            elif there.id == entry_id:
                if abs(clock() - begun_ms) < _LATE_MS or self._is_in_place(there):
                    return there
                self.storage.delete(self._path(there.number))
                last, failures, begun_ms = self._load_listed(), 0, clock()
            else:
                last, failures = self._follow(there), 0

    @staticmethod
    def _decide(
        decide: Callable[[State], Change[State] | None], state: State
    ) -> tuple[Change[State] | None, DeltaOpsError | None]:
        """The change, or the error of a writer that refuses the state."""
        try:
            return decide(state), None
        except DeltaOpsError as error:
            return None, error

    def _is_in_place(self, entry: Entry[State]) -> bool:
        """Whether an entry has the number after the entries before it, not that of a deleted one.

        An entry is never older than the entry before it, and deleted entries are old.
        """
        path = self._path(entry.number)
        listed = self.storage.list_from(self.directory, path.rpartition("/")[2])
        if all(info.path == path for info in listed):
            return True
        follower = self._read_if_there(entry.number + 1)
        return follower is not None and follower.time_ms >= entry.time_ms

    def _try_create(self, entry: Entry[State]) -> StorageError | None:
        """Create the entry; returns the error if another writer or nobody may have created it."""
        path = self._path(entry.number)
        try:
            self.storage.create(path, msgspec.json.encode(entry))
        except FileExistsError:
            return StorageError(
                self.storage.locate(path),
                "created",
                "the store reported that it exists, then that it does not; run the operation again",
            )
        except StorageError as error:
            return error
        return None

    def _nothing(self) -> Entry[State]:
        return Entry(format=FORMAT_VERSION, number=0, id="", time_ms=0, change="", state=self.empty)

    def _numbers(self) -> list[int]:
        """Numbers of all entries, ascending."""
        names = (_NAME.fullmatch(i.path) for i in self.storage.list_from(self.directory, ""))
        return [int(name[1]) for name in names if name]

    def _path(self, number: int) -> str:
        return f"{self.directory}/{number:020}.json"

    def _read_if_there(self, number: int) -> Entry[State] | None:
        try:
            return self._read(number)
        except FileNotFoundError:
            return None

    def _read(self, number: int) -> Entry[State]:
        path = self._path(number)
        data = self.storage.read(path)
        try:
            if _HEADERS.decode(data).format > FORMAT_VERSION:
                raise UnsupportedFeatureError(
                    self.storage.uri, (f"a later format of {self.directory}",), "changed"
                )
            entry = self.entries.decode(data)
        except msgspec.MsgspecError as error:
            raise LogCorruptError(
                self.storage.uri, path, f"{error}; restore the file from a backup"
            ) from error
        if entry.number != number:
            raise LogCorruptError(
                self.storage.uri, path, f"it holds entry {entry.number}; restore it from a backup"
            )
        return entry
