"""Partitioning: partition columns as the strings in Spark's directory names.

Spark's own directory names depend on the session (time zone) and lose information. Spark therefore
gets the strings of `protocol.values.partition_values`, from expressions that depend on neither time
zone nor ANSI mode. For the log, the directory name is parsed as a value of the column's type and
serialized again. This gives numbers one text form, whatever form Java writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    StructField,
)
from delta_ops.protocol.values.partition_values import (
    HIVE_DEFAULT_PARTITION,
    parse,
    serialize,
    stored_where_empty,
)
from delta_ops.spark.expressions.columns import ntz_from_micros
from delta_ops.spark.row_checks import RowCheck
from delta_ops.spark.versions import is_valid_utf8

_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


def partition_text(value: Column, data_type: DataType) -> Column:
    """Build the partition column; null for values that `partition_text_checks` rejects.

    The result is a string, except for types that Spark writes the same way in every session. Spark
    sorts by this column before the write, and it sorts slowly by strings with a common prefix.
    """
    match data_type:
        case t if t in (STRING, BINARY):
            return sf.when(~_is_unusable(value), value.cast("string"))
        case t if t == TIMESTAMP:
            return sf.concat(_time_text(ntz_from_micros(sf.unix_micros(value)), "T"), sf.lit("Z"))
        case t if t == TIMESTAMP_NTZ:
            return _time_text(value, " ")
        case t if t in (FLOAT, DOUBLE):  # -0.0 equals 0.0: one value, one directory
            return sf.when(value == sf.lit(0.0), sf.lit("0.0")).otherwise(value.cast("string"))
    return value


def fill_empty(value: Column, field: StructField) -> Column:
    """Convert an empty partition value to null, or to spaces for CHAR, as readers will see it."""
    stored = stored_where_empty(field)
    if stored == "":
        return value
    return sf.when(sf.length(value) == 0, sf.lit(stored)).otherwise(value)


def partition_text_checks(
    value: Column, field: StructField, *, folds_case: bool
) -> Iterator[RowCheck]:
    """Checks for values that have no directory name, or share one with another value.

    Args:
        folds_case: Whether the file system ignores case in file names.
    """
    if field.data_type not in (STRING, BINARY):
        return
    yield RowCheck(
        num_broken=sf.count_if(_is_unusable(value)),
        message=(
            f"partition column {field.name!r} has a value that cannot be a directory name (the "
            f"text {HIVE_DEFAULT_PARTITION}, which means null, a NUL character, or bytes that are "
            "not UTF-8); change the value, or partition by a string instead, such as its hex "
            "digits"
        ),
    )
    text = value.cast("string")
    if not field.nullable:
        yield RowCheck(
            num_broken=sf.count_if(text == sf.lit("")),
            message=(
                f"partition column {field.name!r} has an empty value, which the log stores as "
                "null, but the column is NOT NULL; change it or leave the row out"
            ),
        )
    if folds_case:
        yield RowCheck(
            num_broken=sf.size(sf.collect_set(text)) - sf.size(sf.collect_set(sf.lower(text))),
            message=(
                f"partition column {field.name!r} has values that differ only in case, which are "
                "the same directory on this file system; use one spelling, or write with "
                "delta_ops.arrow"
            ),
        )


def is_nan_partition(value: Column, field: StructField) -> tuple[Column, str] | None:
    """Condition that a new partition value is NaN, with the error message.

    Rows of an existing NaN partition can still be changed and deleted.
    """
    if field.data_type not in (FLOAT, DOUBLE):
        return None
    return sf.coalesce(sf.isnan(value), sf.lit(False)), (
        f"partition column {field.name!r} has the value NaN, and engines disagree on whether NaN "
        "equals itself; make it null, or leave the row out"
    )


def partition_values_of(
    segments: Sequence[str], fields: Sequence[StructField], names: Mapping[str, str]
) -> Mapping[str, str | None]:
    """Partition values for the log, from the directories of a file.

    Args:
        names: The columns' names in the log.

    Raises:
        InvalidRequestError: A string is not a value of its column's type, such as a year after
            9999.
    """
    values: dict[str, str | None] = {}
    for segment, field in zip(segments, fields, strict=True):
        text = _unescape(segment.partition("=")[2])
        try:
            value = None if text == HIVE_DEFAULT_PARTITION else parse(text, field.data_type)
            values[names[field.name]] = serialize(value, field.data_type)
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"partition column {field.name!r}: {error} Change the value or leave the row out"
            ) from error
    return values


def _is_unusable(value: Column) -> Column:
    text = value.cast("string")
    is_reserved = text == sf.lit(HIVE_DEFAULT_PARTITION)
    is_reserved_or_has_nul = is_reserved | sf.contains(text, sf.lit("\0"))
    return sf.coalesce(is_reserved_or_has_nul | ~is_valid_utf8(text), sf.lit(False))


def _time_text(local: Column, separator: str) -> Column:
    text = local.cast("string")  # without trailing zeros or an empty fraction
    # A year after 9999 has more digits, and a year before 1 has a sign.
    day, time = (sf.substring_index(text, " ", n) for n in (1, -1))
    fraction = sf.rpad(sf.substring(time, 10, 6), 6, "0")
    return sf.concat(day, sf.lit(separator), sf.substring(time, 1, 8), sf.lit("."), fraction)


def _unescape(segment: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), segment)
