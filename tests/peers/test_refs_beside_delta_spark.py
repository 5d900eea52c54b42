"""delta-spark on main, beside branches and tags of the same table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import vacuum
from delta_ops.versioning import create_branch, create_tag, open_branch, publish, verify_refs
from tests.peers.delta_spark import DeltaSpark

pytestmark = pytest.mark.full


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def test_delta_spark_changes_and_maintains_main_beside_a_branch_and_a_tag(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    for number in (1, 2, 3):
        delta_spark.write(table, rows_of(number))
    create_tag(table, "report")
    create_branch(table, "audit")
    branch = open_branch(table, "audit")
    da.delete(branch, "id = 1")
    da.write(branch, rows_of(10))

    name = f"delta.`{table}`"
    delta_spark.write(table, rows_of(4))
    delta_spark.sql(f"OPTIMIZE {name}")
    delta_spark.sql(f"VACUUM {name}")
    assert ids(delta_spark.read(table)) == [1, 2, 3, 4]
    assert ids(da.to_table(table, ref="tag:report")) == [1, 2, 3]
    assert ids(da.to_table(branch)) == [2, 3, 10]
    vacuum(table, retention=timedelta(0), enforce_retention=False)
    assert [each.ref for each in verify_refs(table) if not each.is_readable] == []
    assert ids(da.to_table(table, ref="tag:report")) == [1, 2, 3]
    assert ids(da.to_table(branch)) == [2, 3, 10]


def test_delta_spark_reads_and_changes_what_was_published(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    delta_spark.write(table, rows_of(1, 2))
    create_branch(table, "audit")
    branch = open_branch(table, "audit")
    da.delete(branch, "id = 1")
    da.write(branch, rows_of(10))
    delta_spark.write(table, rows_of(3))
    version = publish(table, "audit", rebase=True).version
    assert ids(delta_spark.read(table)) == [2, 3, 10]
    assert delta_spark.validate(table)["version"] == version
    delta_spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 10")
    delta_spark.sql(f"OPTIMIZE delta.`{table}`")
    assert ids(da.to_table(DeltaLog(table))) == [2, 3]
