"""The five cases of the commit loop, on a store that fails on purpose."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog, Transaction, begin
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    StaleRunError,
    StorageError,
)
from delta_ops.events import CommitAttempted, Committed, Event, RaceLost
from delta_ops.maintenance import clean_up_log
from delta_ops.protocol.schema import schema_from_json
from delta_ops.storage import FileInfo, Storage, open_storage
from delta_ops.transaction import Txn
from delta_ops.transaction.commit.loop import Pace
from tests.support.tables import SCHEMA, add, live_paths, stage_files, write_log

WITHOUT_WAITING = Pace(sleep=lambda _: None)


class FaultyStorage:
    """A storage whose `create` and `read` call a function of the test."""

    def __init__(self, inner: Storage, create: Callable[..., None]) -> None:
        self._inner, self._create = inner, create
        self.unreadable_times = 0
        self.listings_left = 1000

    def create(self, path: str, data: bytes, **_: Any) -> None:
        self._create(self._inner, path, data)

    def read(self, path: str) -> bytes:
        if self.unreadable_times:
            self.unreadable_times -= 1
            raise StorageError(path, "read", "the connection was reset")
        return self._inner.read(path)

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        if not self.listings_left:
            raise StorageError(directory, "listed", "the connection was reset")
        self.listings_left -= 1
        return self._inner.list_from(directory, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def lost_answer(inner: Storage, path: str, data: bytes) -> None:
    inner.create(path, data)
    raise StorageError(path, "created", "the connection was reset")


def lost_request(_inner: Storage, path: str, _data: bytes) -> None:
    raise StorageError(path, "created", "the connection was reset")


def full_disk(_inner: Storage, path: str, _data: bytes) -> None:
    raise StorageError(path, "created", "no space is left") from OSError(errno.ENOSPC, "full")


def prepared(log: DeltaLog, path: str = "new.parquet") -> Transaction:
    txn = begin(log, pace=WITHOUT_WAITING)
    txn.stage(stage_files(add(path)))
    return txn


def table(tmp_path: Path, create: Callable[..., None] | None = None) -> tuple[DeltaLog, Any]:
    write_log(tmp_path, [[add("old.parquet")]])
    inner = open_storage(tmp_path)
    storage = FaultyStorage(inner, create or (lambda i, p, d: i.create(p, d)))
    return DeltaLog("", storage=storage), storage


def test_a_commit_whose_answer_was_lost_is_found_to_be_there(tmp_path: Path) -> None:
    log, _ = table(tmp_path, lost_answer)
    result = prepared(log).commit(operation="WRITE")
    assert (result.version, result.attempts) == (1, 1)
    assert live_paths(DeltaLog(tmp_path)) == {"old.parquet", "new.parquet"}
    assert DeltaLog(tmp_path).snapshot().version == 1


def test_later_operations_see_a_commit_even_if_its_answer_was_lost(tmp_path: Path) -> None:
    answers = iter([lost_answer])

    def create(inner: Storage, path: str, data: bytes) -> None:
        next(answers, type(inner).create)(inner, path, data)

    log, _ = table(tmp_path, create)
    prepared(log).commit(operation="WRITE")
    log_directory = tmp_path / "_delta_log"
    line = (log_directory / f"{1:020d}.json").read_text().splitlines()[0]
    recorded = json.loads((log_directory / f"{1:020d}.crc").read_text())
    assert recorded["txnId"] == json.loads(line)["commitInfo"]["txnId"]


def test_a_store_without_room_is_reported_and_nothing_is_committed(tmp_path: Path) -> None:
    log, _ = table(tmp_path, full_disk)
    txn = prepared(log)
    with pytest.raises(StorageError, match="no space is left"):
        txn.commit(operation="WRITE")
    assert not txn.may_be_committed
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_a_store_that_stays_silent_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    log, _ = table(tmp_path, lost_request)
    txn = prepared(log)
    with pytest.raises(CommitStateUnknownError, match="the connection was reset"):
        txn.commit(operation="WRITE")
    assert txn.may_be_committed


def test_a_transaction_waits_as_its_retry_settings_say(tmp_path: Path) -> None:
    log, _ = table(tmp_path, lost_request)
    by_share = {}
    for share in (0.5, 1.0):
        waits: list[float] = []
        txn = begin(log, pace=Pace(sleep=waits.append, share=partial(float, share)))
        txn.stage(stage_files(add("new.parquet")))
        with pytest.raises(CommitStateUnknownError):
            txn.commit(operation="WRITE")
        by_share[share] = waits
    assert len(by_share[1.0]) > 1
    assert [2 * each for each in by_share[0.5]] == by_share[1.0]


def test_an_interrupt_while_the_file_is_created_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    def interrupted(inner: Storage, path: str, data: bytes) -> None:
        inner.create(path, data)
        raise KeyboardInterrupt

    log, _ = table(tmp_path, interrupted)
    txn = prepared(log)
    with pytest.raises(KeyboardInterrupt):
        txn.commit(operation="WRITE")
    assert txn.may_be_committed


def test_a_store_that_recovers_gets_the_same_version(tmp_path: Path) -> None:
    failures = iter([True, True])

    def create(inner: Storage, path: str, data: bytes) -> None:
        if next(failures, False):
            lost_request(inner, path, data)
        inner.create(path, data)

    log, _ = table(tmp_path, create)
    result = prepared(log).commit(operation="WRITE")
    assert (result.version, result.attempts) == (1, 3)


def test_an_outcome_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    log, storage = table(tmp_path, lost_answer)
    txn = prepared(log)
    storage.unreadable_times = 1000
    with pytest.raises(CommitStateUnknownError, match="not known whether version 1") as caught:
        txn.commit(operation="WRITE")
    line = (tmp_path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()[0]
    assert json.loads(line)["commitInfo"]["txnId"] == caught.value.txn_id


def test_a_lost_race_is_reported_and_the_next_version_taken(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    events: list[Event] = []
    slow = begin(log, pace=WITHOUT_WAITING, on_event=events.append)
    slow.stage(stage_files(add("slow.parquet")))
    prepared(log, "fast.parquet").commit(operation="WRITE")
    result = slow.commit(operation="WRITE")
    assert (result.version, result.attempts) == (2, 2)
    assert [type(event) for event in events] == [
        CommitAttempted,
        RaceLost,
        CommitAttempted,
        Committed,
    ]


def test_failures_of_the_store_are_counted_anew_at_each_version(tmp_path: Path) -> None:
    failures = {1: 5, 2: 5}

    def create(inner: Storage, path: str, data: bytes) -> None:
        version = int(path.rpartition("/")[2].partition(".")[0])
        if failures[version]:
            failures[version] -= 1
            if version == 1 and not failures[version]:
                prepared(DeltaLog(tmp_path), "fast.parquet").commit(operation="WRITE", hooks=[])
            lost_request(inner, path, data)
        inner.create(path, data)

    log, _ = table(tmp_path, create)
    assert prepared(log).commit(operation="WRITE", hooks=[]).version == 2
    assert live_paths(DeltaLog(tmp_path)) == {"old.parquet", "fast.parquet", "new.parquet"}


def test_attempts_are_limited(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    slow = prepared(log, "slow.parquet")
    for i in range(3):
        prepared(log, f"{i}.parquet").commit(operation="WRITE")
    with pytest.raises(CommitConflictError, match="2 attempts failed"):
        slow.commit(operation="WRITE", max_attempts=2)


def test_the_time_for_attempts_is_limited(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    slow = prepared(log, "slow.parquet")
    prepared(log, "fast.parquet").commit(operation="WRITE")
    with pytest.raises(CommitConflictError, match="1 attempts failed"):
        slow.commit(operation="WRITE", timeout=timedelta(0))
    assert live_paths(log) == {"old.parquet", "fast.parquet"}


def test_without_a_race_no_time_is_needed(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    assert prepared(log).commit(operation="WRITE", timeout=timedelta(0)).version == 1


def test_a_store_that_refuses_after_it_was_silent_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    """A request without an answer may still be carried out."""
    answers = iter([lost_request])

    def create(inner: Storage, path: str, data: bytes) -> None:
        next(answers, full_disk)(inner, path, data)

    log, _ = table(tmp_path, create)
    txn = prepared(log)
    with pytest.raises(CommitStateUnknownError, match="no space is left"):
        txn.commit(operation="WRITE")
    assert txn.may_be_committed


def test_an_outcome_that_can_be_read_at_last_is_known(tmp_path: Path) -> None:
    log, storage = table(tmp_path, lost_answer)
    txn = prepared(log)
    storage.unreadable_times = 5
    assert txn.commit(operation="WRITE").version == 1


def test_a_lost_race_that_can_be_read_at_last_is_gone_on_from(tmp_path: Path) -> None:
    log, storage = table(tmp_path)
    slow = prepared(log, "slow.parquet")
    prepared(log, "fast.parquet").commit(operation="WRITE")
    storage.unreadable_times = 3
    assert slow.commit(operation="WRITE").version == 2


def test_a_twin_that_commits_first_makes_ours_done(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    twins = [begin(log, pace=WITHOUT_WAITING) for _ in range(2)]
    for i, twin in enumerate(twins):
        twin.stage(stage_files(add(f"{i}.parquet")))
        twin.set_transaction(("app", 1))
    first, second = (twin.commit(operation="WRITE") for twin in twins)
    assert (first.version, first.already_committed) == (1, False)
    assert (second.version, second.already_committed) == (1, True)
    assert live_paths(log) == {"old.parquet", "0.parquet"}


def test_an_overtaken_run_is_refused_before_and_in_the_race(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    stale = begin(log, pace=WITHOUT_WAITING)
    stale.stage(stage_files(add("stale.parquet")))
    stale.set_transaction(Txn(app_id="p", version=1, newer_is_stale=True))
    newer = begin(log, pace=WITHOUT_WAITING)
    newer.set_transaction(Txn(app_id="p", version=2, newer_is_stale=True))
    newer.commit(operation="WRITE")
    with pytest.raises(StaleRunError, match="newer run"):
        stale.commit(operation="WRITE")
    again = begin(log, pace=WITHOUT_WAITING)
    again.set_transaction(Txn(app_id="p", version=1, newer_is_stale=True))
    with pytest.raises(StaleRunError, match="newer run"):
        again.done_before()


def test_a_rearrangement_and_an_append_do_not_hurt_each_other(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    rearrange = begin(log, pace=WITHOUT_WAITING)
    rearrange.remove(log.snapshot().add_files(), data_change=False)
    rearrange.stage(stage_files(add("compacted.parquet", data_change=False)))
    rearrange.set_transaction(("delta_ops:optimize:x", 0))
    prepared(log, "appended.parquet").commit(operation="WRITE")
    assert rearrange.commit(operation="OPTIMIZE").version == 2
    assert live_paths(log) == {"compacted.parquet", "appended.parquet"}


def test_two_rearrangements_of_one_file_conflict(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    both = [begin(log, pace=WITHOUT_WAITING) for _ in range(2)]
    for i, txn in enumerate(both):
        txn.remove(log.snapshot().add_files(), data_change=False)
        txn.stage(stage_files(add(f"{i}.parquet", data_change=False)))
    both[0].commit(operation="OPTIMIZE")
    with pytest.raises(CommitConflictError, match="removed 1 of the files"):
        both[1].commit(operation="OPTIMIZE")


def test_a_hook_that_fails_is_reported_and_the_commit_is_kept(tmp_path: Path) -> None:
    log, _ = table(tmp_path)

    def broken(_committed: object) -> None:
        raise RuntimeError("out of order")

    result = prepared(log).commit(operation="WRITE", hooks=[broken])
    assert result.version == 1
    assert result.failed_hooks == ("broken after version 1: out of order",)


def test_commit_info_says_what_was_done(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    prepared(log).commit(
        operation="WRITE", parameters={"mode": "Append", "partitionBy": []}, user_metadata="hello"
    )
    entry = next(iter(log.history()))
    assert (entry.version, entry.operation, entry.user_metadata) == (1, "WRITE", "hello")
    assert entry.operation_parameters == {"mode": "Append", "partitionBy": "[]"}
    assert entry.commit_info["readVersion"] == 0
    assert entry.commit_info["isBlindAppend"] is True
    assert next(iter(entry.commit_info)) == "timestamp"


def overtaken_and_cleaned_up(log: DeltaLog) -> None:
    """Let others commit up to a checkpoint, and clean up all earlier log files."""
    for i in range(12):
        prepared(log, f"{i}.parquet").commit(operation="WRITE")
    clean_up_log(log, clock=lambda: system_clock() + 60 * DAY_MS)
    assert log.snapshot().version == 12


@pytest.mark.parametrize("is_table_there", [True, False])
def test_a_version_that_was_cleaned_up_is_not_free(tmp_path: Path, is_table_there: bool) -> None:
    """A commit there would be acknowledged, but no reader would ever see it."""
    log = table(tmp_path)[0] if is_table_there else DeltaLog(tmp_path)
    time_ms = system_clock()
    slow = begin(log, pace=WITHOUT_WAITING, clock=lambda: time_ms)
    if not is_table_there:
        slow.create_table(schema_from_json(SCHEMA))
        table(tmp_path)
    (tmp_path / "slow.parquet").touch()
    slow.stage(stage_files(add("slow.parquet")))
    overtaken_and_cleaned_up(log)
    time_ms += DAY_MS
    with pytest.raises(CommitConflictError, match="cleaned up"):
        slow.commit(operation="WRITE")
    assert not slow.may_be_committed
    assert not (tmp_path / "_delta_log" / f"{1:020d}.json").exists()


def test_a_long_transaction_that_nothing_was_cleaned_up_beneath_commits(tmp_path: Path) -> None:
    log, _ = table(tmp_path)
    time_ms = system_clock()
    slow = begin(log, pace=WITHOUT_WAITING, clock=lambda: time_ms)
    slow.stage(stage_files(add("slow.parquet")))
    prepared(log, "fast.parquet").commit(operation="WRITE")
    time_ms += DAY_MS
    assert slow.commit(operation="WRITE").version == 2


def test_a_long_transaction_whose_outcome_is_unknown_keeps_its_files(tmp_path: Path) -> None:
    """After any other failure, an attempt without an answer may still succeed."""
    log, storage = table(tmp_path, lost_request)
    time_ms = system_clock()
    slow = begin(log, pace=WITHOUT_WAITING, clock=lambda: time_ms)
    slow.stage(stage_files(add("slow.parquet")))
    time_ms += DAY_MS
    storage.listings_left = 1
    with pytest.raises(CommitStateUnknownError):
        slow.commit(operation="WRITE")
    assert slow.may_be_committed


@pytest.mark.parametrize(
    ("failing", "expected"),
    [pytest.param(full_disk, 3, id="a full disk"), pytest.param(lost_request, 8, id="silence")],
)
def test_a_store_that_keeps_failing_is_not_retried_forever(
    tmp_path: Path, failing: Callable[..., None], expected: int
) -> None:
    requests: list[str] = []

    def create(inner: Storage, path: str, data: bytes) -> None:
        requests.append(path)
        failing(inner, path, data)

    log, _ = table(tmp_path, create)
    with pytest.raises((StorageError, CommitStateUnknownError)):
        prepared(log).commit(operation="WRITE")
    assert len(requests) == expected


def test_the_only_attempt_may_leave_the_outcome_unknown(tmp_path: Path) -> None:
    log, _ = table(tmp_path, lost_request)
    txn = prepared(log)
    with pytest.raises(CommitStateUnknownError):
        txn.commit(operation="WRITE", max_attempts=1)
    assert txn.may_be_committed


def test_the_time_for_reading_an_outcome_is_limited(tmp_path: Path) -> None:
    log, storage = table(tmp_path, lost_answer)
    txn = prepared(log)
    storage.unreadable_times = 3
    with pytest.raises(CommitStateUnknownError):
        txn.commit(operation="WRITE", timeout=timedelta(0))
    assert storage.unreadable_times == 2


def reports_existing(_inner: Storage, path: str, _data: bytes) -> None:
    raise FileExistsError(path)


def torn(inner: Storage, path: str, _data: bytes) -> None:
    inner.create(path, b'{"commitInfo":')
    raise StorageError(path, "created", "the connection was reset")


@pytest.mark.parametrize("create", [reports_existing, torn])
def test_a_store_that_contradicts_itself_leaves_the_outcome_unknown(
    tmp_path: Path, create: Callable[..., None]
) -> None:
    log, _ = table(tmp_path, create)
    txn = prepared(log)
    with pytest.raises(CommitStateUnknownError):
        txn.commit(operation="WRITE")
    assert txn.may_be_committed
