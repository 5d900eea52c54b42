"""Empty rows: columns without a row, by which names and types are found."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_ops.protocol.schema import StructType
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.session.session import is_connect


def empty_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows with these columns.

    The JVM is asked for them: `createDataFrame` takes longer, since it would have them come from
    Python.
    """
    columns = spark_schema_from_schema(schema)
    if is_connect(spark):
        return spark.createDataFrame([], columns)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    jvm: Any = spark._jvm
    in_jvm = jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json())
    session: Any = spark._jsparkSession
    return ClassicDataFrame(session.createDataFrame(jvm.java.util.ArrayList(), in_jvm), spark)
