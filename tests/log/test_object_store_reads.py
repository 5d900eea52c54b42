"""Requests for reading a table on an object store, as its server records them.

Tables are made on the local disk and uploaded.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.actions import SetTransaction
from delta_ops.protocol.file_names import LAST_CHECKPOINT, checkpoint_name, commit_name
from tests.support.counting_storage import CountingStorage
from tests.support.servers.s3 import Request, S3Server, kinds
from tests.support.tables import add, live_paths, write_log

LOG = "_delta_log"


def checkpoint_of(folder: Path, num_files: int, row_group_size: int | None = None) -> bytes:
    """A checkpoint of a table with this many files, and of one transaction identifier."""
    noise = [os.urandom(200).hex() for _ in range(num_files)]
    stats = [json.dumps({"numRecords": 1, "ofNoUse": text}) for text in noise]
    adds = [add(f"{i}-{os.urandom(8).hex()}", stats=stats[i]) for i in range(num_files)]
    log = write_log(folder, [[SetTransaction(app_id="a", version=7, last_updated=1), *adds]])
    write_checkpoint(log.snapshot(), now_ms=0)
    path = folder / LOG / checkpoint_name(0)
    if row_group_size is not None:
        pq.write_table(pq.read_table(path), path, row_group_size=row_group_size)
    return path.read_bytes()


def commit_of(path: str) -> bytes:
    action = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0}
    return json.dumps({"add": {**action, "dataChange": True}}).encode()


def uploaded(server: S3Server, checkpoint: bytes, version: int, num_after: int) -> DeltaLog:
    """A table with a checkpoint at a version, with every earlier commit and some later commits."""
    later = range(version + 1, version + 1 + num_after)
    objects = {
        **{f"t/{LOG}/{commit_name(v)}": b"{}" for v in range(version + 1)},
        **{f"t/{LOG}/{commit_name(v)}": commit_of(f"later-{v}") for v in later},
        f"t/{LOG}/{checkpoint_name(version)}": checkpoint,
        f"t/{LOG}/{LAST_CHECKPOINT}": json.dumps({"version": version, "size": 1}).encode(),
        f"t/{LOG}/_sidecars/a.parquet": b"",
        "t/data.parquet": b"",
    }
    bucket = server.new_bucket()
    server.put(bucket, objects)
    return DeltaLog(f"s3://{bucket}/t", server.storage_options)


def requested_bytes(requests: Sequence[Request]) -> int:
    """The total length of the requests' ranges; every request has a range."""
    bounds = [request.byte_range.removeprefix("bytes=").split("-") for request in requests]
    return sum(int(last) - int(first) + 1 for first, last in bounds)


@pytest.mark.parametrize("version", [10, 10_000])
def test_a_small_table_is_opened_by_a_get_a_file_and_one_listing_however_long_its_log(
    s3_server: S3Server, tmp_path: Path, version: int
) -> None:
    log = uploaded(s3_server, checkpoint_of(tmp_path, 3), version, num_after=4)
    with s3_server.recording() as requests:
        snapshot = log.snapshot()
    hint_and_checkpoint, commits = 2, 4
    assert kinds(requests) == {"GET": hint_and_checkpoint + commits, "LIST": 1}
    assert snapshot.version == version + 4
    assert snapshot.transactions()["a"].version == 7
    with s3_server.recording() as requests:
        assert snapshot.files().num_rows == 3 + 4
    assert requests == []


def test_a_large_checkpoint_is_read_once_by_footer_and_wanted_columns(
    s3_server: S3Server, tmp_path: Path
) -> None:
    checkpoint = checkpoint_of(tmp_path, 20_000, row_group_size=10_000)
    log = uploaded(s3_server, checkpoint, 20, num_after=0)
    with s3_server.recording() as opening:
        snapshot = log.snapshot()
    with s3_server.recording() as listing:
        assert snapshot.files(["path"]).num_rows == 20_000
    with s3_server.recording() as reading:
        assert snapshot.files(["stats"]).num_rows == 20_000
    end = f"-{len(checkpoint) - 1}"
    of_checkpoint = [each for each in opening if each.byte_range]
    assert kinds(opening) == {"GET": 1 + len(of_checkpoint), "LIST": 1}
    assert [each.byte_range.endswith(end) for each in of_checkpoint].count(True) == 1
    assert requested_bytes(of_checkpoint) < len(checkpoint) / 5
    assert {each.kind for each in listing} == {"GET"}
    assert not any(each.byte_range.endswith(end) for each in listing)
    assert requested_bytes(listing) < requested_bytes(reading) / 5
    assert requested_bytes(reading) < len(checkpoint)


