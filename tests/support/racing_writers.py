"""Processes that append to one table over a faulty store, and checks of the result.

`python -m tests.support.racing_writers` runs one writer, with its `Task` as JSON in stdin. It
prints a line of JSON for each commit, and at last the injected faults.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import CommitResult, DeltaLog, begin
from delta_ops.arrow.write.data_file import discard
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    StorageError,
    TableNotFoundError,
)
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.storage import open_storage
from tests.support.faulty_storage import Faults, FaultyStorage
from tests.support.tiers import seeded

PROJECT = Path(__file__).resolve().parents[2]
ROWS_OF_A_COMMIT = 3
TEN_PERCENT = Faults(lost_requests=0.1, lost_answers=0.1, late_requests=0.1, delays=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task of one process."""

    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    writer: int
    commits: int
    faults: Mapping[str, float]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The outcome of one commit, as its writer saw it."""

    writer: int
    number: int
    is_acknowledged: bool
    """False if the writer got an unknown outcome and did not retry."""
    attempts: int
    """Commit files tried by the acknowledged write."""
    tries: int
    """Writes; all of them failed except the last."""
    seconds: float
    """From the first write to the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The outcome of a race."""

    writes: Sequence[Write]
    injected: Counter[str]
    seconds: float

    def __str__(self) -> str:
        acknowledged = [write for write in self.writes if write.is_acknowledged]
        seconds = [write.seconds for write in acknowledged]
        return (
            f"{len(acknowledged)} commits acknowledged in {self.seconds:.0f} s "
            f"({len(acknowledged) / self.seconds:.1f} a second), median {_ms(seconds)} ms, worst "
            f"{max(seconds) * 1000:.0f} ms; {len(self.writes) - len(acknowledged)} left unknown; "
            f"{sum(write.tries - 1 for write in self.writes)} writes failed and were run again, "
            f"{sum(write.attempts - 1 for write in acknowledged)} versions tried in vain; "
            f"{self.injected.total()} faults"
        )


def race(
    uri: str,
    storage_options: Mapping[str, Any],
    *,
    writers: int,
    commits: int,
    faults: Faults = TEN_PERCENT,
    seed: int,
) -> Race:
    """Let processes append to the table, each this many times."""
    started = time.perf_counter()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.racing_writers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
        )
        for _ in range(writers)
    ]
    for writer, process in enumerate(processes):
        task = Task(
            uri=uri,
            storage_options=storage_options,
            writer=writer,
            commits=commits,
            faults=asdict(faults),
            seed=1000 * seed + writer,
        )
        assert process.stdin
        process.stdin.write(json.dumps(asdict(task)))
        process.stdin.close()
        process.stdin = None
    outputs = [process.communicate() for process in processes]
    seconds = time.perf_counter() - started
    assert [p.returncode for p in processes] == [0] * writers, [error for _, error in outputs]
    lines = [[json.loads(line) for line in out.splitlines()] for out, _ in outputs]
    return Race(
        writes=[Write(**line) for of_one in lines for line in of_one[:-1]],
        injected=sum((Counter(of_one[-1]) for of_one in lines), Counter()),
        seconds=seconds,
    )


def check(race: Race, log: DeltaLog) -> None:
    """Assert that acknowledged commits exist once, unknown commits at most once, and no others."""
    acknowledged = {(t.writer, t.number) for t in race.writes if t.is_acknowledged}
    unknown = {(t.writer, t.number) for t in race.writes if not t.is_acknowledged}
    latest = log.snapshot().version
    commits = list(log.commits(0))
    assert [commit.version for commit in commits] == list(range(latest + 1))
    by_txn = Counter(
        (int(txn.app_id), txn.version) for commit in commits for txn in commit.transactions
    )
    assert by_txn.total() == len(commits)
    assert set(by_txn.values()) == {1}
    assert acknowledged <= set(by_txn) <= acknowledged | unknown
    for version in range(latest, -1, -100):
        validate_checksum(log.snapshot(version))
    ids = da.to_table(log)["id"].to_pylist()
    assert sorted(ids) == sorted(row for key in by_txn for row in rows_of(*key))


def rows_of(writer: int, number: int) -> list[str]:
    return [f"{writer}/{number}/{k}" for k in range(ROWS_OF_A_COMMIT)]


def write(log: DeltaLog, task: Task, number: int, chance: random.Random) -> Write:
    """Write until the commit is acknowledged; leave half of the unknown outcomes unknown.

    Every other write is impatient: it tries one version once, so more outcomes are unknown.
    """
    started = time.perf_counter()
    tries, attempts, is_acknowledged = 0, 0, False
    while not is_acknowledged:
        tries += 1
        try:
            if chance.random() < 0.5:
                result = write_impatiently(log, task.writer, number)
            else:
                result = write_patiently(log, task.writer, number)
        except CommitStateUnknownError:
            if chance.random() < 0.5:
                break
        except (StorageError, CommitConflictError, TableNotFoundError):
            continue
        else:
            is_acknowledged, attempts = True, result.attempts
    return Write(
        writer=task.writer,
        number=number,
        is_acknowledged=is_acknowledged,
        attempts=attempts,
        tries=tries,
        seconds=time.perf_counter() - started,
    )


def write_patiently(log: DeltaLog, writer: int, number: int) -> CommitResult:
    properties = {"delta.checkpointInterval": "10"}
    return da.write(
        log, data_of(writer, number), txn=(str(writer), number), configuration=properties
    )


def write_impatiently(log: DeltaLog, writer: int, number: int) -> CommitResult:
    transaction = begin(log)
    transaction.set_transaction((str(writer), number))
    staged = da.stage_write(transaction, data_of(writer, number))
    transaction.stage(staged)
    try:
        return transaction.commit(operation="WRITE", max_attempts=1)
    finally:
        if not transaction.may_be_committed:
            discard(log.storage, staged.adds)


def data_of(writer: int, number: int) -> pa.Table:
    return pa.table({"id": rows_of(writer, number)})


def _ms(seconds: Sequence[float]) -> int:
    return round(statistics.median(seconds) * 1000)


def main() -> None:
    task = Task(**json.load(sys.stdin))
    inner = open_storage(task.uri, task.storage_options)
    storage = FaultyStorage(inner, Faults(**task.faults), task.seed)
    log = DeltaLog("", storage=storage)
    chance = seeded(task.seed)
    for number in range(task.commits):
        print(json.dumps(asdict(write(log, task, number, chance))))
    storage.settle()
    print(json.dumps(storage.injected))


if __name__ == "__main__":
    main()
