"""Merge source: reads the source rows once and examines their keys.

The keys show which rows of the table can match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.log import KeysOf
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
"""Number of a source row; the spaces avoid column names."""
FEW_ROWS = 100_000
"""Up to this many source rows, the driver loads their keys."""
FEW_ROWS_OF_NUMBERS = 1_000_000
"""Limit if no key is a string: a key takes up to 16 MB in Arrow, the row numbers 8 MB."""
_PARTS = 1024
"""Number of parts of a key's value range, to find gaps between values."""
_COMPARED = (*INTEGER_RANGES, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING)


class Key(NamedTuple):
    """A column of the table that must equal a column of the source."""

    path: ColumnPath
    """Column or struct field of the table."""
    data_type: DataType
    """Type of the table column."""
    column: Column
    """Column of the source."""
    source_type: DataType


def number_source(source: DataFrame) -> DataFrame:
    """Number the source rows and compute them once."""
    return pin(source.withColumn(SOURCE_ROW, sf.monotonically_increasing_id()))


def count_rows(source: DataFrame, on_tasks: OnTasks | None) -> int:
    """Count the source rows."""
    return jobs.run(source.sparkSession, source.count, on_tasks)


def validate_source(
    source: DataFrame,
    rules: Sequence[SourceRule],
    schema: StructType,
    table: str,
    on_tasks: OnTasks | None,
) -> None:
    """Reject a source with rows that break a rule.

    Args:
        source: Computed once by `pin`.

    Raises:
        InvalidRequestError: Names the rule and the number of rows.
    """
    if rules:
        broken = [sf.count_if(~matches(each.predicate_on(schema), schema)) for each in rules]
        counts = source.agg(*(each.alias(str(i)) for i, each in enumerate(broken)))
        found = jobs.load(counts, on_tasks)
        validate_broken(rules, [column[0].as_py() for column in found.columns], table)


class UniqueNumbers(NamedTuple):
    """An integer key without duplicates in the source."""

    key: Key
    values: pa.Array
    """One 64-bit integer for each row."""
    rows: npt.NDArray[np.int64]
    """Row numbers, in the same order."""


class Covered(NamedTuple):
    """Facts about the table, derived from the keys of a source."""

    predicate: Predicate
    """True for every table row that can match a source row."""
    num_rows: int | None = None
    """Number of source rows, if known."""
    is_unique: bool = False
    """Whether no table row can match two source rows."""
    numbers: UniqueNumbers | None = None
    """The first unique integer key.

    None if there is none, or if the condition has more than equal keys.
    """
    sought: Sequence[KeysOf] = ()
    """The values of the keys, if the driver loaded them; a matching row has one of each."""


def cover(source: DataFrame, keys: Sequence[Key], on_tasks: OnTasks | None) -> Covered:
    """Find which table rows the keys of a source can match.

    Args:
        source: Computed once by `pin`.
        keys: Columns that must all be equal.
        on_tasks: Receives the progress of the jobs.
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
            if each.data_type != STRING  # several strings may equal one padded string
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
        sought = [
            KeysOf(column=each.path, data_type=each.data_type, values=array)
            for each, array in zip(usable, arrays, strict=True)
        ]
        first = numbers[0] if numbers else None
        return Covered(covering, num_rows, bool(unique), first, sought)
    values = source.select(*columns)
    ranges = [
        _find_ranges(values, name, key, on_tasks) for key, name in zip(usable, names, strict=True)
    ]
    parts = [_cover_ranges(key, *each) for key, each in zip(usable, ranges, strict=True)]
    return Covered(all_of(each for each in parts if each is not TRUE), num_rows)


def _take(
    source: DataFrame, columns: Sequence[Column], most: int, on_tasks: OnTasks | None
) -> tuple[int, pa.Table | None]:
    """Count the source rows; also load keys and row numbers if there are at most `most` rows."""
    row = named_column(SOURCE_ROW)
    most_of_task = most // max(1, _number_of_tasks(source)) if jobs.is_sent_whole(source) else 0
    if most_of_task:  # one job is enough unless the tasks differ much in size
        first = source.filter(row.bitwiseAND(sf.lit(ROWS_OF_TASK)) < most_of_task)
        found = jobs.load(first.select(*columns, row), on_tasks)
        last = pc.max(pc.bit_wise_and(found[SOURCE_ROW], ROWS_OF_TASK)).as_py()
        if last is None or last < most_of_task - 1:
            return found.num_rows, found
    num_rows = count_rows(source, on_tasks)
    if num_rows > most:
        return num_rows, None
    return num_rows, jobs.load(source.select(*columns, row), on_tasks)


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
    """Find the value ranges of a key: the lowest and highest value in each of `_PARTS` equal parts.

    Strings and timestamps without a zone have only one range. A key with only nulls has none.
    """
    if key.data_type in (STRING, TIMESTAMP_NTZ):
        whole = values.agg(*(f(named_column(name)).alias(f.__name__) for f in _ENDS))
        found = jobs.load(whole.filter("min IS NOT NULL"), on_tasks)
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
    found = jobs.load(ranges, on_tasks)
    low, high = (_convert(found[f.__name__], key.data_type) for f in _ENDS)
    return low, high


def _number_of(value: Column, data_type: DataType) -> Column:
    """Convert a value to a number that preserves the order approximately."""
    match data_type:
        case t if t == DATE:
            return sf.unix_date(value).cast("double")
        case t if t == TIMESTAMP:
            return sf.unix_micros(value).cast("double")
    return value.cast("double")


def _convert(values: pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Convert values to the table's type; values outside its range become the nearest value.

    Such values match no row of the table anyway.
    """
    array = values.combine_chunks()
    if data_type in INTEGER_RANGES:
        least, greatest = INTEGER_RANGES[data_type]
        array = array.cast(pa.int64())
        array = pc.max_element_wise(array, pa.scalar(least, pa.int64()), skip_nulls=False)
        array = pc.min_element_wise(array, pa.scalar(greatest, pa.int64()), skip_nulls=False)
    return array.cast(arrow_type_from_type(data_type))


def _cover_ranges(key: Key, lows: pa.Array, highs: pa.Array) -> Predicate:
    if not len(lows):
        return cover_keys([key.path], [lows])  # every key is null and matches nothing
    return cover_ranges(key.path, lows, highs)
