"""Partitions: converts a Spark SQL filter on partitions to a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.predicate import (
    Always,
    Column,
    Predicate,
    all_of,
    columns,
    parse_predicate,
)
from delta_ops.spark.expressions.analysis import reason_of
from delta_ops.spark.expressions.conditions import validate_names
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.session.variables import escape_variables, names_like_variables
from delta_ops.spark.versions import condition_of

_NUMBER = "delta_ops number"
"""Column with the number of a partition; no user column has this name, because of the space."""


def partitions_of(spark: SparkSession, snapshot: Snapshot, filters: Sequence[str]) -> Predicate:
    """The predicate over partition columns that is true if all filters are true.

    Supports any Spark SQL filter. Spark evaluates filters that delta_ops cannot parse, once for
    each existing partition.

    Raises:
        InvalidRequestError: A filter uses other columns, or Spark cannot parse it.
    """
    if any("${" in each for each in filters):  # a session variable, or part of a column's name
        return _filter_by_spark(spark, snapshot, filters)
    try:
        predicate = all_of(parse_predicate(each) for each in filters)
    except InvalidRequestError:
        return _filter_by_spark(spark, snapshot, filters)
    known = {each.lower() for each in snapshot.partition_columns}
    for name in sorted(columns(predicate)):
        if name.lower() not in known:
            raise _column_error(snapshot, name)
    return predicate


def _filter_by_spark(spark: SparkSession, snapshot: Snapshot, filters: Sequence[str]) -> Predicate:
    found = snapshot.files(
        columns=("partition_values",), partition_time_zone=session_time_zone(spark)
    )
    values = pa.Table.from_struct_array(found["partition_values"].combine_chunks())
    names = values.column_names
    if not names:
        raise InvalidRequestError(f"{snapshot.uri} has no partition column to filter by")
    partitions = values.group_by(names).aggregate([])
    numbers = pa.array(range(partitions.num_rows), pa.int64())
    rows = spark.createDataFrame(partitions.append_column(_NUMBER, numbers))
    validate_names(filters, spark, finder_of(snapshot.schema))
    literal = names_like_variables(snapshot.schema)
    try:
        for each in filters:
            rows = rows.where(sf.expr(escape_variables(each, literal)))
        chosen = [row[0] for row in rows.select(f"`{_NUMBER}`").collect()]
    except PySparkException as error:
        if condition_of(error) == "UNRESOLVED_COLUMN.WITH_SUGGESTION":
            parameters = error.getMessageParameters() or {}
            name = parameters.get("objectName", "").strip("`")
            raise _column_error(snapshot, name) from error
        if isinstance(error, AnalysisException):
            raise InvalidRequestError(
                f"{snapshot.uri}: the filter {' AND '.join(filters)!r} cannot be used "
                f"({reason_of(error)})"
            ) from error
        raise
    wanted = partitions.take(pa.array(chosen, pa.int64())).to_pylist()
    each_one = [
        all_of(
            Column((name,)).is_null() if value is None else Column((name,)) == value
            for name, value in row.items()
        )
        for row in wanted
    ]
    return reduce(or_, each_one) if each_one else Always(False)


def _column_error(snapshot: Snapshot, name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{snapshot.uri}: Predicate references non-partition column '{name}'. Only the partition "
        f"columns may be referenced: [{', '.join(snapshot.partition_columns)}]"
    )
