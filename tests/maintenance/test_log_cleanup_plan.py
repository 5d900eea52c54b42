"""Deletable log files: the plan over a listing, without a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.errors import DeltaOpsError, InvalidRequestError, VersionNotFoundError
from delta_ops.log.segment import earliest_version, listing_from_files, segment_from_listing
from delta_ops.maintenance import LogCleanupPlan, plan_clean_up_log
from delta_ops.protocol.file_names import checkpoint_name, commit_name
from delta_ops.storage import FileInfo

MIDNIGHT = 20_000 * DAY_MS
RETENTION = 30 * DAY_MS


def file(name: str, days_old: float, size: int = 1) -> FileInfo:
    return FileInfo(f"_delta_log/{name}", size, MIDNIGHT - int(days_old * DAY_MS))


def commits(*days_old: float) -> list[FileInfo]:
    """Commits from version 0 on."""
    return [file(commit_name(version), age) for version, age in enumerate(days_old)]


def checkpoint(version: int, days_old: float = 0, size: int = 1) -> FileInfo:
    return file(checkpoint_name(version), days_old, size)


def part(version: int, number: int, count: int) -> FileInfo:
    return file(f"{version:020d}.checkpoint.{number:010d}.{count:010d}.parquet", 0)


def plan(
    files: Iterable[FileInfo], *, keep_versions: Collection[int] = (), now_ms: int = MIDNIGHT
) -> LogCleanupPlan:
    return plan_clean_up_log(
        files, now_ms=now_ms, retention_ms=RETENTION, keep_versions=keep_versions
    )


def names(infos: Iterable[FileInfo]) -> list[str]:
    return [info.path.removeprefix("_delta_log/") for info in infos]


def test_everything_below_the_boundary_goes_and_the_boundary_and_its_commit_stay() -> None:
    log = [*commits(50, 45, 40, 35, 10), checkpoint(1), checkpoint(3)]
    chosen = plan(log)
    assert chosen.boundary_version == 3
    assert names(chosen.files) == [
        commit_name(0),
        commit_name(1),
        commit_name(2),
        checkpoint_name(1),
    ]
    assert (chosen.earliest_before, chosen.earliest_after) == (0, 3)


@pytest.mark.parametrize(
    ("files", "boundary"),
    [
        pytest.param([*commits(50, 40)], None, id="without a checkpoint nothing may go"),
        pytest.param(
            [*commits(50, 20, 10), checkpoint(1)], None, id="a checkpoint after the cutoff is none"
        ),
        pytest.param(
            [*commits(50, 30, 10), checkpoint(1)], 1, id="one exactly at the cutoff is one"
        ),
        pytest.param(
            [*commits(50, 40, 35), checkpoint(1), checkpoint(2, size=0)],
            1,
            id="an empty checkpoint file is none",
        ),
        pytest.param(
            [*commits(50, 40, 35), checkpoint(1), part(2, 1, 2)],
            1,
            id="a checkpoint with a part missing is none",
        ),
        pytest.param(
            [*commits(50, 40, 35), checkpoint(1), part(2, 1, 2), part(2, 2, 2)],
            2,
            id="a checkpoint of several parts is one",
        ),
        pytest.param(
            [*commits(50, 20, 40, 10), checkpoint(2)],
            None,
            id="a commit is not older than its predecessor, whatever its file says",
        ),
        pytest.param(
            [checkpoint(5, days_old=20), *[file(commit_name(6), 10)], checkpoint(2, days_old=31)],
            2,
            id="where the commit is gone the checkpoint's own time counts",
        ),
    ],
)
def test_boundary(files: list[FileInfo], boundary: int | None) -> None:
    assert plan(files).boundary_version == boundary


def test_the_cutoff_is_the_midnight_before() -> None:
    files = [*commits(50, 30.5, 10), checkpoint(1)]
    late_evening = MIDNIGHT + DAY_MS - 1
    assert plan(files, now_ms=late_evening - DAY_MS).boundary_version is None
    assert plan(files, now_ms=late_evening).boundary_version == 1
    assert plan(files, now_ms=late_evening).cutoff_ms == MIDNIGHT - RETENTION


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        pytest.param(f"{1:020d}.crc", True, id="the checksum of an expired version"),
        pytest.param(f"{3:020d}.crc", False, id="the checksum of the boundary"),
        pytest.param(f"{1:020d}.{2:020d}.compacted.json", True, id="an expired compaction"),
        pytest.param(f"{2:020d}.{4:020d}.compacted.json", True, id="one that starts below"),
        pytest.param(f"{3:020d}.{4:020d}.compacted.json", True, id="one that starts there"),
        pytest.param(f"{4:020d}.{5:020d}.compacted.json", False, id="one after the boundary"),
        pytest.param(f".{1:020d}.json.crc", True, id="Hadoop's checksum of an expired commit"),
        pytest.param(f".{3:020d}.json.crc", False, id="Hadoop's checksum of a commit that stays"),
        pytest.param(".x.json.crc", False, id="the checksum of something unknown"),
        pytest.param("_last_checkpoint", False, id="the hint"),
        pytest.param(f"{1:020d}.json.bak", False, id="somebody's backup"),
        pytest.param(".staged-" + "a" * 32, True, id="an unfinished file, older than a day"),
    ],
)
def test_other_files_of_the_log(name: str, goes: bool) -> None:
    log = [*commits(50, 45, 40, 35, 10), checkpoint(3), file(name, 2)]
    assert (name in names(plan(log).files)) is goes


def test_an_unfinished_file_stays_for_a_day() -> None:
    young = FileInfo("_delta_log/.staged-" + "a" * 32, 1, MIDNIGHT - 23 * HOUR_MS)
    assert not plan([young]).has_work


@pytest.mark.parametrize(
    ("keep", "boundary"),
    [
        pytest.param([4], 3, id="the checkpoint below it becomes the boundary"),
        pytest.param([1], None, id="one that needs the first commits keeps them all"),
        pytest.param([6], 5, id="one after the boundary changes nothing"),
    ],
)
def test_kept_versions(keep: list[int], boundary: int | None) -> None:
    log = [*commits(60, 55, 50, 45, 40, 35, 10), checkpoint(3), checkpoint(5)]
    assert plan(log, keep_versions=keep).boundary_version == boundary


@pytest.mark.parametrize("version", [-1, 0, 99])
def test_unreadable_versions_cannot_be_kept(version: int) -> None:
    log = [*commits(60, 55, 50, 45, 40, 35, 10)[1:], checkpoint(3), checkpoint(5)]
    with pytest.raises(VersionNotFoundError):
        plan(log, keep_versions=[version])


def test_a_version_to_keep_is_a_number() -> None:
    keep: Any = ["4"]
    with pytest.raises(InvalidRequestError, match="give a list of whole numbers"):
        plan([*commits(50, 30, 10), checkpoint(1)], keep_versions=keep)


def test_the_next_cleanup_deletes_what_an_interrupted_cleanup_left() -> None:
    log = [*commits(50, 45, 40, 35, 10), checkpoint(1), checkpoint(3)]
    first = plan(log)
    rest = [info for info in log if info not in first.files[:2]]
    assert plan(rest).files == first.files[2:]


@st.composite
def logs(draw: st.DrawFn) -> list[FileInfo]:
    """A log with missing commits and checkpoints, and with times in any order."""
    count = draw(st.integers(1, 12))
    ages = st.floats(0, 60)
    files = [file(commit_name(v), draw(ages)) for v in range(count)]
    first = draw(st.integers(0, count - 1)) if draw(st.booleans()) else 0
    files = files[first:]
    versions = draw(st.sets(st.integers(first, count - 1), max_size=5)) | ({first} - {0})
    for version in sorted(versions):
        if draw(st.booleans()):
            files.append(checkpoint(version, draw(ages)))
        else:
            files += [part(version, n, 3) for n in draw(st.sets(st.integers(1, 3), min_size=1))]
    if first and not listing_from_files(files).checkpoints:
        files.append(checkpoint(first))
    return files


def readable(files: Iterable[FileInfo]) -> set[int]:
    listing = listing_from_files(files)
    found = set()
    for version in range((listing.latest_version or 0) + 1):
        try:
            segment_from_listing(listing, "t", version)
        except DeltaOpsError:
            continue
        found.add(version)
    return found


@given(logs(), st.floats(0, 60))
def test_killed_after_any_deletion_every_version_from_the_boundary_on_can_be_read(
    files: list[FileInfo], retention_days: float
) -> None:
    chosen = plan_clean_up_log(files, now_ms=MIDNIGHT, retention_ms=int(retention_days * DAY_MS))
    before = readable(files)
    boundary = chosen.boundary_version or 0
    for done in range(len(chosen.files) + 1):
        left = [info for info in files if info not in chosen.files[:done]]
        after = readable(left)
        assert {v for v in before if v >= boundary} <= after
        earliest = earliest_version(listing_from_files(left))
        assert earliest is not None
        assert set(range(earliest, max(after) + 1)) <= after


@given(logs(), st.floats(0, 60))
def test_versions_since_the_cutoff_stay_readable(
    files: list[FileInfo], retention_days: float
) -> None:
    chosen = plan_clean_up_log(files, now_ms=MIDNIGHT, retention_ms=int(retention_days * DAY_MS))
    left = [info for info in files if info not in chosen.files]
    times = {int(i.path[11:31]): i.modified_ms for i in files if i.path.endswith(".json")}
    needed = {
        version
        for version in readable(files)
        if all(times.get(v, 0) > chosen.cutoff_ms for v in times if v == version + 1)
    }
    assert needed <= readable(left)


@given(logs(), st.floats(0, 60))
def test_a_second_clean_up_has_nothing_to_do(files: list[FileInfo], retention_days: float) -> None:
    retention_ms = int(retention_days * DAY_MS)
    chosen = plan_clean_up_log(files, now_ms=MIDNIGHT, retention_ms=retention_ms)
    left = [info for info in files if info not in chosen.files]
    assert not plan_clean_up_log(left, now_ms=MIDNIGHT, retention_ms=retention_ms).has_work
