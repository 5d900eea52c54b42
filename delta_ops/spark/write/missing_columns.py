"""Missing columns: computes identity and default values for columns that the data lack.

Source: PROTOCOL.md, "Identity Columns", "Default Columns".

A null in the data stays null: defaults apply only to columns that the data lack. Each task
generates its own identity values, in steps of the number of tasks, so no task waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.planning.missing_columns import find_missing
from delta_ops.protocol.columns.defaults import column_defaults, default_value
from delta_ops.protocol.columns.identity import Counted, IdentityColumn
from delta_ops.protocol.predicate import parse_literal
from delta_ops.protocol.schema import (
    INTEGER_RANGES,
    LONG,
    NO_COLUMNS,
    TIMESTAMP,
    StructField,
    StructType,
)
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.analysis import why_unusable
from delta_ops.spark.expressions.columns import named_column, parse_physical_text, physical_text
from delta_ops.spark.expressions.stored_sql import stored_sql
from delta_ops.spark.partitioning import fill_empty
from delta_ops.spark.row_checks import RowCheck
from delta_ops.spark.schema import empty_rows, spark_schema_from_schema

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
ROWS_OF_TASK = (1 << 33) - 1
"""Mask for the bits of Spark's increasing id that count the rows of a task."""
_LAST = "delta_ops last value of "


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRows:
    """Rows after their missing columns were added."""

    frame: DataFrame
    counted: tuple[IdentityColumn, ...]
    """Identity columns with generated values."""
    table: str

    @property
    def checks(self) -> Iterator[RowCheck]:
        """Checks that the type of each identity column has enough values for all rows."""
        for each in self.counted:
            yield RowCheck(
                num_broken=sf.count_if(named_column(each.name).isNull()),
                message=(
                    f"identity column {each.name} has no values of its type left (the next is "
                    f"{each.next_value}, in steps of {each.step}); nothing was committed"
                ),
            )

    @property
    def figures(self) -> Mapping[str, Column]:
        """Aggregates over the rows, as `counted_values` needs them."""
        return {
            _LAST + each.name: (sf.max if each.step > 0 else sf.min)(named_column(each.name))
            for each in self.counted
        }

    def counted_values(self, figures: Mapping[str, Any]) -> tuple[Counted, ...]:
        """The last generated value of each identity column; empty if there are no rows."""
        lasts = ((each, figures[_LAST + each.name]) for each in self.counted)
        return tuple(
            Counted(column=each.name, after=each.high_water_mark, last=last)
            for each, last in lasts
            if last is not None
        )


def complete(
    frame: DataFrame, definition: TableDefinition, now_ms: int, table: str
) -> CompletedRows:
    """Add the missing columns to rows.

    Args:
        now_ms: Time of the write, in milliseconds since the Unix epoch.
        table: For messages.

    Raises:
        InvalidRequestError: The data have a column that is always generated as identity, or a
            default value depends on the row or the session.
    """
    spark = frame.sparkSession
    missing = missing_values(frame.columns, definition, spark, now_ms, table)
    if missing.counted:
        frame = gather_tasks(frame)
    rows = frame.withColumns(dict(missing.values)) if missing.values else frame
    return CompletedRows(frame=rows, counted=missing.counted, table=table)


class MissingValues(NamedTuple):
    """Values of columns that the data lack."""

    values: Mapping[str, Column]
    counted: tuple[IdentityColumn, ...]
    """Identity columns. Their values are correct only for rows from `gather_tasks`."""


def gather_tasks(frame: DataFrame) -> DataFrame:
    """Reduce the rows to at most as many tasks as a shuffle makes."""
    return frame.coalesce(_num_tasks(frame.sparkSession))


def missing_values(
    names: Iterable[str],
    definition: TableDefinition,
    spark: SparkSession,
    now_ms: int,
    table: str,
) -> MissingValues:
    """Compute values for the table columns that are not in `names`.

    Args:
        names: Columns of the data, in any case.
        now_ms: Time of the write, in milliseconds since the Unix epoch.
        table: For messages.

    Raises:
        InvalidRequestError: As for `complete`.
    """
    filled = find_missing(names, definition, table)
    values: dict[str, Column] = {}
    if filled.counted:
        values |= {each.name: _count_on(each, _num_tasks(spark)) for each in filled.counted}
    for field in filled.defaults:
        default = _default(field, spark, now_ms, table)
        is_partition = field.name in definition.partition_columns
        values[field.name] = fill_empty(default, field) if is_partition else default
    return MissingValues(values, filled.counted)


def _num_tasks(spark: SparkSession) -> int:
    return int(spark.conf.get(_SHUFFLE_PARTITIONS, "200") or 200)


def _count_on(column: IdentityColumn, num_tasks: int) -> Column:
    """The next identity values; null where the type has no values left."""
    low, high = INTEGER_RANGES[LONG]
    if not low <= column.next_value <= high:
        return sf.lit(None).cast("long")
    row = sf.monotonically_increasing_id().bitwiseAND(sf.lit(ROWS_OF_TASK))
    number = row * sf.lit(num_tasks) + sf.spark_partition_id()
    steps = sf.try_multiply(number, sf.lit(column.step).cast("long"))
    return sf.try_add(steps, sf.lit(column.next_value).cast("long"))


def _is_literal(text: str) -> bool:
    try:
        parse_literal(text)
    except InvalidRequestError:
        return False
    return True


def _default(field: StructField, spark: SparkSession, now_ms: int, table: str) -> Column:
    spark_type = spark_schema_from_schema(StructType((field,)))[0].dataType
    text = column_defaults(StructType((field,)))[field.name]
    try:
        value = physical_text(default_value(field, now_ms, table))
    except InvalidRequestError:
        if _is_literal(text) and field.data_type != TIMESTAMP:  # may use the session's zone
            raise InvalidRequestError(
                f"{table}: the default of column {field.name} ({text}) does not fit its type "
                f"{field.data_type.name}; set another default, or include the column in the data"
            ) from None
        empty = empty_rows(spark, NO_COLUMNS)
        sql = f"CAST(({stored_sql(text, spark)}) AS {spark_type.simpleString()})"
        if reason := why_unusable(sql, empty):
            raise InvalidRequestError(
                f"{table}: the default of column {field.name} ({text}) cannot be used: {reason}. "
                "Include the column in the data"
            ) from None
        return sf.expr(sql)
    if value is None:
        return sf.lit(None).cast(spark_type)
    return parse_physical_text(sf.lit(value).cast("string"), field.data_type).cast(spark_type)
