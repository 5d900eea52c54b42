"""Our log compactions, read by engines that read them in place of the commits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.maintenance import compact_log, create_checkpoint
from delta_ops.protocol.file_names import commit_name, compaction_name
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows, rows_by_deltalake


def written(root: Path) -> DeltaLog:
    """A checkpoint of version 2, then an overwrite with expired removes, and appends."""
    log = DeltaLog(root)
    for number in range(3):
        da.write(log, pa.table({"id": [number]}))
    create_checkpoint(log)
    txn = begin(log, clock=lambda: 1)
    da.write(txn, pa.table({"id": [10]}), mode="overwrite")
    for number in (11, 12):
        da.write(log, pa.table({"id": [number]}), txn=("app", number))
    return log


def test_delta_spark_and_deltalake_read_the_same_table_afterwards(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    log = written(root)
    before = rows(delta_spark.read(root))
    assert compact_log(log).plan.file_name == compaction_name(3, 5)
    assert rows(delta_spark.read(root)) == before == rows_by_deltalake(root)
    assert before == [{"id": 10}, {"id": 11}, {"id": 12}]
    assert delta_spark.validate(root)["transactions"] == {"app": 12}
    assert delta_spark.warnings == ""


@pytest.mark.full
def test_delta_spark_does_read_it_in_place_of_the_commits(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    """Control for the test above: a commit covered by the compaction is unreadable."""
    root = tmp_path / "t"
    log = written(root)
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()
    compact_log(log)
    (root / "_delta_log" / commit_name(4)).write_text("{")
    assert rows(delta_spark.read(root)) == [{"id": 10}, {"id": 11}, {"id": 12}]
