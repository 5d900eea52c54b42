"""Time travel: the version for a time."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.log.history.time_travel import version_at
from delta_ops.protocol.actions import Action, CommitInfo, Protocol
from tests.support.tables import PROTOCOL, add, metadata

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
HALF_DAY_S = 12 * 3600


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def ms(seconds: float) -> int:
    return round(at(seconds).timestamp() * 1000)


def set_time(root: Path, version: int, seconds: float) -> None:
    stamp = at(seconds).timestamp()
    os.utime(root / "_delta_log" / f"{version:020d}.json", (stamp, stamp))


def table(root: Path, *seconds: float) -> DeltaLog:
    """A version at each time by the store's clock."""
    log = DeltaLog(root)
    for version, each in enumerate(seconds):
        first: list[Action] = [PROTOCOL, metadata()] if version == 0 else []
        create_commit(log.storage, log.log_directory, version, [*first, add(f"{version}")])
        set_time(root, version, each)
    return log


@pytest.mark.parametrize(
    ("seconds", "version"),
    [
        pytest.param(0, 0, id="the first, exactly"),
        pytest.param(9.999, 0, id="before the second"),
        pytest.param(10, 1, id="the second, exactly"),
        pytest.param(15, 1, id="between"),
        pytest.param(20, 2, id="the last, exactly"),
        pytest.param(20.0004, 2, id="within the millisecond of the last"),
    ],
)
def test_a_time_selects_the_last_version_before_it(
    tmp_path: Path, seconds: float, version: int
) -> None:
    log = table(tmp_path, 0, 10, 20)
    assert log.snapshot(timestamp=at(seconds)).version == version
    assert log.snapshot(timestamp=at(seconds).isoformat()).version == version
    elsewhere = at(seconds).astimezone(timezone(timedelta(hours=-5)))
    assert log.snapshot(timestamp=elsewhere).version == version
    assert log.snapshot(timestamp=at(seconds).replace(tzinfo=None)).version == version


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        pytest.param(
            -0.001, "earliest version that can be read is 0, of 2026-01-31T12", id="before"
        ),
        pytest.param(20.001, "after its latest version 2, of 2026-01-31T12:00:20", id="after"),
    ],
)
def test_a_time_outside_of_the_history_is_an_error(
    tmp_path: Path, seconds: float, reason: str
) -> None:
    with pytest.raises(VersionNotFoundError, match=reason):
        table(tmp_path, 0, 10, 20).snapshot(timestamp=at(seconds))


def test_concurrent_commits_come_after_the_latest_version(tmp_path: Path) -> None:
    log = table(tmp_path, 0, 10)
    snapshot = log.snapshot()
    create_commit(log.storage, log.log_directory, 2, [add("2")])
    set_time(tmp_path, 2, 20)
    assert version_at(snapshot, at(10)) == 1
    with pytest.raises(VersionNotFoundError, match="after its latest version 1"):
        version_at(snapshot, at(20))


def test_times_that_go_back_are_raised(tmp_path: Path) -> None:
    log = table(tmp_path, 10, 5, 5, 20)
    assert [e.timestamp_ms - ms(10) for e in log.history()] == [10_000, 2, 1, 0]
    assert log.snapshot(timestamp=at(10.001)).version == 1
    assert log.snapshot(timestamp=at(10.002)).version == 2


def test_after_a_clean_up_the_earliest_that_is_left_is_named(tmp_path: Path) -> None:
    log = table(tmp_path, 0, 10, 20, 30)
    write_checkpoint(log.snapshot(2), now_ms=0)
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert log.snapshot(timestamp=at(25)).version == 2
    with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 2"):
        log.snapshot(timestamp=at(15))


@pytest.mark.parametrize(("day", "version"), [(date(2026, 1, 31), 1), (date(2026, 2, 1), 3)])
def test_a_date_means_its_midnight_as_its_text_does(
    tmp_path: Path, day: date, version: int
) -> None:
    log = table(tmp_path, -2 * HALF_DAY_S, -HALF_DAY_S, 1, HALF_DAY_S, 2 * HALF_DAY_S)
    assert log.snapshot(timestamp=day).version == version
    assert log.snapshot(timestamp=day.isoformat()).version == version


