"""Two processes work on the refs of one table, on a disk and on an S3 server.

Each write of one process to the log or to a journal waits for a write of the other, so that both
reach the store at the same time. When one process has ended, the other continues alone.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any, Literal

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import vacuum
from delta_ops.storage import open_storage
from delta_ops.versioning import (
    ReleaseSet,
    begin_session,
    create_branch,
    create_release,
    create_tag,
    delete_branch,
    list_branches,
    list_releases,
    list_sessions,
    list_tags,
    open_branch,
    open_release,
    open_session,
    publish,
    rebase_branch,
)
from tests.support.counting_storage import CountingStorage
from tests.support.servers.s3 import S3Server

WRITES = frozenset({"create", "replace", "delete", "delete_many", "delete_at_once"})
PATIENCE_S = 300
"""Seconds; far more than a process needs to reach its next write."""
LONG: dict[str, Any] = {"expires_in": timedelta(days=400), "enforce_retention": False}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(source: Any, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


@dataclass(frozen=True, slots=True)
class Place:
    """A directory with a table and a release set."""

    uri: str
    options: Mapping[str, Any]

    @property
    def log(self) -> DeltaLog:
        return DeltaLog(f"{self.uri}/t", self.options)

    @property
    def releases(self) -> ReleaseSet:
        return ReleaseSet(f"{self.uri}/releases", self.options)


# --- what a process does ----------------------------------------------------------------------


def _vacuum(log: DeltaLog, _place: Place) -> None:
    """Delete what may be deleted in 60 days, when open sessions have expired."""
    vacuum(log, clock=lambda: system_clock() + 60 * DAY_MS)


ACTS: dict[str, Callable[[DeltaLog, Place], object]] = {
    "append": lambda log, _place: da.write(log, rows_of(9)),
    "publish": lambda log, _place: publish(log, "x", rebase=True),
    "publish other": lambda log, _place: publish(log, "y", rebase=True),
    "rebase": lambda log, _place: rebase_branch(log, "x"),
    "delete": lambda log, _place: delete_branch(log, "x"),
    "tag": lambda log, _place: create_tag(log, "old", 0),
    "branch": lambda log, _place: create_branch(log, "old", version=0, **LONG),
    "release": lambda log, place: create_release(place.releases, {"t": log}),
    "vacuum": _vacuum,
    "commit": lambda log, _place: open_session(log, list_sessions(log)[0].id).commit(),
}

_barrier: list[Barrier] = []
"""The barrier of this process."""


def set_barrier(barrier: Barrier) -> None:
    _barrier.append(barrier)


def act(name: str, place: Place) -> str:
    """Do it, and return the class of the error, or an empty string."""

    def meet(_number: int, method: str, _path: str, moment: Literal["before", "after"]) -> None:
        if method in WRITES and moment == "before":
            with suppress(BrokenBarrierError):  # the other process has ended
                _barrier[0].wait(PATIENCE_S)

    storage = CountingStorage(open_storage(place.log.uri, place.options), meet)
    try:
        ACTS[name](DeltaLog("", storage=storage), place)
    except DeltaOpsError as error:
        return type(error).__name__
    finally:
        _barrier[0].abort()
    return ""


# --- what the test does -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Both:
    """Runs two acts at the same time, in processes that all tests share."""

    pool: ProcessPoolExecutor
    barrier: Barrier

    def run(self, first: str, second: str, place: Place) -> tuple[str, str]:
        self.barrier.reset()
        running = [self.pool.submit(act, name, place) for name in (first, second)]
        one, other = (each.result(2 * PATIENCE_S) for each in running)
        return one, other


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    with ProcessPoolExecutor(2, context, set_barrier, (barrier,)) as pool:
        yield Both(pool, barrier)


@pytest.fixture(
    params=[
        pytest.param("disk", marks=pytest.mark.full),
        pytest.param("S3", marks=pytest.mark.long),
    ]
)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[Place]:
    """Empty places, one for each round."""
    if request.param == "disk":
        return [Place(str(tmp_path / str(number)), {}) for number in range(4)]
    server: S3Server = request.getfixturevalue("s3_server")
    return [Place(f"s3://{server.new_bucket()}", server.storage_options) for _ in range(4)]


def with_branches(place: Place) -> None:
    """Row 1 on main; branches x with row 2, and y with row 3."""
    da.write(place.log, rows_of(1))
    for name, number in (("x", 2), ("y", 3)):
        create_branch(place.log, name)
        da.write(open_branch(place.log, name), rows_of(number))


def with_old_files(place: Place) -> None:
    """Row 1 at version 0, and row 2 alone at version 1."""
    da.write(place.log, rows_of(1))
    da.write(place.log, rows_of(2), "overwrite")


def test_a_branch_that_two_processes_publish_is_published_once(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        with_branches(place)
        assert both.run("publish", "publish", place) == ("", "")
        assert (ids_of(place.log), place.log.snapshot().version) == ([1, 2], 1)


def test_two_branches_that_two_processes_publish_are_both_published(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        with_branches(place)
        assert both.run("publish", "publish other", place) == ("", "")
        assert (ids_of(place.log), place.log.snapshot().version) == ([1, 2, 3], 2)


def test_a_publication_and_an_append_of_two_processes_are_both_committed(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        with_branches(place)
        assert both.run("publish", "append", place) == ("", "")
        assert (ids_of(place.log), place.log.snapshot().version) == ([1, 2, 9], 2)


def test_a_rebase_and_an_append_of_two_processes_are_both_in_the_publication(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        with_branches(place)
        assert both.run("rebase", "append", place) == ("", "")
        publish(place.log, "x", rebase=True)
        assert ids_of(place.log) == [1, 2, 9]


def test_a_release_has_the_rows_before_or_after_the_append_of_another_process(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        da.write(place.log, rows_of(1))
        assert both.run("release", "append", place) == ("", "")
        assert ids_of(open_release(place.releases)["t"]) in ([1], [1, 9])
        assert ids_of(place.log) == [1, 9]


def test_two_processes_that_release_the_same_versions_make_one_release(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        da.write(place.log, rows_of(1))
        assert both.run("release", "release", place) == ("", "")
        assert [each.number for each in list_releases(place.releases)] == [1]


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_ref_beside_a_vacuum_of_another_process_is_rejected_or_can_be_read(
    both: Both, places: list[Place], kind: str
) -> None:
    for place in places:
        with_old_files(place)
        assert both.run("vacuum", kind, place) in [
            ("", error) for error in ("", "TableBusyError", "VersionNotFoundError")
        ]
        refs = [f"tag:{each.name}" for each in list_tags(place.log)]
        refs += [f"branch:{each.name}" for each in list_branches(place.log)]
        for ref in refs:
            assert ids_of(place.log, ref=ref) == [1]
        assert ids_of(place.log) == [2]


def test_a_branch_that_another_process_deletes_during_its_rebase_is_gone(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        with_branches(place)
        da.write(place.log, rows_of(9))
        rebased, deleted = both.run("rebase", "delete", place)
        assert (deleted, rebased) in [
            ("", error) for error in ("", "TableReplacedError", "InvalidRequestError")
        ]
        assert [each.name for each in list_branches(place.log)] == ["y"]
        assert ids_of(place.log) == [1, 9]


def test_a_session_beside_a_clean_up_of_another_process_is_committed_or_ended(
    both: Both, places: list[Place]
) -> None:
    for place in places:
        da.write(place.log, rows_of(1))
        da.write(begin_session(place.log).fork("load"), rows_of(2))
        committed, cleaned = both.run("commit", "vacuum", place)
        assert (cleaned, committed) in [("", ""), ("", "SessionEndedError")]
        assert ids_of(place.log) == ([1] if committed else [1, 2])
        assert list_sessions(place.log) == []
