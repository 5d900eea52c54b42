"""Files of tables with optimized writes enabled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.spark.write.optimized_write import settings_of

pytestmark = pytest.mark.spark

NUM_ROWS = 200_000
OPTIMIZED = {"delta.autoOptimize.optimizeWrite": "true"}
EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
ADVISORY_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def skewed(spark: SparkSession) -> DataFrame:
    """Nine rows of ten have one value of p."""
    return spark.range(0, NUM_ROWS, 1, 4).selectExpr(
        "id", "rand() AS x", "if(id % 10 = 0, id div 10 % 5, -1) AS p"
    )


def files_by_partition(table: Path) -> Counter[str | None]:
    return Counter(add.partition_values["p"] for add in DeltaLog(table).snapshot().add_files())


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(
    ("target", "is_spread"), [({"delta.targetFileSize": "500kb"}, True), ({}, False)]
)
def test_a_large_partition_becomes_files_of_the_target_size(
    tmp_path: Path, spark: SparkSession, target: dict[str, str], is_spread: bool
) -> None:
    before = spark.conf.get(ADVISORY_SIZE)
    ds.write(skewed(spark), tmp_path, partition_by=["p"], configuration=OPTIMIZED | target)
    files = files_by_partition(tmp_path)
    assert len(files) == 6
    assert (files["-1"] > 1) is is_spread
    assert spark.conf.get(ADVISORY_SIZE) == before
    assert sorted(da.to_table(DeltaLog(tmp_path))["id"].to_pylist()) == list(range(NUM_ROWS))


@pytest.mark.full
def test_rows_that_turn_out_to_be_none_are_written_and_checked(
    tmp_path: Path, spark: SparkSession
) -> None:
    checked = OPTIMIZED | {"delta.constraints.positive": "id > 0"}
    rows = spark.sql("SELECT 1L AS id, 'a' AS p")
    ds.write(rows, tmp_path, partition_by=["p"], configuration=checked)
    none = spark.range(10).filter("rand() > 2").selectExpr("id", "'b' AS p")
    ds.write(none, tmp_path)
    assert spark.conf.get(EXCLUDED_RULES, "") == ""
    assert da.to_table(DeltaLog(tmp_path)).to_pylist() == [{"id": 1, "p": "a"}]


def test_rules_that_the_session_excludes_stay_excluded(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(skewed(spark).limit(0), tmp_path, partition_by=["p"], configuration=OPTIMIZED)
    spark.conf.set(EXCLUDED_RULES, "a.Rule, another.Rule")
    try:
        settings = settings_of(DeltaLog(tmp_path).snapshot().definition, spark)
    finally:
        spark.conf.unset(EXCLUDED_RULES)
    assert settings[EXCLUDED_RULES].split(",")[:2] == ["a.Rule", "another.Rule"]


@pytest.mark.full
def test_a_target_size_alone_causes_no_shuffle(tmp_path: Path, spark: SparkSession) -> None:
    size = {"delta.targetFileSize": "500kb"}
    ds.write(skewed(spark), tmp_path, partition_by=["p"], configuration=size)
    assert set(files_by_partition(tmp_path).values()) == {4}
