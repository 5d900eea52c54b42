"""Groups of files as columns, and the files that Spark lists for them."""

from __future__ import annotations

import math
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.spark.expressions.columns import physical_text
from delta_ops.spark.read import file_index
from delta_ops.spark.read.file_index import (
    FileGroup,
    IndexUnavailableError,
    group_columns,
    groups_of,
)

MANY = 1_010
"""More partitions than are examined before a scan."""
VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.int8(): (None, -1, 0),
    pa.int64(): (None, -(2**63), 1),
    pa.string(): (None, " ", "\U0001f3b5"),
    pa.binary(): (None, b"\0", b"ab"),
    pa.bool_(): (None, True, False),
    pa.date32(): (None, date(1, 1, 1), date(2026, 1, 31)),
    pa.timestamp("us", "UTC"): (
        None,
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 31, 5, 0, 1, 7, UTC),
    ),
    pa.timestamp("us"): (None, datetime(1, 1, 1), datetime(2026, 1, 31, 5, 0, 1, 7)),
    pa.float32(): (None, 0.0, -0.0, 1.100000023841858, math.nan, math.inf),
    pa.float64(): (None, 1e300, -math.inf, 5e-324),
    pa.decimal128(10, 2): (None, Decimal("0.00"), Decimal("-1.50")),
}


@given(st.data(), st.lists(st.sampled_from(list(VALUES)), max_size=3))
def test_columns_hold_the_groups_that_files_one_by_one_make(
    data: st.DataObject, types: list[pa.DataType]
) -> None:
    row = st.tuples(st.sampled_from([0, 1, 2**40]), *(st.sampled_from(VALUES[t]) for t in types))
    rows = data.draw(st.lists(row, max_size=8))
    by_values: dict[tuple[str | None, ...], list[tuple[str, int, int]]] = {}
    for number, (size, *values) in enumerate(rows):
        texts = tuple(map(physical_text, values))
        if size == 0:
            continue
        by_values.setdefault(texts, []).append((f"file:/t/{number}", size, -number))
    columns = group_columns(
        "file:/t/",
        pa.array([str(number) for number in range(len(rows))], pa.string()),
        pa.array([size for size, *_ in rows], pa.int64()),
        pa.array([-number for number in range(len(rows))], pa.int64()),
        [pa.array([each[i + 1] for each in rows], t) for i, t in enumerate(types)],
    )
    assert list(columns) == groups_of(by_values)
    assert columns[1:] == groups_of(by_values)[1:]


@pytest.mark.full
@pytest.mark.parametrize("sent_bytes", [0, 1 << 30], ids=["by a file", "by Py4J"])
def test_a_table_of_many_partitions_is_read_whole_and_by_filter(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent_bytes: int
) -> None:
    monkeypatch.setattr(file_index, "SENT_BYTES", sent_bytes)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    numbers = pa.array(range(MANY), pa.int64())
    table = DeltaLog(tmp_path / "table")
    da.write(table, pa.table({"p": numbers, "x": numbers}), partition_by=["p"])
    rows = ds.read(spark, table)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert len(rows.inputFiles()) == MANY
    last = rows.filter(rows.p == MANY - 1)
    assert [tuple(each) for each in last.collect()] == [(MANY - 1, MANY - 1)]
    path = last.select("_metadata.file_path").first()
    assert path is not None
    assert rows.filter(rows["_metadata.file_path"] == path[0]).count() == 1


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        pytest.param(0, IndexUnavailableError, "relation", id="before there is a scan"),
        pytest.param(
            MANY - 1, Py4JJavaError, "Spark would scan 1 of 2 files", id="by the scan of many"
        ),
    ],
)
def test_a_file_that_spark_would_leave_out_is_refused(
    spark: SparkSession, tmp_path: Path, place: int, error: type[Exception], message: str
) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "some.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other")
    sizes = {name: (tmp_path / name).stat().st_size for name in ("some.parquet", "other")}
    names = ["other" if number == place else "some.parquet" for number in range(MANY)]
    groups = [
        FileGroup(values=(str(number),), files=[(f"file:{tmp_path}/{name}", sizes[name], 0)])
        for number, name in enumerate(names)
    ]
    data, partitions = StructType().add("x", "long"), StructType().add("p", "long")

    def read() -> list[Any]:
        options = {"pathGlobFilter": "*.parquet"}
        root = f"file:{tmp_path}"
        rows = file_index.relation(spark, root, groups, data, partitions, options, folds_case=True)
        assert rows.filter("p = 5").count() == 1
        return rows.filter(f"p >= {MANY - 2}").collect()

    with pytest.raises(error, match=message):
        read()
