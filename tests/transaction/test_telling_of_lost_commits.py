"""The next commit reports a lost commit, and reads nothing extra where no commit can be lost."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_ops import DeltaLog, begin
from delta_ops.events import CommitLost, Event, HookFailed, RaceLost
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import vacuum
from delta_ops.protocol.actions import CommitInfo
from delta_ops.protocol.file_names import checksum_name, commit_name
from delta_ops.protocol.json.codec import encode_commit
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.lost_commits import FUTURE, append, commit_to_be_lost, replace_commit
from tests.support.tables import add, live_paths, metadata, stage_files, write_log

THEIRS = add("theirs", size=3)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    made = write_log(tmp_path, [[add("0")]])
    append(made, "1")
    return made


def lose(log: DeltaLog) -> int:
    version = commit_to_be_lost(log)
    replace_commit(log, version, THEIRS)
    return version


def versions_lost_by_append(log: DeltaLog, path: str) -> list[int]:
    """The lost versions that an append reports."""
    events: list[Event] = []
    append(log, path, on_event=events.append)
    return [event.version for event in events if isinstance(event, CommitLost)]


def lose_without_a_checkpoint(log: DeltaLog) -> None:
    lose(log)


def lose_after_a_checkpoint(log: DeltaLog) -> None:
    write_checkpoint(log.snapshot(), now_ms=0)
    lose(log)


def lose_at_a_checkpoint(log: DeltaLog) -> None:
    lose(log)
    write_checkpoint(log.snapshot(), now_ms=0)


def lose_before_others_commit(log: DeltaLog) -> None:
    version = lose(log)
    theirs = replace_commit(log, version + 1, add("theirs, later"))
    place = Path(log.uri) / "_delta_log" / checksum_name(version + 1)
    place.write_text(json.dumps({"txnId": theirs, "numFiles": 4, "tableSizeBytes": 6}))


@pytest.mark.parametrize(
    "lost",
    [
        lose_without_a_checkpoint,
        lose_after_a_checkpoint,
        lose_at_a_checkpoint,
        lose_before_others_commit,
    ],
    ids=lambda lost: lost.__name__.replace("_", " "),
)
def test_the_next_commit_reports_it_and_later_commits_do_not(
    log: DeltaLog, lost: Callable[[DeltaLog], None]
) -> None:
    lost(log)
    assert versions_lost_by_append(log, "next") == [2]
    assert versions_lost_by_append(log, "after") == []
    assert {"theirs", "next", "after"} <= live_paths(log)


def test_it_says_what_to_do_where_nobody_listens(
    log: DeltaLog, caplog: pytest.LogCaptureFixture
) -> None:
    version = commit_to_be_lost(log)
    lost = json.loads((Path(log.uri) / "_delta_log" / checksum_name(version)).read_text())["txnId"]
    theirs = replace_commit(log, version, THEIRS)
    with caplog.at_level(logging.WARNING, logger="delta_ops"):
        append(log, "next")
    (record,) = caplog.records
    assert record.name.startswith("delta_ops.")
    for part in (log.uri, f"version {version}", lost, theirs, f"delete {checksum_name(version)}"):
        assert part in record.getMessage()


def test_a_maintenance_commit_reports_the_lost_commit(log: DeltaLog) -> None:
    lose(log)
    orphan = Path(log.uri) / "orphan.parquet"
    orphan.touch()
    os.utime(orphan, (0, 0))
    events: list[Event] = []
    assert vacuum(log, log_commits=True, on_event=events.append).deleted_files == 1
    assert [event.version for event in events if isinstance(event, CommitLost)] == [2]


def test_work_of_a_lost_commit_does_not_count_as_done(log: DeltaLog) -> None:
    lose(log)
    txn = begin(log)
    txn.set_transaction(("lost", 1))
    assert txn.done_before() is None


def checksums_read(log: DeltaLog) -> list[str]:
    """The checksums that an append reads."""
    seen: list[str] = []

    def on_call(_number: int, method: str, path: str, moment: str) -> None:
        if moment == "before" and method == "read" and path.endswith(".crc"):
            seen.append(path.rpartition("/")[2])

    append(DeltaLog(log.uri, storage=CountingStorage(open_storage(log.uri), on_call)), "counted")
    return seen


def ours_alone(_log: DeltaLog) -> None:
    pass


def with_commits_that_name_no_transaction(log: DeltaLog) -> None:
    replace_commit(log, 2, add("deltalake's"), engineInfo="delta-rs:1.6.6", txnId=None)


def with_commits_that_left_no_checksum(log: DeltaLog) -> None:
    replace_commit(log, 2, THEIRS)


@pytest.mark.parametrize(
    "table",
    [ours_alone, with_commits_that_name_no_transaction, with_commits_that_left_no_checksum],
    ids=lambda table: table.__name__.replace("_", " "),
)
def test_a_table_where_none_can_be_lost_is_not_read_for_it(
    log: DeltaLog, table: Callable[[DeltaLog], None]
) -> None:
    table(log)
    assert checksums_read(log) == []


def test_others_commits_since_our_last_one_are_compared_once(log: DeltaLog) -> None:
    for version in (2, 3):
        theirs = replace_commit(log, version, add(f"theirs {version}"))
        place = Path(log.uri) / "_delta_log" / checksum_name(version)
        place.write_text(json.dumps({"txnId": theirs}))
    assert sorted(checksums_read(log)) == [checksum_name(2), checksum_name(3)]
    assert checksums_read(log) == []


def test_a_store_that_fails_meanwhile_does_not_fail_the_commit(log: DeltaLog) -> None:
    version = lose(log)

    def on_call(_number: int, method: str, path: str, _moment: str) -> None:
        if method == "read" and path.endswith(checksum_name(version)):
            raise OSError("broken")

    events: list[Event] = []
    counted = DeltaLog(log.uri, storage=CountingStorage(open_storage(log.uri), on_call))
    txn = begin(counted, on_event=events.append)
    txn.stage(stage_files(add("next", modification_time=FUTURE)))
    result = txn.commit(operation="WRITE")
    assert result.version == 3
    assert len(result.failed_hooks) == 1
    assert [event.reason for event in events if isinstance(event, HookFailed)] == ["broken"]


def test_the_checksum_of_another_commit_is_reported(log: DeltaLog) -> None:
    """A writer that is slow to write its checksum, and was replaced first."""
    place = Path(log.uri) / "_delta_log" / checksum_name(2)
    place.write_text(json.dumps({"txnId": "theirs"}))
    txn = begin(log)
    txn.stage(stage_files(add("ours", modification_time=FUTURE)))
    result = txn.commit(operation="WRITE")
    (failed,) = result.failed_hooks
    assert "transaction theirs" in failed
    assert commit_name(2) in failed


def test_a_commit_that_is_replaced_at_once_goes_to_the_next_version(
    log: DeltaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(log.uri)
    link = os.link

    def link_and_be_replaced(source: str, target: str) -> None:
        link(source, target)
        if target.endswith(commit_name(2)):
            theirs = CommitInfo(values={"timestamp": 0, "operation": "WRITE", "txnId": "theirs"})
            (root / "theirs").write_bytes(encode_commit([theirs, THEIRS]))
            os.replace(root / "theirs", target)

    monkeypatch.setattr(os, "link", link_and_be_replaced)
    events: list[Event] = []
    append(log, "ours", on_event=events.append)
    assert [event.version for event in events if isinstance(event, RaceLost)] == [2]
    assert live_paths(log) == {"0", "1", "theirs", "ours"}
    assert validate_checksum(log.snapshot(3))
    assert log.snapshot().metadata == metadata()
