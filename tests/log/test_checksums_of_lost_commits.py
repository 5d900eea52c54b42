"""Tables with a commit that was replaced after its checksum: readers ignore the checksum."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_ops import DeltaLog
from delta_ops.log import Snapshot
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.lost_commits import find_lost_commits
from delta_ops.protocol.file_names import checksum_name, commit_name
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.lost_commits import append, commit_to_be_lost, replace_commit
from tests.support.tables import PROTOCOL, add, metadata, write_log

THEIRS = add("theirs", size=3)


def lose(log: DeltaLog) -> int:
    """Commit, and replace the commit by another writer's; return its version."""
    version = commit_to_be_lost(log)
    checksum = Path(log.uri) / "_delta_log" / checksum_name(version)
    recorded = json.loads(checksum.read_text())
    # A value that no commit of ours would change.
    recorded["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 4}
    checksum.write_text(json.dumps(recorded))
    replace_commit(log, version, THEIRS)
    return version


def before_any_checkpoint(log: DeltaLog) -> None:
    lose(log)


def after_a_checkpoint(log: DeltaLog) -> None:
    write_checkpoint(log.snapshot(), now_ms=0)
    lose(log)


def at_a_checkpoint(log: DeltaLog) -> None:
    version = lose(log)
    write_checkpoint(log.snapshot(version), now_ms=0)


def before_commits_without_checksums(log: DeltaLog) -> None:
    write_checkpoint(log.snapshot(), now_ms=0)
    version = lose(log)
    replace_commit(log, version + 1, txnId=None)


def at_a_checkpoint_and_before_commits_without_checksums(log: DeltaLog) -> None:
    at_a_checkpoint(log)
    replace_commit(log, log.snapshot().version + 1, txnId=None)


PLACES = pytest.mark.parametrize(
    "place",
    [
        before_any_checkpoint,
        after_a_checkpoint,
        at_a_checkpoint,
        before_commits_without_checksums,
        at_a_checkpoint_and_before_commits_without_checksums,
    ],
    ids=lambda place: place.__name__.replace("_", " "),
)
Place = Callable[[DeltaLog], None]


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    made = write_log(tmp_path, [[add("0")]])
    append(made, "1")
    append(made, "2")
    return made


@PLACES
@pytest.mark.parametrize("open_version", [DeltaLog.snapshot, DeltaLog.snapshot_with_files])
def test_a_reader_goes_by_the_commit_in_the_log(
    log: DeltaLog, place: Place, open_version: Callable[[DeltaLog], Snapshot]
) -> None:
    place(log)
    snapshot = open_version(log)
    assert (snapshot.protocol, snapshot.metadata) == (PROTOCOL, metadata())
    assert set(snapshot.files(["path"])["path"].to_pylist()) == {"0", "1", "2", "theirs"}
    assert (snapshot.num_files, snapshot.size_bytes) == (4, 6)
    assert snapshot.transactions() == {}


@pytest.mark.some_cases(6)
@PLACES
@pytest.mark.parametrize("size", ["small", "large"])
def test_no_later_checksum_follows_from_one_of_a_lost_commit(
    log: DeltaLog, place: Place, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == "large":
        monkeypatch.setattr("delta_ops.log.checksum_write.write.CHEAP_CHECKPOINT_BYTES", 0)
    place(log)
    append(log, "4")
    append(log, "5")
    snapshot = log.snapshot()
    assert validate_checksum(snapshot) or size == "large"
    assert (snapshot.num_files, snapshot.metadata) == (6, metadata())


@PLACES
def test_a_checksum_of_a_lost_commit_makes_no_damage_of_the_log(
    log: DeltaLog, place: Place
) -> None:
    place(log)
    for version in range(2, log.snapshot().version + 1):
        assert not validate_checksum(log.snapshot(version)) or version == 2


def marks_of(log: DeltaLog) -> list[tuple[int, str, str | None]]:
    snapshot = log.snapshot()
    found = find_lost_commits(
        log.storage, log.log_directory, snapshot.marks, snapshot.state_checksum
    )
    return [(lost.version, lost.txn_id, lost.standing_txn_id) for lost in found]


def txn_id_said(log: DeltaLog, version: int) -> str:
    place = Path(log.uri) / "_delta_log" / checksum_name(version)
    recorded: str = json.loads(place.read_text())["txnId"]
    return recorded


@pytest.mark.parametrize("has_checkpoint", [False, True], ids=["read", "known from opening"])
def test_a_lost_commit_is_found_with_both_transactions(log: DeltaLog, has_checkpoint: bool) -> None:
    if has_checkpoint:
        write_checkpoint(log.snapshot(), now_ms=0)
    version = commit_to_be_lost(log)
    theirs = replace_commit(log, version, THEIRS)
    assert marks_of(log) == [(version, txn_id_said(log, version), theirs)]


@pytest.mark.parametrize(
    ("in_checksum", "in_commit"),
    [
        pytest.param(None, "a", id="the checksum names none"),
        pytest.param("a", None, id="the commit names none"),
        pytest.param(5, "a", id="the checksum names no text"),
        pytest.param("a", 5, id="the commit names no text"),
        pytest.param("a", "a", id="both name the same"),
        pytest.param('"\\', '"\\', id="both name the same, escaped"),
    ],
)
def test_a_commit_without_evidence_is_not_lost(
    log: DeltaLog, in_checksum: object, in_commit: object
) -> None:
    replace_commit(log, 2, txnId=in_commit)
    place = Path(log.uri) / "_delta_log" / checksum_name(2)
    place.write_text(json.dumps({"txnId": in_checksum, "numFiles": 3}))
    assert marks_of(log) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"numFiles":3}', b"[1]", b"[" * 100_000])
def test_a_checksum_without_a_txn_id_makes_no_lost_commit(log: DeltaLog, content: bytes) -> None:
    (Path(log.uri) / "_delta_log" / checksum_name(2)).write_bytes(content)
    assert marks_of(log) == []


@pytest.mark.parametrize(
    ("files", "padding"),
    [
        pytest.param(1, 0, id="a small commit"),
        pytest.param(1_000, 0, id="a large commit"),
        pytest.param(1_000, 40_000, id="a large commit with a long first line"),
    ],
)
@pytest.mark.parametrize("is_current", [True, False])
def test_the_commit_of_a_checkpoint_is_compared_too(
    log: DeltaLog, files: int, padding: int, is_current: bool
) -> None:
    named = [add(f"theirs {number}") for number in range(files)]
    theirs = replace_commit(log, 2, *named, userMetadata="x" * padding)
    write_checkpoint(log.snapshot(), now_ms=0)
    place = Path(log.uri) / "_delta_log" / checksum_name(2)
    recorded = json.loads(place.read_text())
    place.write_text(json.dumps({**recorded, "txnId": theirs if is_current else recorded["txnId"]}))
    found = log.snapshot().state_checksum
    assert (found.checksum is not None, found.lost is None) == (is_current, is_current)


def test_where_the_commit_of_a_checkpoint_is_gone_the_checkpoint_is_opened(log: DeltaLog) -> None:
    version = log.snapshot().version
    write_checkpoint(log.snapshot(), now_ms=0)
    (Path(log.uri) / "_delta_log" / commit_name(version)).unlink()
    reported = log.snapshot().state_checksum
    assert (reported.checksum, reported.lost) == (None, None)
    assert log.snapshot().num_files == 3


@pytest.mark.parametrize(
    ("appends", "calls"),
    [
        pytest.param(0, ["crc", "json"], id="at a checkpoint its commit's first line is read"),
        pytest.param(2, ["json", "json", "crc"], id="after it no more than without the comparison"),
    ],
)
def test_opening_by_a_checksum_reads_few_files(
    log: DeltaLog, appends: int, calls: list[str]
) -> None:
    write_checkpoint(log.snapshot(), now_ms=0)
    for number in range(appends):
        append(log, f"more {number}")
    seen: list[str] = []

    def on_call(_number: int, method: str, path: str, moment: str) -> None:
        if moment == "before" and method.startswith("read") and "last_checkpoint" not in path:
            seen.append(path.rpartition(".")[2])

    counted = DeltaLog(log.uri, storage=CountingStorage(open_storage(log.uri), on_call))
    assert counted.snapshot().metadata == metadata()
    assert seen == calls
