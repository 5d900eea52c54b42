"""The source of a merge: its rows, taken once, and what their keys say of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.planning.key_ranges import cover_keys, cover_ranges
from delta_ops.protocol.predicate import TRUE, Predicate, all_of
from delta_ops.protocol.schema import (
    DATE,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DataType,
    DecimalType,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.spark.dml.changed_rows import pin
from delta_ops.spark.expressions.columns import matches, named_column
from delta_ops.spark.session import jobs
from delta_ops.spark.session.progress import OnTasks
from delta_ops.spark.write.missing_columns import ROWS_OF_TASK
from delta_ops.transaction.source_rules import SourceRule, validate_broken

SOURCE_ROW = "delta_ops source row"
"""The number of a row of the source; no column's name, for the spaces."""
FEW_ROWS = 100_000
"""Sources up to so many rows have their keys looked at by the driver."""
FEW_ROWS_OF_NUMBERS = 1_000_000
"""Where no key is a text: each takes 16 MB at most, in Arrow, and the numbers of the rows 8 MB."""
_PARTS = 1024
"""Into which the values of a key are sorted, to find the gaps between them."""
_COMPARED = (*INTEGER_RANGES, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING)


class Key(NamedTuple):
    """A column of the table that must equal one of the source."""

    path: ColumnPath
    """The table's column, or field."""
    data_type: DataType
    """The type of the table's column."""
    column: Column
    """The column of the source."""
    source_type: DataType


def number_source(source: DataFrame) -> DataFrame:
    """The rows with their numbers, computed once."""
    return pin(source.withColumn(SOURCE_ROW, sf.monotonically_increasing_id()))


def count_rows(source: DataFrame, on_tasks: OnTasks | None) -> int:
    """How many rows a source has."""
    return jobs.run(source.sparkSession, source.count, on_tasks)


def validate_source(
    source: DataFrame,
    rules: Sequence[SourceRule],
    schema: StructType,
    table: str,
    on_tasks: OnTasks | None,
) -> None:
    """Refuse a source with rows that break a rule.

    Args:
        source: Pinned.

    Raises:
        InvalidRequestError: With the rule and the number of rows.
    """
    if rules:
        broken = [sf.count_if(~matches(each.predicate_on(schema), schema)) for each in rules]
        counts = source.agg(*(each.alias(str(i)) for i, each in enumerate(broken)))
        found = jobs.run(source.sparkSession, counts.toArrow, on_tasks)
        validate_broken(rules, [column[0].as_py() for column in found.columns], table)


class UniqueNumbers(NamedTuple):
    """A key of whole numbers that no two rows of a source share."""

    key: Key
    values: pa.Array
    """One for each row, as 64-bit integers."""
    rows: npt.NDArray[np.int64]
    """The numbers of these rows."""


class Covered(NamedTuple):
    """What the keys of a source tell."""

    predicate: Predicate
    """True of every row of the table that can meet one of the source."""
    num_rows: int | None = None
    """How many rows the source has, if that came out."""
    is_unique: bool = False
    """True: no row of the table can meet two of the source."""
    numbers: UniqueNumbers | None = None
    """The first such key by which rows meet, whatever else must be equal; None where there is none
    among those that were looked at, or where rows meet by more than equal keys."""


def cover(source: DataFrame, keys: Sequence[Key], on_tasks: OnTasks | None) -> Covered:
    """Look at the keys of a source.

    Args:
        source: Pinned.
        keys: The columns that must all be equal.
        on_tasks: Told how far the jobs are.
    """
    usable = [each for each in keys if _is_usable(each)]
    if not usable:
        return Covered(TRUE)
    names = [f"key{i}" for i in range(len(usable))]
    columns = [each.column.alias(name) for each, name in zip(usable, names, strict=True)]
    has_texts = any(each.data_type == STRING for each in usable)
    most = FEW_ROWS if has_texts else FEW_ROWS_OF_NUMBERS
    num_rows, found = _take(source, columns, most, on_tasks)
    if found is not None:
        arrays = [
            _convert(found[name], each.data_type) for name, each in zip(names, usable, strict=True)
        ]
        unique = [
            (name, each)
            for name, each in zip(names, usable, strict=True)
            if each.data_type != STRING  # of which several may equal one that is padded
            and pc.count_distinct(found[name], mode="all").as_py() == num_rows
        ]
        numbers = [
            UniqueNumbers(
                each,
                found[name].combine_chunks().cast(pa.int64()),
                found[SOURCE_ROW].to_numpy(),
            )
            for name, each in unique
            if each.data_type in INTEGER_RANGES
        ]
        covering = cover_keys([each.path for each in usable], arrays)
        return Covered(covering, num_rows, bool(unique), numbers[0] if numbers else None)
    values = source.select(*columns)
    ranges = [
        _find_ranges(values, name, key, on_tasks) for key, name in zip(usable, names, strict=True)
    ]
    parts = [_cover_ranges(key, *each) for key, each in zip(usable, ranges, strict=True)]
    return Covered(all_of(each for each in parts if each is not TRUE), num_rows)