def test_a_text_that_is_no_time_is_refused(tmp_path: Path) -> None:
    log = table(tmp_path, 0)
    with pytest.raises(InvalidRequestError, match="'yesterday' is not a timestamp"):
        log.snapshot(timestamp="yesterday")
    with pytest.raises(InvalidRequestError, match="a version, a timestamp or a ref, not several"):
        log.snapshot(version=0, timestamp=START)


@pytest.mark.parametrize(
    ("version", "timestamp", "reason"),
    [
        pytest.param("1", None, "version is '1', of type str", id="a version of digits"),
        pytest.param(
            1.0,
            None,
            "1.0, of type float",
            id="a version of a fraction",
        ),
        pytest.param(None, 1769860800, "of type int", id="seconds since 1970"),
    ],
)
def test_values_that_are_neither_version_nor_time_are_refused(
    tmp_path: Path, version: Any, timestamp: Any, reason: str
) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        table(tmp_path, 0).snapshot(version, timestamp)


def test_a_history_of_less_than_nothing_is_refused(tmp_path: Path) -> None:
    log = table(tmp_path, 0, 10)
    assert list(log.history(limit=0)) == []
    with pytest.raises(InvalidRequestError, match="limit of the history is -1"):
        next(log.history(limit=-1))


ENABLED = {"delta.enableInCommitTimestamps": "true"}


def with_own_times(
    root: Path, *seconds: float | None, enabled_at: int | None = None, **changes: str
) -> DeltaLog:
    """Versions with these in-commit times, or none; all store times are later."""
    log = DeltaLog(root)
    for version, each in enumerate(seconds):
        info = {} if each is None else {"inCommitTimestamp": ms(each)}
        actions: list[Action] = [CommitInfo(values={"timestamp": 1, **info})]
        if version == 0:
            actions += [PROTOCOL, metadata(configuration=ENABLED if enabled_at is None else {})]
        if version == enabled_at and each is not None:
            properties = {
                "delta.inCommitTimestampEnablementVersion": str(version),
                "delta.inCommitTimestampEnablementTimestamp": str(ms(each)),
            }
            actions.append(metadata(configuration={**ENABLED, **properties, **changes}))
        create_commit(log.storage, log.log_directory, version, [*actions, add(f"{version}")])
        set_time(root, version, 1000 + version)
    return log


@pytest.mark.parametrize(("seconds", "version"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 4)])
def test_commits_own_times_count_where_the_table_has_them(
    tmp_path: Path, seconds: float, version: int
) -> None:
    log = with_own_times(tmp_path, 0, 10, 20, 30, 40)
    assert log.snapshot(timestamp=at(seconds)).version == version
    assert [e.timestamp_ms for e in log.history(limit=2)] == [ms(40), ms(30)]
    for outside in (-1, 41):
        with pytest.raises(VersionNotFoundError):
            log.snapshot(timestamp=at(outside))


def test_a_property_is_true_in_any_case(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, 0, 10)
    path = tmp_path / "_delta_log" / f"{0:020d}.json"
    path.write_text(path.read_text().replace('Timestamps":"true"', 'Timestamps":"TRUE"'))
    assert log.snapshot(timestamp=at(5)).version == 0


@pytest.mark.parametrize(
    ("seconds", "version"),
    [
        pytest.param(1000, 0, id="the first, by the store's clock"),
        pytest.param(1001.5, 1, id="the last by the store's clock"),
        pytest.param(1999, 1, id="before the first with a time of its own"),
        pytest.param(2000, 2, id="the first with a time of its own"),
        pytest.param(2500, 3, id="after it"),
    ],
)
def test_own_times_may_begin_in_mid_history(tmp_path: Path, seconds: float, version: int) -> None:
    log = with_own_times(tmp_path, None, None, 2000, 2010, 3000, enabled_at=2)
    assert log.snapshot(timestamp=at(seconds)).version == version


def test_own_times_that_were_dropped_do_not_count(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, 0, 10, 20)
    create_commit(log.storage, log.log_directory, 3, [CommitInfo(values={}), metadata()])
    set_time(tmp_path, 3, 1003)
    assert [entry.timestamp_ms for entry in log.history()] == [ms(1003 - n) for n in range(4)]
    assert log.snapshot(timestamp=at(1001.5)).version == 1
    with pytest.raises(VersionNotFoundError):
        log.snapshot(timestamp=at(10))


