"""Partition values that do not fit their column's type: the error names file and place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from delta_ops import DeltaLog, Snapshot, col
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from tests.support.tables import add, metadata, write_log

READS = pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda snapshot: snapshot.files(), id="values that are shown"),
        pytest.param(
            lambda snapshot: snapshot.files(["size"], predicate=col("id") == 1),
            id="values that are compared",
        ),
        pytest.param(
            lambda snapshot: snapshot.add_files(col("id") == 1), id="values of what is rewritten"
        ),
    ],
)


def table(root: Path) -> DeltaLog:
    good = [add(f"id={i}/x", partition_values={"id": str(i)}) for i in range(3)]
    bad = add("id=one/x", partition_values={"id": "one"})
    return write_log(root, [[metadata(partition_columns=("id",)), *good], [good[0], bad]])


@READS
def test_a_value_of_a_commit_is_named_with_its_line(
    tmp_path: Path, read: Callable[[Snapshot], pa.Table]
) -> None:
    place = rf"_delta_log/{1:020d}\.json, line 2, path id=one/x"
    with pytest.raises(LogCorruptError, match=f"{place}: .*'one' is not a valid long.* id"):
        read(table(tmp_path).snapshot())


@READS
def test_a_value_of_a_checkpoint_is_named_with_the_checkpoint(
    tmp_path: Path, read: Callable[[Snapshot], pa.Table]
) -> None:
    log = table(tmp_path)
    write_checkpoint(log.snapshot(), now_ms=0)
    create_commit(log.storage, log.log_directory, 2, [add("id=5/x", partition_values={"id": "5"})])
    place = rf"_delta_log/{1:020d}\.checkpoint\.parquet, path id=one/x"
    with pytest.raises(LogCorruptError, match=f"{place}: .*'one' is not a valid long.* id"):
        read(log.snapshot())


def test_the_files_can_be_listed_without_their_values(tmp_path: Path) -> None:
    assert table(tmp_path).snapshot().files(["path"]).num_rows == 4