def _take(
    source: DataFrame, columns: Sequence[Column], most: int, on_tasks: OnTasks | None
) -> tuple[int, pa.Table | None]:
    """How many rows a source has, and values and numbers of all if they are no more than `most`."""
    spark, row = source.sparkSession, named_column(SOURCE_ROW)
    most_of_task = most // max(1, _number_of_tasks(source)) if jobs.is_sent_whole(source) else 0
    if most_of_task:  # one job does, unless a task has many more rows than others
        first = source.filter(row.bitwiseAND(sf.lit(ROWS_OF_TASK)) < most_of_task)
        found = jobs.run(spark, first.select(*columns, row).toArrow, on_tasks)
        last = pc.max(pc.bit_wise_and(found[SOURCE_ROW], ROWS_OF_TASK)).as_py()
        if last is None or last < most_of_task - 1:
            return found.num_rows, found
    num_rows = count_rows(source, on_tasks)
    if num_rows > most:
        return num_rows, None
    return num_rows, jobs.run(spark, source.select(*columns, row).toArrow, on_tasks)


def _number_of_tasks(pinned: Any) -> int:
    return int(pinned._jdf.queryExecution().toRdd().getNumPartitions())


_ENDS = (sf.min, sf.max)


def _is_usable(key: Key) -> bool:
    both = (key.data_type, key.source_type)
    if all(each in INTEGER_RANGES for each in both):
        return True
    is_known = key.data_type in _COMPARED or isinstance(key.data_type, DecimalType)
    return is_known and key.data_type == key.source_type


def _find_ranges(
    values: DataFrame, name: str, key: Key, on_tasks: OnTasks | None
) -> tuple[pa.Array, pa.Array]:
    """Where the values of a key lie, by equal parts of the way from the least to the greatest.

    Texts lie in one part, and so do times without a zone; where every key is null, there is none.
    """
    if key.data_type in (STRING, TIMESTAMP_NTZ):
        whole = values.agg(*(f(named_column(name)).alias(f.__name__) for f in _ENDS))
        found = jobs.run(values.sparkSession, whole.filter("min IS NOT NULL").toArrow, on_tasks)
        low, high = (_convert(found[f.__name__], key.data_type) for f in _ENDS)
        return low, high
    number = _number_of(named_column(name), key.source_type)
    ends = values.agg(sf.min(number).alias("low"), sf.max(number).alias("high"))
    width = (sf.col("high") - sf.col("low")) / _PARTS
    part = sf.when(width > 0, sf.floor((number - sf.col("low")) / width)).otherwise(0)
    ranges = (
        values.crossJoin(sf.broadcast(ends))
        .groupBy(part.alias("part"))
        .agg(*(f(named_column(name)).alias(f.__name__) for f in _ENDS))
        .filter(sf.col("min").isNotNull())
        .orderBy("min")
    )
    found = jobs.run(values.sparkSession, ranges.toArrow, on_tasks)
    low, high = (_convert(found[f.__name__], key.data_type) for f in _ENDS)
    return low, high


def _number_of(value: Column, data_type: DataType) -> Column:
    """A number that grows with the value, roughly."""
    match data_type:
        case t if t == DATE:
            return sf.unix_date(value).cast("double")
        case t if t == TIMESTAMP:
            return sf.unix_micros(value).cast("double")
    return value.cast("double")


def _convert(values: pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Values in the table's type; what is beyond it meets nothing, and becomes its nearest."""
    array = values.combine_chunks()
    if data_type in INTEGER_RANGES:
        least, greatest = INTEGER_RANGES[data_type]
        array = array.cast(pa.int64())
        array = pc.max_element_wise(array, pa.scalar(least, pa.int64()), skip_nulls=False)
        array = pc.min_element_wise(array, pa.scalar(greatest, pa.int64()), skip_nulls=False)
    return array.cast(arrow_type_from_type(data_type))


def _cover_ranges(key: Key, lows: pa.Array, highs: pa.Array) -> Predicate:
    if not len(lows):
        return cover_keys([key.path], [lows])  # every key is null, and meets nothing
    return cover_ranges(key.path, lows, highs)
