"""delta-spark's writers on a plain disk, beside others: a rename replaces an unseen file.

Its log store checks whether a version exists, and then renames its file; on a disk a rename
replaces a file that appeared in between. If a version of delta-spark makes these tests fail, it has
closed that gap, and the warnings in `docs/concurrency.md` and in 012 do not apply to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.events import CommitLost, Event
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import health
from delta_ops.protocol.file_names import checksum_name, commit_name
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows

Append = Callable[[Path, pa.Table], object]


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def by_deltalake(root: Path, table: pa.Table) -> None:
    write_deltalake(str(root), table, mode="append")


def committed(root: Path, version: int) -> list[dict[str, Any]]:
    lines = (root / "_delta_log" / commit_name(version)).read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "append",
    [
        pytest.param(da.write, id="ours"),
        pytest.param(by_deltalake, id="deltalake's", marks=pytest.mark.full),
    ],
)
def test_a_commit_that_was_acknowledged_is_replaced_by_one_of_delta_spark(
    delta_spark: DeltaSpark, tmp_path: Path, append: Append
) -> None:
    root = tmp_path / "t"
    da.write(root, ids(0))
    acknowledged: list[Any] = []

    def meanwhile() -> None:
        append(root, ids(1))
        acknowledged.extend(committed(root, 1))

    delta_spark.append_meanwhile(root, ids(2), meanwhile)
    assert acknowledged
    assert committed(root, 1) != acknowledged
    assert rows(da.to_table(DeltaLog(root))) == [{"id": 0}, {"id": 2}]


@pytest.mark.full
def test_commits_that_delta_spark_replaced_are_reported_and_both_continue(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    log = DeltaLog(root)
    da.write(log, ids(0))
    delta_spark.append_meanwhile(root, ids(2), lambda: da.write(log, ids(1), txn=("nightly", 1)))
    (lost,) = health(log).figures.lost_commits
    assert lost.version == 1

    events: list[Event] = []
    again = da.write(begin(log, on_event=events.append), ids(1), txn=("nightly", 1))
    assert not again.already_committed
    assert [event.version for event in events if isinstance(event, CommitLost)] == [1]
    assert validate_checksum(log.snapshot())

    (root / "_delta_log" / checksum_name(1)).unlink()
    delta_spark.write(root, ids(3))
    assert delta_spark.validate(root)["transactions"] == {"nightly": 1}
    assert rows(delta_spark.read(root)) == rows(da.to_table(log)) == rows(ids(0, 1, 2, 3))
    assert not health(log).figures.lost_commits
