"""Long streams with kills, restarts and other writers: each row once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.events import Committed, Event
from delta_ops.maintenance import optimize
from tests.spark.streams import append
from tests.spark.test_stream_write import POINTS, KilledError
from tests.support.tiers import seeded

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUM_BATCHES = 800
NUM_KILLS = 60
_STOPPED = "changes the table's columns"


class Source:
    """A table with appends, compactions, deletes and type changes while it is read."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.log, self._chance = DeltaLog(root), chance
        self.num_rows = self._num_columns = 0
        self._turn = threading.RLock()
        self.append()

    def append(self) -> None:
        count = self._chance.randint(1, 4)
        numbers = pa.array(range(self.num_rows, self.num_rows + count), pa.int64())
        columns = {f"c{n}": pa.array([n] * count) for n in range(self._num_columns)}
        da.write(self.log, pa.table({"n": numbers, **columns}), merge_schema=True)
        self.num_rows += count

    def widen(self) -> None:
        with self._turn:
            self._num_columns += self._num_columns < 100
            self.append()

    def delete(self) -> None:
        da.delete(self.log, col("n") == self._chance.randrange(self.num_rows))

    def change_often(self) -> None:
        """Twenty commits."""
        for _ in range(20):
            self.change()

    def change(self) -> None:
        """One commit of any kind."""
        with self._turn:
            self._change()

    def _change(self) -> None:
        chance = self._chance.random()
        if chance < 0.9:
            self.append()
        elif chance < 0.95:
            optimize(self.log)
        elif chance < 0.99:
            self.delete()
        else:
            self.widen()


def test_each_row_is_written_once_through_hundreds_of_batches(
    spark: SparkSession, tmp_path: Path, report: Callable[[str], None]
) -> None:
    chance = seeded(46)
    source, target = Source(tmp_path / "source", chance), DeltaLog(tmp_path / "target")
    batches = kills = stops = 0

    def run(point: str | None, after: int, *, widens: bool = False) -> str:
        """The error of the query; "" if it completed."""
        left = after

        def on_event(event: Event) -> None:
            nonlocal batches, left
            batches += isinstance(event, Committed)
            left -= type(event).__name__ == point
            if point is not None and left == 0:
                raise KilledError(point)

        stream = ds.read_stream(
            spark,
            source.log,
            max_files_per_trigger=chance.randint(1, 3),
            skip_change_commits=True,
        )
        if widens or chance.random() < 0.1:
            source.widen()  # between the stream's schema and the last version read
        query = ds.write_stream(
            stream,
            target,
            checkpoint_location=str(tmp_path / "checkpoint"),
            merge_schema=True,
            available_now=True,
            on_event=on_event,
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        return ""

    while batches < NUM_BATCHES:
        writer = threading.Thread(target=source.change_often)
        writer.start()
        point = chance.choice(POINTS) if kills < NUM_KILLS else None
        failure = run(point, chance.randint(1, 10))
        writer.join()
        kills, stops = kills + ("KilledError" in failure), stops + (_STOPPED in failure)
        assert not failure or "KilledError" in failure or _STOPPED in failure, failure
        if chance.random() < 0.1:
            optimize(target)
    # A killed query may not reach the new column; this one does.
    failure, stops = run(None, 0, widens=True), stops + 1
    assert _STOPPED in failure
    while failure := run(None, 0):
        assert _STOPPED in failure
    found = sorted(da.to_table(target, columns=["n"])["n"].to_pylist())
    report(f"{batches} batches, {kills} kills, {stops} changes of columns, {len(found)} rows")
    assert found == list(range(source.num_rows))
    assert kills > NUM_KILLS // 2


def test_a_query_whose_process_dies_goes_on_in_the_next_one(tmp_path: Path) -> None:
    for number in range(8):
        append(tmp_path / "source", 10 * number, 10 * number + 1)

    def run(point: str) -> int:
        command = [sys.executable, "-m", "tests.spark.killed_streams", str(tmp_path), point, "2"]
        return subprocess.run(command, check=False, timeout=300, capture_output=True).returncode

    assert [run(point) for point in POINTS] == [-signal.SIGKILL] * len(POINTS)
    assert run("") == 0
    found = sorted(da.to_table(tmp_path / "target")["n"].to_pylist())
    assert found == sorted(da.to_table(tmp_path / "source")["n"].to_pylist())