def test_own_times_of_before_they_were_dropped_and_taken_up_again_do_not_count(
    tmp_path: Path,
) -> None:
    log = with_own_times(tmp_path, None, 10, None, 2000, enabled_at=3)
    assert [entry.timestamp_ms for entry in log.history()] == [
        ms(2000),
        *map(ms, (1002, 1001, 1000)),
    ]


def test_own_times_of_a_table_that_cannot_be_opened_are_used_unchecked(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, 0, 10)
    unknown = Protocol(min_reader_version=99, min_writer_version=99)
    create_commit(log.storage, log.log_directory, 2, [unknown])
    assert [entry.timestamp_ms for entry in log.history()][1:] == [ms(10), ms(0)]


def test_a_commit_that_should_have_its_own_time_and_has_none_is_named(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, 0, None)
    with pytest.raises(LogCorruptError, match=rf"{1:020d}.json: .*inCommitTimestamp"):
        log.snapshot(timestamp=at(1))


def test_an_enablement_that_is_no_number_is_named(tmp_path: Path) -> None:
    log = with_own_times(
        tmp_path, None, 5, enabled_at=1, **{"delta.inCommitTimestampEnablementVersion": "x"}
    )
    with pytest.raises(LogCorruptError, match="must be numbers"):
        log.snapshot(timestamp=at(1))


def test_own_times_may_have_begun_before_what_is_left_of_the_log(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, None, 2000, 2010, 2020, enabled_at=1)
    write_checkpoint(log.snapshot(2), now_ms=0)
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert log.snapshot(timestamp=at(2010)).version == 2
    for too_early in (1000, 2000):
        with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 2"):
            log.snapshot(timestamp=at(too_early))


def test_where_only_the_checkpoint_of_a_version_is_left_its_time_is_not_known(
    tmp_path: Path,
) -> None:
    log = table(tmp_path, 0, 10, 20)
    write_checkpoint(log.snapshot(1), now_ms=0)
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    reason = "earliest version that can be read is 1, and the earliest whose time is known is 2"
    with pytest.raises(VersionNotFoundError, match=reason):
        log.snapshot(timestamp=at(15))
    (tmp_path / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError, match="no commit left that shows"):
        log.snapshot(timestamp=at(15))


def test_a_time_of_its_own_beyond_all_years_is_an_error_and_no_crash(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, 0, 10)
    path = tmp_path / "_delta_log" / f"{0:020d}.json"
    path.write_text(path.read_text().replace(str(ms(0)), str(2**62)))
    with pytest.raises(VersionNotFoundError, match=f"{2**62} ms since 1970"):
        log.snapshot(timestamp=at(5))


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, "[]", '{"commitInfo":5}', '{"commitInfo":{"inCommitTimestamp":"5"}}', ""],
)
def test_a_commit_whose_own_time_cannot_be_read_is_named(tmp_path: Path, line: str) -> None:
    log = with_own_times(tmp_path, 0, 10, 20)
    snapshot = log.snapshot()
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text(line)
    with pytest.raises(LogCorruptError, match=rf"{1:020d}.json: .*inCommitTimestamp"):
        version_at(snapshot, at(10))


def test_a_first_line_of_any_length_is_read(tmp_path: Path) -> None:
    log = with_own_times(tmp_path, 0, 10)
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    path.write_text(path.read_text().replace('"timestamp":1', f'"timestamp":1,"x":"{"y" * 99999}"'))
    assert log.snapshot(timestamp=at(10)).version == 1


def test_commit_info_of_an_unknown_form_is_kept_separately(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    recorded = {
        "operation": 5,
        "operationParameters": "x",
        "operationMetrics": [1],
        "engineInfo": {},
    }
    actions: list[Action] = [CommitInfo(values=recorded), PROTOCOL, metadata()]
    create_commit(log.storage, log.log_directory, 0, actions)
    (entry,) = log.history()
    assert (entry.operation, entry.engine_info, entry.user_metadata) == (None, None, None)
    assert (entry.operation_parameters, entry.operation_metrics) == ({}, {})
    assert entry.commit_info == recorded


def test_a_commit_without_commit_info_has_a_history(tmp_path: Path) -> None:
    assert [(e.version, e.operation) for e in table(tmp_path, 0, 10).history()] == [
        (1, None),
        (0, None),
    ]
