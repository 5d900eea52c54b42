"""Version checksums instead of checkpoints: a hint that only saves a file read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Protocol, SetTransaction
from delta_ops.protocol.json.codec import json_body
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.tables import PROTOCOL, add, clean_up, live_paths, metadata, write_log

CHECKPOINT = 2
NEWER = metadata(id="1" * 36)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Four versions, a checkpoint of the third, and the calls that open its files."""
    txn = SetTransaction(app_id="a", version=1, last_updated=1)
    written = write_log(tmp_path, [[add("0"), txn], [add("1")], [add("2")], [add("3")]])
    write_checkpoint(written.snapshot(CHECKPOINT), now_ms=0)
    return counted(tmp_path)


class Calls(list[str]):
    """The files that were opened or read, in order."""

    @property
    def checkpoints(self) -> int:
        return sum(name.endswith("checkpoint.parquet") for name in self)

    @property
    def checksums(self) -> int:
        return sum(name.endswith(".crc") for name in self)


AT_ONCE = 1
"""The number of times that a checkpoint is opened to read its state."""
CALLS = Calls()


def counted(root: Path) -> DeltaLog:
    def on_call(number: int, method: str, path: str, moment: str) -> None:
        if moment == "before" and method != "list_from":
            CALLS.append(path)

    CALLS.clear()
    return DeltaLog(root, storage=CountingStorage(open_storage(root), on_call))


def put(log: DeltaLog, version: int, **changes: Any) -> None:
    """Write a checksum of the version with the given changes."""
    body = {
        "tableSizeBytes": version + 1,
        "numFiles": version + 1,
        "protocol": json_body(PROTOCOL),
        "metadata": json_body(metadata()),
        **changes,
    }
    place = Path(log.uri) / "_delta_log" / f"{version:020d}.crc"
    place.write_text(json.dumps(body))


@pytest.mark.parametrize("version", [2, 3], ids=["of the checkpoint", "of a later version"])
def test_with_a_checksum_the_checkpoint_stays_closed_until_it_is_needed(
    log: DeltaLog, version: int
) -> None:
    put(log, version)
    snapshot = log.snapshot()
    assert (snapshot.protocol, snapshot.metadata) == (PROTOCOL, metadata())
    assert snapshot.schema.fields[0].name == "id"
    assert (CALLS.checksums, CALLS.checkpoints) == (1, 0)
    assert snapshot.transactions()["a"].version == 1
    assert set(snapshot.files(["path"])["path"].to_pylist()) == {"0", "1", "2", "3"}
    assert pickle.loads(pickle.dumps(log.snapshot().files())).num_rows == 4


def test_without_a_checksum_nothing_is_looked_for(log: DeltaLog) -> None:
    assert log.snapshot().metadata == metadata()
    assert (CALLS.checksums, CALLS.checkpoints) == (0, AT_ONCE)


@pytest.mark.parametrize("version", [1, 4], ids=["before the checkpoint", "after the version"])
def test_a_checksum_of_another_version_is_not_read(log: DeltaLog, version: int) -> None:
    put(log, version, metadata=json_body(NEWER))
    # The hint alone would hide an older checksum from the listing.
    (Path(log.uri) / "_delta_log" / "_last_checkpoint").unlink()
    assert log.snapshot().metadata == metadata()
    assert (CALLS.checksums, CALLS.checkpoints) == (0, AT_ONCE)


def test_a_checksum_of_a_later_version_says_nothing_of_an_earlier_one(log: DeltaLog) -> None:
    create_commit(log.storage, log.log_directory, 4, [NEWER])
    put(log, 4, metadata=json_body(NEWER))
    assert log.snapshot(3).metadata == metadata()
    assert log.snapshot().metadata == NEWER