def test_opening_a_table_reads_only_columns_without_files_of_each_row_group(
    s3_server: S3Server, tmp_path: Path
) -> None:
    log = uploaded(s3_server, checkpoint_of(tmp_path, 20_000, 5_000), 1, num_after=0)
    with s3_server.recording() as requests:
        snapshot = log.snapshot()
    assert snapshot.transactions()["a"].version == 7
    # Other actions surround the file columns; neighbouring columns are one range.
    hint, footer, ranges = 1, 1, 4 + 1
    assert kinds(requests)["GET"] == hint + footer + ranges


@pytest.mark.full
def test_a_footer_longer_than_most_takes_one_more_request(
    s3_server: S3Server, tmp_path: Path
) -> None:
    log = uploaded(s3_server, checkpoint_of(tmp_path, 20_000, 500), 1, num_after=0)
    with s3_server.recording() as requests:
        log.snapshot()
    # The groups are small: the wanted columns of all except the last lie close together.
    hint, footer, ranges = 1, 2, 2
    assert kinds(requests)["GET"] == hint + footer + ranges


def test_looking_for_what_is_new_takes_one_listing(s3_server: S3Server, tmp_path: Path) -> None:
    log = uploaded(s3_server, checkpoint_of(tmp_path, 3), 2_000, num_after=0)
    snapshot = log.snapshot()
    with s3_server.recording() as requests:
        assert snapshot.refresh() is snapshot
    assert kinds(requests) == {"LIST": 1}


@pytest.mark.full
def test_commits_are_read_at_the_same_time(s3_server: S3Server, tmp_path: Path) -> None:
    log = uploaded(s3_server, checkpoint_of(tmp_path, 1), 1, num_after=48)
    log.snapshot()
    with s3_server.holding(until=16):
        assert log.snapshot().files().num_rows == 49
        assert s3_server.most_held == 16


