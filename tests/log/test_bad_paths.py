"""Invalid file paths in the log: the error names the file and its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import FileAction
from tests.support.tables import add, clean_up, remove, write_log

BAD = pytest.mark.parametrize(
    ("action", "reason"),
    [
        pytest.param(add("s3://b/../x"), "leaves its store", id="an add that climbs"),
        pytest.param(remove("s3://b/../x"), "leaves its store", id="a remove that climbs"),
        pytest.param(add("s3://b/%2e%2e/x"), "leaves its store", id="escaped dots"),
        pytest.param(add("x%FF"), "not UTF-8", id="an escape that is no text"),
    ],
)


@BAD
@pytest.mark.parametrize("bulk", [False, True], ids=["few lines", "many lines"])
def test_a_path_of_a_commit_is_named_with_its_line(
    tmp_path: Path, action: FileAction, reason: str, bulk: bool
) -> None:
    others = [add(str(i)) for i in range(100 if bulk else 3)]
    log = write_log(tmp_path, [[add("0")], [*others, action], [add("2")]])
    with pytest.raises(LogCorruptError) as raised:
        log.snapshot()
    assert f"_delta_log/{1:020d}.json, line {len(others) + 1}, path" in str(raised.value)
    assert reason in str(raised.value)
    assert log.snapshot(0).num_files == 1


@BAD
def test_a_path_of_a_new_commit_is_named_when_a_snapshot_goes_on(
    tmp_path: Path, action: FileAction, reason: str
) -> None:
    log = write_log(tmp_path, [[add("0")]])
    snapshot = log.snapshot()
    create_commit(log.storage, log.log_directory, 1, [add("1"), action])
    with pytest.raises(LogCorruptError, match=rf"{1:020d}.json, line 2, path .*{reason}"):
        snapshot.refresh()


@pytest.mark.parametrize("later", [[], [add("1")]], ids=["checkpoint alone", "a later commit"])
@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda log: log.snapshot().files(), id="files"),
        pytest.param(lambda log: log.snapshot().files(["path"]), id="paths"),
    ],
)
def test_a_path_of_a_checkpoint_is_named_with_the_checkpoint(
    tmp_path: Path, later: list[FileAction], read: Callable[[DeltaLog], pa.Table]
) -> None:
    log = write_log(tmp_path, [[add("0")]])
    write_checkpoint(log.snapshot(), now_ms=0)
    place = tmp_path / "_delta_log" / f"{0:020d}.checkpoint.parquet"
    rows = pq.read_table(place).to_pylist()
    for row in rows:
        if row["add"]:
            row["add"]["path"] = "s3://b/../x"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(place)), place)
    clean_up(log)
    if later:
        create_commit(log.storage, log.log_directory, 1, later)
    with pytest.raises(
        LogCorruptError, match=rf"{place.name}, path s3://b/\.\./x: .*leaves its store"
    ):
        read(log)
