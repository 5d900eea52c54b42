"""Rows laid out along a curve by Spark."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.arrow.read.scan import read_kept
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize
from delta_ops.protocol.predicate import resolve, to_arrow
from delta_ops.transaction import CurveOrder, RewriteGroup
from tests.support.tables import rows

pytestmark = pytest.mark.spark

ROWS = 40_000


def shuffled(root: Path, **options: object) -> DeltaLog:
    """Files with values from the whole range."""
    chance = np.random.default_rng(1)
    for part in range(4):
        data = pa.table(
            {
                "a": chance.permutation(ROWS // 4) * 4 + part,
                "b": chance.integers(0, 1_000_000, ROWS // 4),
                "p": pa.array(["x", "y"][part % 2] for _ in range(ROWS // 4)),
            }
        )
        da.write(root, data, **options)  # type: ignore[arg-type]
    return DeltaLog(root)


def opened(log: DeltaLog) -> int:
    """The number of opened files for a hundred ranges of each column."""
    chance = random.Random(2)
    snapshot, count = log.snapshot(), 0
    for column, most in (("a", ROWS), ("b", 1_000_000)):
        for _ in range(100):
            start = chance.randrange(most)
            wanted = (col(column) >= start) & (col(column) < start + most // 100)
            count += len(snapshot.add_files(wanted))
    return count


@pytest.mark.full
@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_reads_open_as_few_files_as_after_the_arrow_engine(
    spark: SparkSession, tmp_path: Path, curve: str
) -> None:
    found = {}
    for name, engine in (("spark", ds.rewrite(spark)), ("arrow", da.rewrite)):
        log = shuffled(tmp_path / name)
        before, size = rows(da.to_table(log)), log.snapshot().size_bytes
        options = {"zorder_by": ["a", "b"], "curve": curve, "target_size": size // 16}
        result = optimize(log, engine=engine, **options)  # type: ignore[arg-type]
        assert rows(da.to_table(log)) == before
        assert not optimize(log, engine=engine, **options).plan.has_work  # type: ignore[arg-type]
        assert 10 < result.files_added < 24
        found[name] = opened(log)
    assert found["spark"] <= 1.15 * found["arrow"]


VALUES = {
    "numbers": [None, -(2**63), 2**63 - 1, *range(-50, 50)],
    "doubles": [None, float("nan"), float("-inf"), -0.0, 0.0, *(n / 7 for n in range(-50, 50))],
    "decimals": [None, *(Decimal(n) / 4 for n in range(-50, 50))],
    "texts": [None, "", "é", "z" * 300, *(f"name {n:04}" for n in range(100))],
    "bytes": [None, b"", b"\xff\x00", *(bytes([n, 200 - n]) for n in range(100))],
    "days": [None, date(1, 1, 1), *(date(2026, 1, 1) + timedelta(n) for n in range(100))],
    "times": [None, *(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(100))],
    "truths": [None, True, False],
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == "texts" else pytest.mark.full) for kind in VALUES],
)
def test_every_kind_of_value_has_its_place(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    chance = random.Random(3)
    for _ in range(3):
        values = [chance.choice(VALUES[kind]) for _ in range(3_000)]
        da.write(tmp_path, pa.table({"id": range(3_000), "v": values, "w": values[::-1]}))
    log = DeltaLog(tmp_path)
    before, size = shown(log), log.snapshot().size_bytes
    optimize(log, engine=ds.rewrite(spark), zorder_by=["v"], target_size=size // 3)
    assert shown(log) == before
    if kind not in ("bytes", "truths"):  # the log has no bounds for these
        smallest = min(each for each in VALUES[kind] if each is not None and not _is_nan(each))
        assert len(log.snapshot().add_files(col("v") == smallest)) == 1
    optimize(log, engine=ds.rewrite(spark), zorder_by=["w", "v"], target_size=size // 3)
    assert shown(log) == before


@pytest.mark.parametrize(
    "kind",
    [
        "doubles",
        *(pytest.param(kind, marks=pytest.mark.full) for kind in ("numbers", "texts", "times")),
    ],
)
def test_separate_rows_share_no_file_with_others(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    da.write(tmp_path, pa.table({"v": VALUES[kind] * 20}))
    snapshot = DeltaLog(tmp_path).snapshot()
    separate = col("v") > sorted(v for v in VALUES[kind] if v is not None and not _is_nan(v))[60]
    group = RewriteGroup(
        files=tuple(snapshot.add_files()),
        target_size_bytes=snapshot.size_bytes // 3,
        order=CurveOrder(columns=(("v",),)),
        separate=separate,
    )
    staged = ds.rewrite(spark)(snapshot, group)
    assert 2 <= len(staged.adds) <= 6
    of_files = [pa.Table.from_batches(read_kept(snapshot, [add], ["v"])) for add in staged.adds]
    is_separate = to_arrow(resolve(separate, snapshot.schema), snapshot.schema)
    counts = [(len(each.filter(is_separate)), len(each)) for each in of_files]
    assert {found in (0, count) for found, count in counts} == {True}
    assert 0 < sum(found for found, _ in counts) < 20 * len(VALUES[kind])
    assert sum(count for _, count in counts) == 20 * len(VALUES[kind])


@pytest.mark.parametrize("has_vectors", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_large_file_is_cut_and_its_rows_keep_their_order_and_ids(
    spark: SparkSession, tmp_path: Path, has_vectors: bool
) -> None:
    numbers = np.random.default_rng(1).permutation(20_000)
    settings = {
        "delta.enableRowTracking": "true",
        "delta.enableDeletionVectors": str(has_vectors).lower(),
    }
    da.write(tmp_path, pa.table({"v": numbers, "w": numbers * 3}), configuration=settings)
    log = DeltaLog(tmp_path)
    if has_vectors:
        da.delete(log, col("v") < 2_000)
    before, size = ids_of(log), log.snapshot().size_bytes
    result = optimize(
        log, engine=ds.rewrite(spark), target_size=size // 4, max_size=size // 2, min_size=1
    )
    assert (result.files_removed, result.files_added) == (1, 4)
    assert ids_of(log) == before
    in_files = [each["v"] for each in files_in_order(log)]
    assert [v for values in in_files for v in values] == [
        n for n in numbers.tolist() if n in before
    ]


def files_in_order(log: DeltaLog) -> list[dict[str, list[int]]]:
    """The rows of each file, by the id of its first row."""
    snapshot = log.snapshot()
    tables = [
        pa.Table.from_batches(read_kept(snapshot, [add])).to_pydict()
        for add in snapshot.add_files()
    ]
    return sorted(tables, key=lambda rows: rows[id_column(log)][0])


def ids_of(log: DeltaLog) -> dict[int, int]:
    name = id_column(log)
    return {
        v: row_id
        for rows in files_in_order(log)
        for v, row_id in zip(rows["v"], rows[name], strict=True)
    }


def id_column(log: DeltaLog) -> str:
    return log.snapshot().metadata.configuration["delta.rowTracking.materializedRowIdColumnName"]


def shown(log: DeltaLog) -> list[str]:
    """The rows as texts, so NaN equals NaN."""
    return sorted(map(repr, rows(da.to_table(log))))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


@pytest.mark.full
def test_rows_of_one_value_are_cut_where_they_would_be_far_too_large(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = np.random.default_rng(4)
    for _ in range(2):
        data = pa.table({"a": np.zeros(20_000, np.int64), "x": chance.random(20_000)})
        da.write(tmp_path, data)
    log = DeltaLog(tmp_path)
    before, target = rows(da.to_table(log)), log.snapshot().size_bytes // 8
    optimize(log, engine=ds.rewrite(spark), zorder_by=["a"], target_size=target)
    assert rows(da.to_table(log)) == before
    assert max(each.size for each in log.snapshot().add_files()) < 2 * target


@pytest.mark.full
def test_partitions_ids_of_rows_and_fields_of_structs_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    features = {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"}
    shape = pa.struct([("n", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    for start in (0, 5_000):
        ids = np.random.default_rng(start).permutation(5_000) + start
        structs = pa.array([{"n": int(n), "m": [("k", int(n))]} for n in ids], shape)
        data = pa.table({"s": structs, "p": ["x", "y"] * 2_500})
        da.write(tmp_path, data, partition_by=["p"], configuration=features)
    log = DeltaLog(tmp_path)
    before, size = everything(log), log.snapshot().size_bytes
    result = optimize(log, engine=ds.rewrite(spark), zorder_by=["s.n"], target_size=size // 8)
    assert everything(log) == before
    assert result.files_added >= 4
    assert len(log.snapshot().add_files((col("s", "n") == 77) & (col("p") == "x"))) <= 1


def everything(log: DeltaLog) -> list[dict[str, object]]:
    """The rows, with their ids and row commit versions."""
    snapshot = log.snapshot()
    return rows(pa.Table.from_batches(read_kept(snapshot, snapshot.add_files())))


def test_a_session_that_cannot_compile_says_who_can(spark: SparkSession, tmp_path: Path) -> None:
    log = shuffled(tmp_path)
    isolation = "spark.sql.artifact.isolation.enabled"
    before = spark.conf.get(isolation)
    spark.conf.set(isolation, "true")
    try:
        with pytest.raises(InvalidRequestError, match="use a classic session, or the Arrow engine"):
            optimize(log, engine=ds.rewrite(spark), zorder_by=["a"])
    finally:
        spark.conf.set(isolation, before or "false")
    assert log.snapshot().version == 3
