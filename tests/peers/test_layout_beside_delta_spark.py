"""Random tables laid out by our engines: delta-spark reads the same rows before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.maintenance import optimize, purge
from tests.maintenance.test_layout_of_random_tables import random_table
from tests.peers.delta_spark import DeltaSpark
from tests.spark.frames import rows_of, sorted_texts

pytestmark = pytest.mark.spark

Layout = Callable[[DeltaLog, Any], Any]
OPERATIONS: dict[str, Layout] = {
    "put together": lambda log, engine: optimize(log, engine=engine),
    "sorted": lambda log, engine: optimize(
        log, zorder_by=["key"], target_size=2_000, full=True, engine=engine
    ),
    "along Hilbert's curve": lambda log, engine: optimize(
        log,
        zorder_by=["key", "second"],
        curve="hilbert",
        target_size=2_000,
        full=True,
        engine=engine,
    ),
    "purged": lambda log, engine: purge(log, old_schema=True, engine=engine),
}
CASES = [
    pytest.param(
        *(seed, mode, operation, engine),
        marks=pytest.mark.full
        if (seed, mode, operation) == (0, "name", "sorted")
        else pytest.mark.long,
    )
    for seed in range(3)
    for mode in ("none", "name")
    for operation in OPERATIONS
    for engine in ("arrow", "spark")
]


@pytest.mark.parametrize(("seed", "mode", "operation", "engine"), CASES)
def test_no_row_changes_for_any_reader(
    spark: SparkSession,
    delta_spark: DeltaSpark,
    tmp_path: Path,
    seed: int,
    mode: str,
    operation: str,
    engine: str,
) -> None:
    def read() -> list[list[str]]:
        return [
            sorted_texts(delta_spark.read(tmp_path).to_pylist()),
            sorted_texts(rows_of(ds.read(spark, tmp_path))),
            sorted_texts(da.to_table(tmp_path).to_pylist()),
        ]

    log = random_table(tmp_path, seed, mode)
    before = read()
    engines = {"arrow": da.rewrite, "spark": ds.rewrite(spark)}
    assert OPERATIONS[operation](log, engines[engine]).files_removed > 1
    after = read()
    assert after == before
    delta_spark.validate(tmp_path)
