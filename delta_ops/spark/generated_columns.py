"""Generated columns in Spark: their SQL expressions, and values that the data omit.

Source: PROTOCOL.md, "Generated Columns".
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.planning.missing_columns import generated_columns
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.schema import StructType, find_field
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import stored_where_empty
from delta_ops.spark.expressions.stored_sql import stored_sql
from delta_ops.spark.schema import spark_schema_from_schema


def generated_text(rule: Generated, definition: TableDefinition, spark: SparkSession) -> str:
    """Spark SQL expression of a generated column, cast to the column's type.

    A value that the type does not have is an error, also without ANSI mode, where CAST gives
    another value or null.
    """
    field = find_field(definition.schema, rule.column)
    spark_type = spark_schema_from_schema(StructType((field,)))[0].dataType.simpleString()
    made = stored_sql(rule.expression or "", spark)
    misfit = f"the generated value of column {rule.column} does not fit {spark_type}"
    text = f"CAST(X'{misfit.encode().hex()}' AS STRING)"  # no setting changes how it is read
    value = (
        f"coalesce(TRY_CAST(({made}) AS {spark_type}), "
        f"if(({made}) IS NULL, NULL, raise_error({text})))"
    )
    stored = stored_where_empty(field) if rule.column in definition.partition_columns else ""
    if stored == "":
        return value
    if stored is None:
        return f"nullif({value}, CAST('' AS {spark_type}))"
    return f"if({value} = '', '{stored}', {value})"


def generate_columns(
    frame: DataFrame, names: Iterable[str], definition: TableDefinition
) -> DataFrame:
    """Compute the generated columns that the data lack.

    Args:
        frame: Has the table's columns.
        names: Columns of the data, in any case.
        definition: Definition of the table.
    """
    made = {
        rule.column: sf.expr(generated_text(rule, definition, frame.sparkSession))
        for rule in generated_columns(definition, names)
    }
    return frame.withColumns(made) if made else frame
