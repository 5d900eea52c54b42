"""Processes forked from a process that uses a table, and processes that get a table.

A child lacks the threads, event loop and connections of the parent; the locks that they held at the
fork are never released.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.support.busy_table import BusyTable, append, look
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import PATIENCE_S
from tests.support.servers.azure import AzureServer
from tests.support.servers.gcs import GcsServer
from tests.support.servers.s3 import S3Server

# Since Python 3.12. These parent processes have threads, as a user's process may.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
WORKERS = 2


def log_at(place: str, folder: Path, request: pytest.FixtureRequest) -> DeltaLog:
    """A table that does not exist yet."""
    match place:
        case "on S3":
            s3: S3Server = request.getfixturevalue("s3_server")
            return DeltaLog(f"s3://{s3.new_bucket()}/t", s3.storage_options)
        case "on GCS":
            gcs: GcsServer = request.getfixturevalue("gcs_server")
            return DeltaLog(f"gs://{gcs.new_bucket()}/t", gcs.storage_options)
        case "on Azure":
            azure: AzureServer = request.getfixturevalue("azure_server")
            return DeltaLog(f"abfs://{azure.new_container()}/t", azure.storage_options)
    return DeltaLog(folder)


def use(log: DeltaLog, number: int) -> int:
    """Read and commit; return the number of rows read."""
    num_rows: int = da.to_table(log).num_rows
    look(log.snapshot())
    append(log, number)
    return num_rows


def ids(log: DeltaLog) -> list[int]:
    return sorted(da.to_table(log)["id"].to_pylist())


@needs_fork
@pytest.mark.parametrize(
    "place",
    [
        "on a disk",
        "on S3",
        pytest.param("on GCS", marks=pytest.mark.full),
        pytest.param("on Azure", marks=pytest.mark.full),
    ],
)
def test_a_child_reads_and_commits_and_so_does_its_parent_after_it(
    tmp_path: Path, request: pytest.FixtureRequest, place: str
) -> None:
    log = log_at(place, tmp_path, request)
    append(log, 0)
    assert call_in_child(lambda: use(log, 1)) == 1
    assert use(log, 2) == 2
    assert call_in_child(lambda: call_in_child(lambda: use(log, 3))) == 3
    assert ids(log) == [0, 1, 2, 3]


FULL = [("forkserver", "on S3"), ("forkserver", "on a disk"), ("spawn", "on S3")]
"""Each of their parts is in a different state."""


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("method", "place"),
    [
        pytest.param(*pair, marks=[pytest.mark.full] if pair in FULL else [])
        for pair in product(multiprocessing.get_all_start_methods(), ("on a disk", "on S3"))
    ],
)
def test_processes_of_a_pool_read_and_commit(
    tmp_path: Path, request: pytest.FixtureRequest, place: str, method: str
) -> None:
    log = log_at(place, tmp_path, request)
    append(log, 0)
    context = multiprocessing.get_context(method)
    numbers = range(1, 1 + 2 * WORKERS)
    with ProcessPoolExecutor(WORKERS, context) as pool:
        seen = list(pool.map(use, [log] * len(numbers), numbers, timeout=PATIENCE_S))
    assert all(1 <= num_rows <= len(numbers) for num_rows in seen)
    assert ids(log) == [0, *numbers]


@pytest.mark.some_cases(1)
@needs_fork
@pytest.mark.parametrize(
    ("place", "num_children"), [("on a disk", 8), pytest.param("on S3", 3, marks=pytest.mark.full)]
)
def test_no_child_hangs_that_is_forked_while_threads_read_and_commit(
    tmp_path: Path, request: pytest.FixtureRequest, place: str, num_children: int
) -> None:
    table = BusyTable(log_at(place, tmp_path, request))
    with table.used():
        assert all(call_in_child(table.use) for _ in range(num_children))
    every_row = 1 + num_children + table.num_commits
    assert da.to_table(table.log).num_rows == every_row
