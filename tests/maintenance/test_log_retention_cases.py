"""The reference's log retention cases, a line each: the files left after a clean-up.

Unlike in the reference, a commit older than its predecessor has the predecessor's time.

A case gives the days of the commits, from version 0 on, and the checkpoints; today's day and the
retention give the cutoff.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pytest

from delta_ops.clock import DAY_MS
from delta_ops.log.history.in_commit_timestamps import InCommitTimes
from delta_ops.maintenance import LogCleanupPlan, plan_clean_up_log
from delta_ops.protocol.file_names import checkpoint_name, checksum_name, commit_name
from delta_ops.storage import FileInfo

DAY_ZERO = 20_000 * DAY_MS
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


class Log(NamedTuple):
    days: Sequence[float]
    """Commit time of each version, by its file."""
    checkpoints: Sequence[int] = ()
    files: Sequence[str] = ()
    """Others, of day 0."""
    gone: Sequence[int] = ()
    """Versions without a commit file."""


def at(name: str, day: float) -> FileInfo:
    return FileInfo(f"_delta_log/{name}", 1, DAY_ZERO + int(day * DAY_MS))


def listing(log: Log) -> list[FileInfo]:
    days = dict(enumerate(log.days))
    commits = [at(commit_name(v), day) for v, day in days.items() if v not in log.gone]
    checksums = [at(checksum_name(v), day) for v, day in days.items() if v not in log.gone]
    checkpoints = [at(checkpoint_name(v), days[v]) for v in log.checkpoints]
    return [*commits, *checksums, *checkpoints, *(at(name, 0) for name in log.files)]


def plan(log: Log, today: float, retention_days: float, **options: object) -> LogCleanupPlan:
    return plan_clean_up_log(
        listing(log),
        now_ms=DAY_ZERO + int(today * DAY_MS),
        retention_ms=int(retention_days * DAY_MS),
        **options,  # type: ignore[arg-type]
    )


def staying(log: Log, chosen: LogCleanupPlan, name_of: object) -> list[int]:
    left = {info.path for info in listing(log)} - {info.path for info in chosen.files}
    versions = range(len(log.days))
    return [v for v in versions if f"_delta_log/{name_of(v)}" in left]  # type: ignore[operator]


def part(version: int, number: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{parts:010d}.parquet"


def v2(version: int) -> str:
    return f"{version:020d}.checkpoint.{UUID}.json"


def days(groups: Mapping[float, int]) -> list[float]:
    """The number of commits on each day."""
    return [day for day, count in groups.items() for _ in range(count)]


@pytest.mark.parametrize(
    ("log", "today", "retention", "commits"),
    [
        pytest.param(
            Log([0] * 5), 0, 30, range(5), id="no checkpoint and nothing expired: all stays"
        ),
        pytest.param(Log([0] * 5), 31, 30, range(5), id="all expired and no checkpoint: all stays"),
        pytest.param(Log([0] * 5, [4]), 31, 30, [4], id="all expired: the checkpoint's version"),
        pytest.param(
            Log([0] * 21, [10, 20], gone=range(5, 15)),
            32,
            30,
            [20],
            id="commits that are gone already do not stop it",
        ),
        pytest.param(
            Log([0, 31, 31], [0, 1, 2]), 61, 30, [1, 2], id="the checkpoint of version 0 goes"
        ),
        pytest.param(Log([0, 31, 31], [0, 1, 2]), 31, 30, range(3), id="a needed file does not"),
        pytest.param(
            Log(days({0: 16, 35: 10}), [10, 20]),
            35,
            30,
            range(10, 26),
            id="the checkpoint that versions within the retention need stays",
        ),
        pytest.param(
            Log(days({0: 16, 35: 10}), [20], [part(10, 1, 2), part(10, 2, 2)]),
            35,
            30,
            range(10, 26),
            id="so does one of several parts",
        ),
        pytest.param(
            Log(days({0: 16, 35: 10}), [20], [v2(10)]),
            35,
            30,
            range(10, 26),
            id="so does a V2 one",
        ),
        pytest.param(
            Log(days({0: 16, 35: 10}), [20], [part(10, 1, 2)]),
            35,
            30,
            range(26),
            id="a part is missing: no commit goes",
        ),
        pytest.param(
            Log(list(range(10)), range(2, 10)), 10, 6, range(4, 10), id="a commit a day, six days"
        ),
        pytest.param(
            Log(list(range(10)), range(2, 10)), 10.9, 6, range(4, 10), id="until the next midnight"
        ),
        pytest.param(Log(list(range(10)), range(2, 10)), 11, 6, range(5, 10), id="and a day later"),
        pytest.param(
            Log([5, 0, 1, 2, 9], [3]), 39, 30, range(3, 5), id="times are raised to the next time"
        ),
        pytest.param(
            Log([5, 0, 1, 2, 9], [3]), 38, 30, range(5), id="since a clock was set back till then"
        ),
        pytest.param(
            Log([5, 0, 1, 2], [3]), 99, 30, range(4), id="or still is: its time is unknown"
        ),
        pytest.param(
            Log([6, 0, 1, 2, 9], [3]), 36, 30, range(5), id="so that a copied log is not old"
        ),
    ],
)
def test_kept_files(log: Log, today: float, retention: float, commits: Iterable[int]) -> None:
    chosen = plan(log, today, retention)
    expected = list(commits)
    assert staying(log, chosen, commit_name) == [v for v in expected if v not in log.gone]
    assert staying(log, chosen, checksum_name) == [v for v in expected if v not in log.gone]
    first = expected[0]
    assert staying(log, chosen, checkpoint_name) == [v for v in log.checkpoints if v >= first]


PROTECTED = Log(days({0: 9, 31: 7}), [8, 10])
V2_ONLY = Log(days({0: 9, 31: 7}), (), [v2(6), v2(8)])


@pytest.mark.parametrize(
    ("log", "protected_before", "boundary", "compatible"),
    [
        pytest.param(PROTECTED, 8, 8, None, id="all that is protected goes in one"),
        pytest.param(PROTECTED, 20, 8, None, id="there is a checkpoint already where it ends"),
        pytest.param(V2_ONLY, 0, 8, 8, id="nothing is protected: a twin is written"),
        pytest.param(V2_ONLY, 8, 8, 8, id="a twin from the protected version on"),
        pytest.param(V2_ONLY, 9, None, None, id="a twin below it would be a new checkpoint"),
    ],
)
def test_checkpoint_protection(
    log: Log, protected_before: int, boundary: int | None, compatible: int | None
) -> None:
    chosen = plan(log, 31, 30, protected_before=protected_before)
    assert (chosen.boundary_version, chosen.compatible_version) == (boundary, compatible)
    assert bool(chosen.files) is (boundary is not None)


@pytest.mark.parametrize(
    ("since", "own_days", "boundary"),
    [
        pytest.param(0, {2: 20.0}, None, id="young by its own time, however old its file"),
        pytest.param(0, {2: 0.5, 3: 20.0}, 2, id="old by its own time"),
        pytest.param(0, {3: 0.5}, 2, id="a file before an old file is old too"),
        pytest.param(3, {3: 20.0}, 2, id="before the feature the files' times count"),
        pytest.param(2, {2: 20.0, 3: 20.0}, None, id="from its first version on they do not"),
        pytest.param(0, {}, None, id="times that nobody read prove nothing"),
    ],
)
def test_times_that_commits_carry(
    since: int, own_days: Mapping[int, float], boundary: int | None
) -> None:
    own = {v: DAY_ZERO + int(day * DAY_MS) for v, day in own_days.items()}
    chosen = plan(
        Log([0, 0, 0, 0], [2]),
        40,
        30,
        in_commit=InCommitTimes(since_version=since, by_version=own),
    )
    assert chosen.boundary_version == boundary