@pytest.mark.full
def test_a_forked_process_reads_at_the_same_time_as_well(
    s3_server: S3Server, tmp_path: Path
) -> None:
    """A forked child lacks the connections, event loop and threads of its parent."""
    log = uploaded(s3_server, checkpoint_of(tmp_path, 1), 1, num_after=48)
    program = f"""
import os
from delta_ops import DeltaLog
log = DeltaLog({log.uri!r}, {s3_server.storage_options!r})
assert log.snapshot().files().num_rows == 49
child = os.fork()
if not child:
    os._exit(log.snapshot().files().num_rows != 49)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    with s3_server.holding(until=16):
        done = subprocess.run(
            [sys.executable, "-c", program], check=False, stderr=subprocess.PIPE, timeout=300
        )
        assert s3_server.most_held == 16
    assert done.returncode == 0, done.stderr


def test_an_opened_table_pickles_and_shows_no_credential(
    s3_server: S3Server, tmp_path: Path
) -> None:
    log = uploaded(s3_server, checkpoint_of(tmp_path, 3_000, 1_000), 1, num_after=1)
    snapshot = log.snapshot()
    copies: list[DeltaLog | Snapshot] = pickle.loads(pickle.dumps([log, snapshot]))
    copied_log, copied = copies
    assert isinstance(copied_log, DeltaLog)
    assert isinstance(copied, Snapshot)
    assert live_paths(copied_log) == set(copied.files(["path"])["path"].to_pylist())
    shown = "".join(map(repr, [log, log.storage, snapshot, *copies]))
    assert s3_server.storage_options["secret"] not in shown
    assert s3_server.storage_options["key"] not in shown


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Callable[[bytes], DeltaLog]]:
    """Puts a checkpoint into an in-memory table, which is read like an object store."""
    log = DeltaLog(f"memory://{tmp_path.name}/t")

    def put(checkpoint: bytes) -> DeltaLog:
        log.storage.replace(f"{LOG}/{checkpoint_name(0)}", checkpoint)
        return log

    yield put
    log.storage.delete_many([info.path for info in log.storage.list_tree("")])


def test_a_checkpoint_in_a_store_is_never_handed_to_arrow_as_a_file_to_call(
    in_memory: Callable[[bytes], DeltaLog], tmp_path: Path
) -> None:
    calls = []
    inner = in_memory(checkpoint_of(tmp_path, 3_000, 500)).storage
    storage = CountingStorage(inner, lambda number, method, path, moment: calls.append(method))
    assert len(live_paths(DeltaLog("", storage=storage))) == 3_000
    assert set(calls) == {"read", "list_from", "read_ranges"}


def outside_of_the_file(content: bytes) -> bytes:
    """A footer with columns beyond the end of the file."""
    length = int.from_bytes(content[-8:-4], "little") + 8
    return b"PAR1" + content[-length:]


damages = pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:7], id="too short for a footer"),
        pytest.param(lambda content: content[:-9], id="cut off at the end"),
        pytest.param(lambda content: content[: len(content) // 2], id="cut off in the middle"),
        pytest.param(
            lambda content: content[:-8] + b"\xff\xff\xff\xff" + content[-4:],
            id="a footer longer than the file",
        ),
        pytest.param(
            lambda content: content[:-8] + b"\x00\x00\x00\x00" + content[-4:], id="no footer"
        ),
        pytest.param(outside_of_the_file, id="columns outside of the file"),
        pytest.param(lambda content: bytes(len(content) - 4) + b"PAR1", id="zeros"),
    ],
)


@pytest.mark.some_cases(2)
@damages
@pytest.mark.parametrize(
    "num_files",
    [pytest.param(3, id="small", marks=pytest.mark.full), pytest.param(20_000, id="large")],
)
def test_a_damaged_checkpoint_is_an_error_that_names_it(
    in_memory: Callable[[bytes], DeltaLog],
    tmp_path: Path,
    num_files: int,
    damage: Callable[[bytes], bytes],
) -> None:
    log = in_memory(damage(checkpoint_of(tmp_path, num_files)))
    with pytest.raises(LogCorruptError, match=r"checkpoint\.parquet: the checkpoint cannot be"):
        log.snapshot().files()


def v2_checkpoint(sidecar: bytes, size: int) -> dict[str, bytes]:
    """A V2 checkpoint by file name, with a sidecar whose declared size may be wrong."""
    schema = '{"type":"struct","fields":[]}'
    top = [
        {"checkpointMetadata": {"version": 0}},
        {"sidecar": {"path": "s.parquet", "sizeInBytes": size, "modificationTime": 0}},
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["v2Checkpoint"],
                "writerFeatures": ["v2Checkpoint"],
            }
        },
        {
            "metaData": {
                "id": "0" * 36,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    name = f"{0:020d}.checkpoint.{'0' * 8}-0000-0000-0000-{'0' * 12}.json"
    text = "\n".join(json.dumps(action) for action in top)
    return {f"{LOG}/{name}": text.encode(), f"{LOG}/_sidecars/s.parquet": sidecar}


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(lambda size: 10**18, id="more than any file has"),
        pytest.param(lambda size: size + 1, id="one byte more"),
        pytest.param(lambda size: size - 1, id="one byte less"),
        pytest.param(lambda size: 0, id="nothing"),
        pytest.param(lambda size: -1, id="less than nothing"),
    ],
)
def test_a_sidecar_whose_size_is_a_lie_is_an_error_that_names_it(
    s3_server: S3Server, tmp_path: Path, lie: Callable[[int], int]
) -> None:
    sidecar = checkpoint_of(tmp_path, 5)
    bucket = s3_server.new_bucket()
    objects = v2_checkpoint(sidecar, lie(len(sidecar)))
    s3_server.put(bucket, {f"t/{name}": data for name, data in objects.items()})
    snapshot = DeltaLog(f"s3://{bucket}/t", s3_server.storage_options).snapshot()
    with pytest.raises(LogCorruptError, match=r"_sidecars/s\.parquet: the checkpoint cannot be"):
        snapshot.files()


def test_sidecars_are_read_by_their_recorded_size(s3_server: S3Server, tmp_path: Path) -> None:
    sidecar = checkpoint_of(tmp_path, 5)
    bucket = s3_server.new_bucket()
    objects = v2_checkpoint(sidecar, len(sidecar))
    s3_server.put(bucket, {f"t/{name}": data for name, data in objects.items()})
    snapshot = DeltaLog(f"s3://{bucket}/t", s3_server.storage_options).snapshot()
    with s3_server.recording() as requests:
        assert snapshot.files().num_rows == 5
    assert kinds(requests) == {"GET": 1}


def test_a_sidecar_that_is_gone_is_an_error_that_names_it(
    s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = s3_server.new_bucket()
    objects = v2_checkpoint(b"", 1_000)
    s3_server.put(bucket, {f"t/{n}": data for n, data in objects.items() if "_side" not in n})
    snapshot = DeltaLog(f"s3://{bucket}/t", s3_server.storage_options).snapshot()
    with pytest.raises(LogCorruptError, match=r"_sidecars/s\.parquet: this checkpoint file"):
        snapshot.files()


def test_many_row_groups_come_in_their_order(
    in_memory: Callable[[bytes], DeltaLog], tmp_path: Path
) -> None:
    checkpoint = checkpoint_of(tmp_path, 5_000, 100)
    stored = pq.read_table(pa.BufferReader(checkpoint))["add"].combine_chunks().field("path")
    listed = in_memory(checkpoint).snapshot().files(["path"])["path"]
    assert listed.to_pylist() == stored.drop_null().to_pylist()
