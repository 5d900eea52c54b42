"""Written files: new files of a table from several threads; all of them stay, or none."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TypeVar

from delta_ops.arrow.write.data_file import discard
from delta_ops.protocol.actions import AddFile
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_ahead

LOCAL_WRITES = max(2, os.cpu_count() or 1)
"""Number of local files that are written at once: encoding takes most of the time."""

R = TypeVar("R")


@contextmanager
def all_or_none(storage: Storage) -> Iterator[WrittenFiles]:
    """Collect written files, and delete them if the context fails."""
    files = WrittenFiles(storage)
    try:
        yield files
    except BaseException:  # including an interrupt, which would leave unreferenced files
        files.abandon()
        raise


class WrittenFiles:
    """The files that threads have written, until a thread fails.

    A thread that finishes a file after that deletes it.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._adds: list[AddFile] = []
        self._failures: list[BaseException] = []
        self._is_abandoned = False

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """The files, in the order of completion."""
        return tuple(self._adds)

    @property
    def is_over(self) -> bool:
        """Whether new files are useless, because none will stay."""
        return self._is_abandoned or bool(self._failures)

    def keep(self, adds: Sequence[AddFile]) -> None:
        """Keep finished files, or delete them if a thread has given up."""
        with self._lock:
            if not self._is_abandoned:
                self._adds += adds
                return
        discard(self._storage, adds)

    def write_all(
        self,
        writes: Iterable[tuple[int, Callable[[], R]]],
        max_bytes: int,
        max_calls: int,
        max_threads: int | None = None,
        *,
        on_written: Callable[[R], object] | None = None,
        on_failure: Callable[[], object] | None = None,
    ) -> list[R]:
        """Run the writes and return their results in order; raises an interrupt, or the first
        error.

        Args:
            writes: The bytes that each write holds, and a function that writes and keeps its files.
                Functions run in threads; none starts after a failure.
            max_bytes: Limit for the bytes held at once; see `run_ahead`.
            max_calls: As for `run_ahead`; `max_threads` too.
            on_written: Called with each result, in order, until a write fails.
            on_failure: Called by each thread whose write has failed.
        """
        calls = (
            (num_bytes, partial(self._attempt, write, on_failure)) for num_bytes, write in writes
        )
        with closing(run_ahead(calls, max_bytes, max_calls, max_threads)) as results:
            returned = []
            for each in results:
                if each is not None:
                    returned.append(each[0])
                    if on_written is not None and not self.is_over:
                        on_written(each[0])
        if self._failures:
            # An interrupt of this thread may have caused the errors of other threads.
            interrupts = (each for each in self._failures if not isinstance(each, Exception))
            raise next(interrupts, self._failures[0])
        return returned

    def abandon(self) -> None:
        """Delete written files, and files that are still being written."""
        with self._lock:
            self._is_abandoned = True
            adds, self._adds = self._adds, []
        discard(self._storage, adds)

    def _attempt(
        self, write: Callable[[], R], on_failure: Callable[[], object] | None
    ) -> tuple[R] | None:
        if self.is_over:
            return None
        try:
            return (write(),)
        except BaseException as error:
            self._failures.append(error)
            if on_failure is not None:
                on_failure()
            return None
