"""Writes by executors in processes of their own, some of which are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.maintenance import vacuum
from tests.spark.cluster_program import DEATHS, NUM_ROWS

pytestmark = pytest.mark.spark

PROJECT = Path(__file__).resolve().parents[2]
START_S = 60
PROGRAM_S = 240
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two, since Spark speculates on another host only."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a standalone cluster of two workers, whose Python has no delta_ops."""
    folder = tmp_path_factory.mktemp("cluster")
    without = folder / "python"
    without.mkdir()
    (without / "delta_ops.py").write_text("raise ImportError('not on this machine')")
    environment = {**os.environ, "SPARK_HOME": spark_home(), "PYTHONPATH": str(without)}
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with (folder / "log").open("wb") as log:
        processes = []

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
            yield address
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(START_S)


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
    """How the program of these steps ended."""
    (folder / "marks").mkdir(exist_ok=True)
    program = [sys.executable, "-m", "tests.spark.cluster_program", master, str(folder), *steps]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable}
    environment["EXECUTORS"] = "local" if master.startswith("local") else ""
    return subprocess.run(
        program, env=environment, cwd=PROJECT, timeout=PROGRAM_S, check=False
    ).returncode


def assert_each_row_is_there_once(table: Path) -> None:
    ids = da.to_table(DeltaLog(table), columns=["id"])["id"]
    assert (len(ids), pc.count_distinct(ids).as_py()) == (NUM_ROWS, NUM_ROWS)
    assert pc.min_max(ids).as_py() == {"min": 0, "max": NUM_ROWS - 1}


def marks(folder: Path) -> set[str]:
    return {path.name for path in (folder / "marks").iterdir()}


def test_each_row_is_there_once_whatever_happens_to_tasks(master: str, tmp_path: Path) -> None:
    steps = ["plain", "partitions", "retry", "speculate", "lose_executor"]
    assert run_driver(master, tmp_path, *steps) == 0
    for step in steps:
        assert_each_row_is_there_once(tmp_path / step)
    assert marks(tmp_path) >= {
        *("retry 0", "retry 1", "retry 2"),
        *("speculate 0", "speculate 1"),
        *("lose_executor 0", "lose_executor 1"),
    }


def test_a_batch_is_there_once_whenever_its_driver_is_killed(master: str, tmp_path: Path) -> None:
    table = tmp_path / "die"
    for point in DEATHS:
        assert run_driver(master, tmp_path, f"die at {point}") == -signal.SIGKILL
        assert DeltaLog(table).exists() == (point == "Committed")
    assert run_driver(master, tmp_path, "die") == 0
    assert_each_row_is_there_once(table)
    assert DeltaLog(table).snapshot().version == 0
    vacuum(DeltaLog(table), clock=lambda: system_clock() + 10 * DAY_MS)
    live = set(DeltaLog(table).snapshot().files(["path"])["path"].to_pylist())
    assert {str(path.relative_to(table)) for path in table.glob("w-*/*")} == live


def test_a_cluster_in_processes_of_the_driver_writes_each_row_once(tmp_path: Path) -> None:
    steps = ["plain", "partitions", "retry"]
    assert run_driver("local-cluster[2,1,1024]", tmp_path, *steps) == 0
    for step in steps:
        assert_each_row_is_there_once(tmp_path / step)
