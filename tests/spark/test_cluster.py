"""Writes by executors in processes of their own, with some executors killed."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.maintenance import vacuum
from tests.spark.cluster_changes import COMMANDS, KINDS
from tests.spark.cluster_program import (
    DEATHS,
    EXECUTOR_DEATHS,
    FULL,
    NUM_ROWS,
    SPECULATE,
    executor_step,
)

pytestmark = pytest.mark.spark

PROJECT = Path(__file__).resolve().parents[2]
START_S = 300
PROGRAM_S = 600
CHANGES_S = 1200
SMALL = 400_000
"""Bytes: less than a data file, more than all other files that executors write."""
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two, because Spark speculates only on another host."""


class Cluster(NamedTuple):
    """A standalone cluster, whose Python has no delta_ops."""

    master: str
    """Its address."""
    workers: Sequence[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    without = folder / "python"
    without.mkdir()
    (without / "delta_ops.py").write_text("raise ImportError('not on this machine')")
    environment = {**os.environ, "SPARK_HOME": spark_home(), "PYTHONPATH": str(without)}
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with (folder / "log").open("wb") as log:
        processes: list[subprocess.Popen[bytes]] = []

        def start(host: str, *arguments: str) -> None:
            processes.append(
                subprocess.Popen(
                    [f"{spark_home()}/bin/spark-class", *arguments, "--host", host],
                    env=environment | {"SPARK_LOCAL_IP": host, "SPARK_WORKER_DIR": str(folder)},
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                )
            )

        try:
            web = ("--webui-port", "0")
            start(HOSTS[0], f"{deploy}.master.Master", "--port", str(port), *web)
            for host in HOSTS:
                size = ("--cores", "1", "--memory", "1g")
                start(host, f"{deploy}.worker.Worker", *size, *web, address)
            wait_for_text(folder / "log", "Registering worker", len(HOSTS))
            yield Cluster(address, processes[1:])
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                end(process)


class Outcome(NamedTuple):
    """The outcome of a command."""

    command: str
    moment: float | None
    """When an executor was killed, as a fraction of the command's time; None if no executor was."""
    refused: str
    """The error of the first attempt; "" if it succeeded."""


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that got a signal to end, and kill it if it does not."""
    try:
        process.wait(START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def spark_home() -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_text(log: Path, text: str, times: int) -> None:
    deadline = time.monotonic() + START_S
    while log.read_text().count(text) < times:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def run_driver(master: str, folder: Path, *steps: str) -> int:
    """The result of the program with these steps."""
    (folder / "marks").mkdir(exist_ok=True)
    program = [sys.executable, "-m", "tests.spark.cluster_program", master, str(folder), *steps]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable}
    environment["EXECUTORS"] = "local" if master.startswith("local") else ""
    return subprocess.run(
        program, env=environment, cwd=PROJECT, timeout=PROGRAM_S, check=False
    ).returncode


def change_rows(master: str, folder: Path, kind: str, moments: Sequence[float]) -> list[Outcome]:
    """The outcome of each command of the program of changes."""
    arguments = [master, str(folder), kind, json.dumps(list(moments))]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_changes", *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable},
        cwd=PROJECT,
        timeout=CHANGES_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [Outcome(*json.loads(line)) for line in done.stdout.splitlines()]


def assert_each_row_is_there_once(table: Path) -> None:
    ids = da.to_table(DeltaLog(table), columns=["id"])["id"]
    assert (len(ids), pc.count_distinct(ids).as_py()) == (NUM_ROWS, NUM_ROWS)
    assert pc.min_max(ids).as_py() == {"min": 0, "max": NUM_ROWS - 1}


def marks(folder: Path) -> set[str]:
    return {path.name for path in (folder / "marks").iterdir()}


@pytest.mark.full
def test_each_row_is_there_once_whatever_happens_to_tasks_and_executors(
    cluster: Cluster, tmp_path: Path
) -> None:
    killed = executor_step("twice in one split")
    steps = ["partitions", "retry", killed]
    assert run_driver(cluster.master, tmp_path, *steps, "vectors") == 0
    for step in steps:
        assert_each_row_is_there_once(tmp_path / step)
    expected = {f"{step} {attempt}" for step in ("retry", killed) for attempt in range(3)}
    assert marks(tmp_path) >= expected


@pytest.mark.long
def test_each_row_is_there_once_whenever_an_executor_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    assert run_driver(cluster.master, tmp_path, *map(executor_step, EXECUTOR_DEATHS)) == 0
    for point, (_, _, times) in EXECUTOR_DEATHS.items():
        step = executor_step(point)
        assert_each_row_is_there_once(tmp_path / step)
        assert marks(tmp_path) >= {f"{step} {attempt}" for attempt in range(times + 1)}


@pytest.mark.parametrize(
    ("kind", "moments"),
    [
        pytest.param("vectors", (), id="vectors", marks=pytest.mark.full),
        pytest.param("files", (), id="files", marks=pytest.mark.long),
        *(
            pytest.param(kind, (0.2, 0.5, 0.8), id=f"{kind}, killed", marks=pytest.mark.long)
            for kind in KINDS
        ),
    ],
)
def test_rows_are_changed_as_by_the_arrow_engine_whenever_an_executor_is_killed(
    cluster: Cluster, tmp_path: Path, kind: str, moments: Sequence[float]
) -> None:
    done = change_rows(cluster.master, tmp_path, kind, moments)
    expected = [(command, moment) for command in COMMANDS for moment in (None, *moments)]
    assert [each[:2] for each in done] == expected
    assert all("an executor has ended" in each.refused for each in done if each.refused)


@pytest.mark.long
def test_each_row_is_there_once_where_attempts_run_beside_each_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    assert run_driver(cluster.master, tmp_path, SPECULATE) == 0
    assert_each_row_is_there_once(tmp_path / SPECULATE)
    assert marks(tmp_path) >= {"speculate 0", "speculate 1"}


@pytest.mark.long
def test_a_batch_is_there_once_whenever_its_driver_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    table = tmp_path / "die"
    for point in DEATHS:
        assert run_driver(cluster.master, tmp_path, f"die at {point}") == -signal.SIGKILL
        assert DeltaLog(table).exists() == (point == "Committed")
    assert run_driver(cluster.master, tmp_path, "die") == 0
    assert_each_row_is_there_once(table)
    assert DeltaLog(table).snapshot().version == 0
    vacuum(DeltaLog(table), clock=lambda: system_clock() + 10 * DAY_MS)
    live = set(DeltaLog(table).snapshot().files(["path"])["path"].to_pylist())
    assert {str(path.relative_to(table)) for path in table.glob("w-*/*")} == live


@pytest.mark.long
@pytest.mark.parametrize("num_full", [2, 1])
def test_workers_that_can_write_no_file_whole_leave_nothing(
    cluster: Cluster, tmp_path: Path, num_full: int
) -> None:
    full = cluster.workers[:num_full]
    without = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    try:
        for worker in full:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (SMALL, without[1]))
        assert run_driver(cluster.master, tmp_path, FULL) == 0
    finally:
        for worker in full:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, without)
    mark = tmp_path / "marks" / FULL
    # If one of two workers can write, Spark may move the failed task to it.
    assert mark.exists() or num_full == 1
    if mark.exists():
        assert "larger than the file system, or a limit of the process, allows" in mark.read_text()
        assert run_driver(cluster.master, tmp_path, FULL) == 0
    assert_each_row_is_there_once(tmp_path / FULL)


@pytest.mark.long
def test_a_cluster_in_processes_of_the_driver_writes_each_row_once(tmp_path: Path) -> None:
    steps = ["plain", "partitions", "retry"]
    assert run_driver("local-cluster[2,1,1024]", tmp_path, *steps, "vectors") == 0
    for step in steps:
        assert_each_row_is_there_once(tmp_path / step)
