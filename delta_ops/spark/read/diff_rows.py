"""Compares the rows of two versions as multisets, in Spark.

Files that both versions have with the same deletion vectors are not read, if the columns are the
same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot, Source, snapshot_of
from delta_ops.option_words import option
from delta_ops.planning.row_difference import CHANGE, columns_of_each, differing_files
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.read import read, read_files, resolve_columns, show

_COUNT = "_delta_ops_count"


def diff_rows(
    spark: SparkSession,
    old: Source,
    new: Source,
    columns: Sequence[str] | None = None,
    predicate: Predicate | Expression | Column | str | None = None,
) -> DataFrame:
    """Find the rows in which two versions differ, with the column `_change_type`.

    As `delta_ops.arrow.diff_rows`, for rows that do not fit into memory. The rows have no order. A
    row with -0.0 is shown with 0.0.

    Args:
        old: A table or a snapshot, such as `log.snapshot(ref="tag:2026-11")`.
        new: Another version of the table, or another table.
        columns: The columns to compare; by default all. A column that only one version has is null
            in the rows of the other version.
        predicate: Compare only the rows that match, as for `read`.

    Raises:
        InvalidRequestError: A column does not exist, has types that cannot be compared, such as a
            map, or the predicate does not fit a version.
        OutsideFileError, UnsupportedFeatureError: As `read`.

    Examples:
        >>> _ = ds.update(spark, "lake/orders", {"price": "price + 1"}, "id = 2")
        >>> old, new = DeltaLog("lake/orders").snapshot(0), DeltaLog("lake/orders").snapshot()
        >>> rows = ds.diff_rows(spark, old, new, ["id", "price"]).orderBy("price")
        >>> [tuple(row) for row in rows.collect()]
        [(2, 20.0, 'delete'), (2, 21.0, 'insert')]
    """
    validate_arguments(diff_rows, locals())
    before, after = snapshot_of(old), snapshot_of(new)
    one, two = _frames(spark, before, after, columns, predicate)
    names = list(dict.fromkeys([*one.columns, *two.columns]))
    try:
        return _difference(_pad(one, two, names), _pad(two, one, names), names)
    except AnalysisException as error:
        raise InvalidRequestError(
            f"{after.uri}: Spark cannot compare rows of version {before.version} and of version "
            f"{after.version} ({error.getCondition()}), because a column has another type, or a "
            f"type without equality; leave the column out with {option('columns')}"
        ) from error


def _difference(old: DataFrame, new: DataFrame, names: Sequence[str]) -> DataFrame:
    """The rows whose numbers differ, each as often as the numbers differ."""
    signed = old.withColumn(_COUNT, sf.lit(-1)).unionAll(new.withColumn(_COUNT, sf.lit(1)))
    columns = [named_column(name) for name in names]
    differing = signed.groupBy(*columns).agg(sf.sum(_COUNT).alias(_COUNT)).where(f"{_COUNT} != 0")
    each = sf.explode(sf.array_repeat(sf.lit(0), sf.abs(sf.col(_COUNT)).cast("int")))
    change = sf.when(sf.col(_COUNT) > 0, "insert").otherwise("delete").alias(CHANGE)
    return differing.select(*columns, change, each.alias(_COUNT)).drop(_COUNT)


def _frames(
    spark: SparkSession,
    before: Snapshot,
    after: Snapshot,
    columns: Sequence[str] | None,
    predicate: Predicate | Expression | Column | str | None,
) -> list[DataFrame]:
    """The rows to compare, of both versions; rows of common files may be missing in both."""
    names = columns_of_each(before, after, columns)
    files = None if predicate is not None else differing_files(before, after)
    if files is None:
        versions = zip((before, after), names, strict=True)
        return [read(spark, each, wanted, predicate) for each, wanted in versions]
    return [
        show(
            read_files(spark, each, wanted),
            each.schema,
            resolve_columns(each.schema, columns),
            None,
        )
        for each, wanted in zip((before, after), files, strict=True)
    ]


def _pad(rows: DataFrame, other: DataFrame, names: Sequence[str]) -> DataFrame:
    """The rows with all columns, null where a column is absent."""
    types = {field.name: field.dataType for field in other.schema}
    present = set(rows.columns)
    return rows.select(
        *(
            named_column(name) if name in present else sf.lit(None).cast(types[name]).alias(name)
            for name in names
        )
    )
