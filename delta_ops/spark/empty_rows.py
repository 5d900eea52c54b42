"""Empty rows: DataFrames without rows, to resolve names and types."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_ops.protocol.schema import StructType
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.versions import is_connect


def empty_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Create a DataFrame with these columns and no rows.

    On a classic session it is created in the JVM: `createDataFrame` would send the rows from
    Python, which takes longer.
    """
    columns = spark_schema_from_schema(schema)
    if is_connect(spark):
        return spark.createDataFrame([], columns)
    jvm: Any = spark._jvm
    in_jvm = java_class(jvm, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
    session: Any = spark._jsparkSession
    no_rows = java_class(jvm, "java.util.ArrayList")()
    return DataFrame(session.createDataFrame(no_rows, in_jvm), spark)
