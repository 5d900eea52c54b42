"""A table that threads of this process constantly read and commit to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.snapshot import Snapshot

CONFIGURATION = {"delta.checkpointInterval": "5"}


class BusyTable:
    """Its threads share each snapshot, with each other and with child processes."""

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        append(log, -1)
        self.latest = log.snapshot()
        self.num_commits = 0
        self._errors: list[BaseException] = []
        self._is_over = threading.Event()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Threads open the table, use open snapshots, read rows, and commit; none may fail."""
        calls = (self._open, self._look, self._look, self._read_rows, self._commit)
        threads = [threading.Thread(target=self._repeat, args=[call]) for call in calls]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()
        assert self._errors == []

    def use(self) -> bool:
        """Use the table in a child: use the open snapshot, open, read rows, commit."""
        look(self.latest)
        rows: int = da.to_table(self.log).num_rows
        append(self.log, rows)
        opened = self.log.snapshot()
        look(opened)
        return opened.num_files > rows

    def _repeat(self, call: Callable[[], None]) -> None:
        try:
            while not self._is_over.is_set():
                call()
        except BaseException as error:
            self._errors.append(error)

    def _open(self) -> None:
        self.latest = self.log.snapshot()

    def _look(self) -> None:
        look(self.latest)

    def _read_rows(self) -> None:
        da.to_table(self.log)

    def _commit(self) -> None:
        append(self.log, self.num_commits)
        self.num_commits += 1


def append(log: DeltaLog, number: int) -> None:
    """A commit of one row; a checkpoint follows every fifth commit."""
    da.write(log, pa.table({"id": [number]}), configuration=CONFIGURATION)


def look(snapshot: Snapshot) -> None:
    """Use the lazy values of a snapshot."""
    assert snapshot.num_files > 0
    assert snapshot.state.protocol is not None
    assert snapshot.arrow_schema.names == ["id"]
    assert snapshot.properties.checkpoint_interval == 5
