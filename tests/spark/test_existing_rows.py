"""New rules, which Spark checks against the existing rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, ddl
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import STRING, StructField, StructType

CHAR = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
ONLY_SPARK = "levenshtein(name, 'abc') < 3"


def test_a_condition_that_only_spark_evaluates(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2], "name": ["abd", "ab"]}))
    with pytest.raises(InvalidRequestError, match="needs the Spark engine"):
        ddl.add_constraint(tmp_path, "near", ONLY_SPARK)
    ddl.add_constraint(tmp_path, "near", ONLY_SPARK, engine=ds.check_rows(spark))
    assert DeltaLog(tmp_path).snapshot().version == 1
    far = spark.createDataFrame([(3, "something")], "id long, name string")
    with pytest.raises(InvalidRequestError, match="near"):
        ds.write(far, tmp_path)


def test_padding_is_no_part_of_a_value(tmp_path: Path, spark: SparkSession) -> None:
    ddl.create_table(tmp_path, StructType((StructField("c", STRING, metadata=CHAR),)))
    da.write(tmp_path, pa.table({"c": ["ab"]}))
    with pytest.raises(InvalidRequestError, match="not true"):
        ddl.add_constraint(tmp_path, "full", "length(c) = 5", engine=ds.check_rows(spark))


def test_rows_that_break_a_rule_keep_it_out(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, pa.table({"id": [1, None, 3, 4]}))
    engine = ds.check_rows(spark)
    with pytest.raises(InvalidRequestError, match=r"id > 1\) is not true .* .violations: 2\)"):
        ddl.add_constraint(tmp_path, "large", "id > 1", engine=engine)
    with pytest.raises(InvalidRequestError, match=r"NOT NULL id does not hold .* .violations: 1"):
        ddl.set_not_null(tmp_path, "id", engine=engine)
    with pytest.raises(InvalidRequestError, match="not deterministic"):
        ddl.add_constraint(tmp_path, "luck", "rand() < id", engine=engine)
    assert DeltaLog(tmp_path).snapshot().version == 0