def test_actions_after_the_checksum_count(log: DeltaLog) -> None:
    put(log, 2)
    create_commit(log.storage, log.log_directory, 4, [NEWER])
    snapshot = log.snapshot()
    assert snapshot.metadata == NEWER
    assert CALLS.checkpoints == 0
    assert snapshot.num_files == 4


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="malformed"),
        pytest.param(b"[" * 100_000, id="nested beyond all measure"),
        pytest.param(b'{"numFiles":3,"tableSizeBytes":3}', id="incomplete"),
        pytest.param(
            json.dumps({"protocol": json_body(PROTOCOL), "metadata": {"id": 5}}).encode(),
            id="malformed in part",
        ),
        pytest.param(
            json.dumps(
                {
                    "protocol": json_body(PROTOCOL),
                    "metadata": {**json_body(metadata()), "schemaString": "{"},
                }
            ).encode(),
            id="with a broken schema",
        ),
        pytest.param(
            json.dumps(
                {
                    "protocol": json_body(Protocol(min_reader_version=9, min_writer_version=9)),
                    "metadata": json_body(metadata()),
                }
            ).encode(),
            id="of a table that we could not open",
        ),
    ],
)
def test_a_checksum_that_is_no_use_is_passed_over(log: DeltaLog, content: bytes) -> None:
    (Path(log.uri) / "_delta_log" / f"{3:020d}.crc").write_bytes(content)
    snapshot = log.snapshot()
    assert (snapshot.protocol, snapshot.metadata) == (PROTOCOL, metadata())
    assert CALLS.checkpoints == AT_ONCE


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            {"metadata": json_body(NEWER)},
            "metadata.id is 1+, but the",
            id="metadata",
        ),
        pytest.param(
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}},
            "minWriterVersion is 3, but the checkpoint's is 2",
            id="protocol",
        ),
        pytest.param(
            {"metadata": json_body(metadata(configuration={"a": "1"}))},
            "metadata.configuration is",
            id="properties",
        ),
    ],
)
def test_a_checksum_that_the_checkpoint_contradicts_is_found_before_a_file_is_read(
    log: DeltaLog, changed: dict[str, Any], message: str
) -> None:
    put(log, 3, **changed)
    snapshot = log.snapshot()
    for read in (snapshot.files, snapshot.tombstones, snapshot.transactions):
        with pytest.raises(LogCorruptError, match=rf"{3:020d}\.crc: .*{message}"):
            read()


def test_a_snapshot_goes_on_without_opening_the_checkpoint_twice(log: DeltaLog) -> None:
    put(log, 2)
    snapshot = log.snapshot()
    assert snapshot.num_files == 4
    opened = CALLS.checkpoints
    create_commit(log.storage, log.log_directory, 4, [add("4")])
    refreshed = snapshot.refresh()
    assert refreshed.transactions()["a"].version == 1
    assert CALLS.checkpoints == opened
    assert (refreshed.version, refreshed.num_files) == (4, 5)


def test_a_checkpoint_that_is_gone_when_it_is_needed_is_named(log: DeltaLog) -> None:
    put(log, 2)
    snapshot, other = log.snapshot(), log.snapshot()
    (Path(log.uri) / "_delta_log" / f"{2:020d}.checkpoint.parquet").unlink()
    assert snapshot.transactions() == DeltaLog(log.uri).snapshot().transactions()
    assert live_paths(DeltaLog(log.uri)) == {"0", "1", "2", "3"}
    clean_up(log)
    with pytest.raises(LogCorruptError, match=r"checkpoint.parquet: .* is missing"):
        other.transactions()


def test_a_checksum_of_a_commit_that_was_taken_back_is_passed_over(log: DeltaLog) -> None:
    put(log, 3, txnId="of the commit that was there before", metadata=json_body(NEWER))
    assert log.snapshot().metadata == metadata()
    assert CALLS.checkpoints == AT_ONCE


@pytest.mark.parametrize("version", [None, CHECKPOINT])
def test_a_reader_of_files_opens_the_checkpoint_only(log: DeltaLog, version: int | None) -> None:
    expected = log.snapshot(version)
    CALLS.clear()
    found = log.snapshot_with_files(version)
    assert found.files(["path"]).sort_by("path") == expected.files(["path"]).sort_by("path")
    assert found.definition == expected.definition
    assert (CALLS.checkpoints, CALLS.checksums) == (AT_ONCE, 0)


def test_a_reader_of_files_passes_over_a_damaged_checkpoint(log: DeltaLog, tmp_path: Path) -> None:
    (checkpoint,) = tmp_path.glob("_delta_log/*.checkpoint.parquet")
    checkpoint.write_bytes(b"damaged")
    found = log.snapshot_with_files()
    assert set(found.files(["path"])["path"].to_pylist()) == {"0", "1", "2", "3"}
    assert [each.version for each in found.damaged_checkpoints] == [CHECKPOINT]
