"""Calls of `format("delta")`, with delta_ops registered and with delta-spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows as rows_in_order

pytestmark = pytest.mark.spark


class Call(NamedTuple):
    """One `df.write.format("delta")`."""

    rows: pa.Table
    mode: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = MappingProxyType({})


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [str(n % 3) for n in ids], **more})


CALLS = (
    Call(rows(*range(12)), "errorifexists", ("P",), {"delta.enableChangeDataFeed": "true"}),
    Call(rows(20, 21), "append", (), {"txnAppId": "loader", "txnVersion": "1"}),
    Call(rows(20, 21), "append", (), {"txnAppId": "loader", "txnVersion": "1"}),
    Call(rows(3, 6), "overwrite", (), {"replaceWhere": "p = '0' AND id < 8"}),
    Call(rows(1, 4), "overwrite", (), {"partitionOverwriteMode": "dynamic"}),
    Call(rows(99), "ignore"),
    Call(rows(30, new=["x"]), "append", (), {"mergeSchema": "true", "userMetadata": "why"}),
    Call(rows(7, other=[1.5]), "overwrite", (), {"overwriteSchema": "true", "mergeSchema": "true"}),
    Call(rows(*range(40, 50), other=[0.5] * 10), "append", (), {"overwriteSchema": "true"}),
)


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    ds.register(spark)
    yield spark
    ds.unregister(spark)


@pytest.mark.full
def test_the_same_calls_make_the_same_table(
    tmp_path: Path, delta: SparkSession, delta_spark: DeltaSpark
) -> None:
    ours, theirs, source = tmp_path / "ours", tmp_path / "theirs", tmp_path / "rows.parquet"
    for call in CALLS:
        pq.write_table(call.rows, source)
        frame = delta.createDataFrame(pq.read_table(source))
        frame.write.format("delta").partitionBy(*call.partition_by).options(**call.options).save(
            str(ours), mode=call.mode
        )
        delta_spark.write(
            theirs, call.rows, call.mode, partition_by=call.partition_by, **call.options
        )
        expected = rows_in_order(da.to_table(theirs))
        assert rows_in_order(da.to_table(ours)) == expected
        assert commit_of(ours) == commit_of(theirs)
    by_spark = delta.read.format("delta").load(str(ours)).toArrow()
    assert rows_in_order(by_spark) == expected == rows_in_order(delta_spark.read(ours))


def commit_of(table: Path) -> dict[str, Any]:
    """The table's definition, and the commit info of the last commit."""
    snapshot = DeltaLog(table).snapshot()
    entry = next(iter(DeltaLog(table).history()))
    info = entry.commit_info or {}
    parameters = dict(info["operationParameters"])
    return {
        "version": snapshot.version,
        "partition columns": snapshot.partition_columns,
        "columns": [field.name for field in snapshot.schema.fields],
        "properties": snapshot.metadata.configuration,
        "operation": info["operation"],
        "mode": parameters["mode"],
        "user metadata": info.get("userMetadata"),
    }
