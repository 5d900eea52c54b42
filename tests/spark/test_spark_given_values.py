"""Python values that an update or a merge by Spark is given are kept, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import col
from tests.support.given_values import (
    Clause,
    State,
    insert,
    keeps_values,
    make_table,
    read_row,
    refuses_values,
    update_matched,
    update_others,
)


def test_an_update_keeps_values_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    keeps_values(lambda root, given: ds.update(spark, root, given), tmp_path, 1)


def test_a_new_row_keeps_values_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    def give(root: Path, given: Mapping[str, Any]) -> object:
        return insert(ds.merge(root, spark.sql("SELECT 2 AS k"), "id = k"), given)

    keeps_values(give, tmp_path / "all", 2)
    give(make_table(tmp_path / "some"), {"s": {"b": "y"}})
    assert read_row(tmp_path / "some", 2)["s"] == {"a": None, "b": "y"}


def test_values_that_would_be_changed_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = spark.sql("SELECT 1 AS k")
    refuses_values(lambda root, given: ds.update(spark, root, given), tmp_path / "updated")
    for clause in (update_matched, update_others):

        def give(root: Path, given: Mapping[str, Any], clause: Clause = clause) -> object:
            return clause(ds.merge(root, source, "id = k"), given)

        refuses_values(give, tmp_path / clause.__name__)


@pytest.mark.parametrize(
    "predicate", [col("text") == State.NEW, col("l").is_not_null() & (col("id") == np.int8(1))]
)
def test_a_predicate_takes_the_value_that_a_literal_stands_for(
    spark: SparkSession, tmp_path: Path, predicate: Any
) -> None:
    ds.update(spark, make_table(tmp_path), {"text": "'new'"})
    assert [row["id"] for row in ds.read(spark, tmp_path, predicate=predicate).collect()] == [1]
