"""Written files: new files of a table, written by several threads; all of them stay, or none."""

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
"""Files of a disk that are written at once: encoding takes longest."""

R = TypeVar("R")


@contextmanager
def all_or_none(storage: Storage) -> Iterator[WrittenFiles]:
    """Files that are deleted again if what is done with them fails."""
    files = WrittenFiles(storage)
    try:
        yield files
    except BaseException:  # an interrupt too would leave files that nobody names
        files.give_up()
        raise


class WrittenFiles:
    """The files that threads have written, until somebody gives up.

    A file that is finished later is deleted by the thread that wrote it.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._adds: list[AddFile] = []
        self._failures: list[BaseException] = []
        self._is_given_up = False

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """The files, in the order in which they were finished."""
        return tuple(self._adds)

    @property
    def is_over(self) -> bool:
        """Whether no file need be begun, since none will stay."""
        return self._is_given_up or bool(self._failures)

    def keep(self, adds: Sequence[AddFile]) -> None:
        """Take in files that are finished, or delete them where somebody has given up."""
        with self._lock:
            if not self._is_given_up:
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
        """What the writes return, in their order; of several failures an interrupt, or the first.

        Args:
            writes: How many bytes a write will hold, and what writes and keeps its files; called in
                threads, and none any more after a failure.
            max_bytes: Bound of what is held at once; see `run_ahead`.
            max_calls: As for `run_ahead`; so is `max_threads`.
            on_written: Told of what each returns, in their order, until one has failed.
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
            # An interrupt of this thread may be the end of what others have under way.
            interrupts = (each for each in self._failures if not isinstance(each, Exception))
            raise next(interrupts, self._failures[0])
        return returned

    def give_up(self) -> None:
        """Delete what was written and what is being written."""
        with self._lock:
            self._is_given_up = True
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
