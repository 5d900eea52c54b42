"""Casting: converts the columns of a DataFrame to the columns of a table.

Columns are matched by name, case-insensitively. Missing columns become null. Types must agree, or
the conversion must keep the meaning of each value. Numbers are widened without a check. A top-level
column is narrowed if casting each value back gives the same value. There are no other casts,
because Spark's casts between strings, times and numbers depend on the session; statements of SQL
have them (`store_assignment`). ANSI mode decides whether a cast fails, so values that do not fit
become null here and are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.schema import (
    BINARY,
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.evolution import validate_unique_names
from delta_ops.protocol.schema.widening import is_number
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.partitioning import fill_empty
from delta_ops.spark.row_checks import RowCheck, breaks_in_any, breaks_in_field
from delta_ops.spark.schema import (
    data_schema_from_spark,
    has_collation,
    spark_schema_from_schema,
)
from delta_ops.spark.versions import try_cast

_DIGITS: Mapping[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 19}
_EXACT_IN: Mapping[DataType, tuple[DataType, ...]] = {
    FLOAT: (BYTE, SHORT),
    DOUBLE: (BYTE, SHORT, INTEGER, FLOAT),
}
"""Types whose values the floating-point type represents exactly."""
_VOID = PrimitiveType("void")
_OF_TEXTS, _OF_NUMBERS = "CAST_INVALID_INPUT", "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
"""The reference's error classes of values that do not fit."""


class Misfit(NamedTuple):
    """A check that the values of a column fit."""

    is_broken: Column
    """Whether a value does not fit."""
    message: str
    error_class: str | None = None
    """The reference's error class."""


FitValue = Callable[[Column, DataType, StructField, str], tuple[Column, Misfit | None]]
"""Converts a value to the type of a table column; see `fit_value`."""


class Cast(NamedTuple):
    """How the values of one type become values of another type."""

    convert: Callable[[Column], Column]
    is_misfit: Callable[[Column], Column] | None = None
    """Whether a value does not fit; never null. None: each value fits."""


FindCast = Callable[[DataType, DataType], Cast | None]
"""Finds the cast between two types without members; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows with the columns of a table."""

    frame: DataFrame
    """The table's columns in its order, then the columns for the checks."""
    checks: tuple[RowCheck, ...]
    """Checks for values that do not fit."""


def fit(frame: DataFrame, schema: StructType, table: str) -> FittedRows:
    """Convert the columns of a DataFrame to the columns of a table.

    Raises:
        InvalidRequestError: A column is not in the table, or its type does not fit.
    """
    source = data_schema_from_spark(frame.schema)
    validate_unique_names(source, table)
    _refuse_unknown(source, schema, table)
    frame = _drop_collations(frame, source)
    values: list[Column] = []
    misfits: list[Misfit] = []
    for each in schema.fields:
        found = source.fields_by_lower_name.get(each.name.lower())
        if found:
            value = named_column(found[0].name)
            fitted, misfit = fit_value(value, found[0].data_type, each, table)
            misfits += [misfit] if misfit else []
        else:
            fitted = null_of(each.data_type)
        values.append(fitted.alias(each.name))
    names = [f"delta_ops check {i}" for i in range(len(misfits))]  # spaces avoid table columns
    return FittedRows(
        frame=frame.select(
            *values,
            *(each.is_broken.alias(n) for n, each in zip(names, misfits, strict=True)),
        ),
        checks=tuple(
            RowCheck(
                num_broken=sf.count_if(named_column(name)),
                message=each.message,
                error_class=each.error_class,
            )
            for name, each in zip(names, misfits, strict=True)
        ),
    )


def fit_value(
    value: Column, source: DataType, field: StructField, table: str
) -> tuple[Column, Misfit | None]:
    """Convert a value to the type of a table column; add a check if the conversion may change it.

    Raises:
        InvalidRequestError: The type does not fit.
    """
    found = narrow(source, field.data_type)
    if found is None:
        found = find_cast(source, field.data_type, field.name, table, widen)
    return apply_cast(found, value, source, field)


def apply_cast(
    found: Cast, value: Column, source: DataType, field: StructField
) -> tuple[Column, Misfit | None]:
    """Convert a value to the type of a table column; add a check if values may not fit."""
    if found.is_misfit is None:
        return found.convert(value), None
    message = _misfit(field.name, source, field.data_type, ", and a value does not fit")
    error_class = _OF_TEXTS if source == STRING else _OF_NUMBERS
    return found.convert(value), Misfit(found.is_misfit(value), message, error_class)


def narrow(source: DataType, target: DataType) -> Cast | None:
    """The cast of numbers to a type that lacks some of them; None for other types."""
    if not _is_narrowed(source, target):
        return None
    return Cast(lambda value: try_cast(value, target.name), partial(_is_changed, source, target))


def widen(source: DataType, target: DataType) -> Cast | None:
    """The cast of numbers to a type that includes all of them; None for other types."""
    if is_number(source) and is_number(target) and _is_widened(source, target):
        return Cast(lambda value: value.cast(target.name))
    return None


def _is_changed(source: DataType, target: DataType, value: Column) -> Column:
    """Whether a number is another number in the target type, or none."""
    narrowed = try_cast(value, target.name)
    is_changed = ~try_cast(narrowed, source.name).eqNullSafe(value)
    if isinstance(source, DecimalType) and target in (FLOAT, DOUBLE):
        is_changed = ~_is_decimal_of_float(value, narrowed, source)
    if target == LONG and source in _EXACT_IN:
        return is_changed | _is_past_longs(value)
    if source == LONG and target in _EXACT_IN:
        return is_changed | _is_past_longs(narrowed)
    return is_changed


def stored_rows(frame: DataFrame, definition: TableDefinition) -> DataFrame:
    """Convert empty partition values to null or spaces, as a reader will see them."""
    texts = [each for each in definition.partition_fields if each.data_type in (STRING, BINARY)]
    values = {each.name: fill_empty(named_column(each.name), each) for each in texts}
    return frame.withColumns(values) if values else frame


def _refuse_unknown(source: StructType, schema: StructType, table: str) -> None:
    for each in source.fields:
        if each.name.lower() not in schema.fields_by_lower_name:
            raise InvalidRequestError(
                f"{table} has no column {each.name!r}; drop it from the data, or write with "
                f"{option('merge_schema', True)} to add it. Its columns are "
                f"{', '.join(f.name for f in schema.fields) or 'none'}",
                "DELTA_METADATA_MISMATCH",
            )


def _drop_collations(frame: DataFrame, source: StructType) -> DataFrame:
    """Cast strings with collations to plain strings, which compare by their bytes.

    Otherwise the rules of the table would use the collations of the data.
    """
    collated = {
        each.name: named_column(each.name).cast(stored_rows.dataType)
        for each, stored_rows in zip(frame.schema, spark_schema_from_schema(source), strict=True)
        if has_collation(each.dataType)
    }
    return frame.withColumns(collated) if collated else frame


def _is_decimal_of_float(value: Column, number: Column, source: DecimalType) -> Column:
    """Whether a decimal has the shortest digits of a FLOAT or DOUBLE, or is the same whole number.

    Spark casts a FLOAT to a decimal through DOUBLE, which gives 0.1 the digits of 0.10000000149.
    """
    digits = try_cast(number.cast("string"), source.name)
    whole = sf.when(~_is_past_longs(number), try_cast(try_cast(number, "bigint"), source.name))
    return digits.eqNullSafe(value) | sf.coalesce(whole == value, sf.lit(False))


def _is_past_longs(value: Column) -> Column:
    """Whether a number is 2**63 or more; Spark would cast it to the largest long."""
    return sf.coalesce(value >= sf.lit(2.0**63), sf.lit(False))


def find_cast(
    source: DataType, target: DataType, path: str, table: str, find_leaf: FindCast
) -> Cast:
    """Find the cast between two types.

    Args:
        path: The column or member, for messages.
        table: For messages.
        find_leaf: Finds the cast of types without members.

    Raises:
        InvalidRequestError: There is no cast.
    """
    if _is_same(source, target):
        return Cast(_itself)
    if source == _VOID:
        return Cast(lambda _: null_of(target))
    match source, target:
        case StructType(), StructType():
            return _cast_of_structs(source, target, path, table, find_leaf)
        case ArrayType(), ArrayType():
            element = find_cast(
                source.element_type, target.element_type, f"{path}.element", table, find_leaf
            )
            return Cast(
                lambda value: sf.transform(value, element.convert),
                element.is_misfit and partial(breaks_in_any, _itself, element.is_misfit),
            )
        case MapType(), MapType():
            return _cast_of_maps(source, target, path, table, find_leaf)
    found = find_leaf(source, target)
    if found is None:
        raise InvalidRequestError(f"{table}: {_misfit(path, source, target, '')}")
    return found


def _itself(value: Column) -> Column:
    return value


def _cast_of_maps(
    source: MapType, target: MapType, path: str, table: str, find_leaf: FindCast
) -> Cast:
    of_keys = find_cast(source.key_type, target.key_type, f"{path}.key", table, find_leaf)
    of_values = find_cast(source.value_type, target.value_type, f"{path}.value", table, find_leaf)

    def convert(value: Column) -> Column:
        if of_keys.convert is not _itself:
            value = sf.transform_keys(value, lambda key, _: of_keys.convert(key))
        return sf.transform_values(value, lambda _, each: of_values.convert(each))

    checks = [
        partial(breaks_in_any, members, each.is_misfit)
        for members, each in ((sf.map_keys, of_keys), (sf.map_values, of_values))
        if each.is_misfit is not None
    ]
    return Cast(convert, _any_of(checks))


def _any_of(checks: Sequence[Callable[[Column], Column]]) -> Callable[[Column], Column] | None:
    if not checks:
        return None
    return lambda value: reduce(or_, (check(value) for check in checks))


def _cast_of_structs(
    source: StructType, target: StructType, path: str, table: str, find_leaf: FindCast
) -> Cast:
    for each in source.fields:
        if each.name.lower() not in target.fields_by_lower_name:
            raise InvalidRequestError(
                f"{table} has no column {path}.{each.name}; drop it from the data, or write with "
                f"{option('merge_schema', True)} to add it"
            )
    casts: list[tuple[str | None, Cast]] = []
    for each in target.fields:
        found = source.fields_by_lower_name.get(each.name.lower())
        if not found:
            casts.append((None, Cast(partial(_null_instead_of, each.data_type))))
            continue
        inner = f"{path}.{each.name}"
        cast = find_cast(found[0].data_type, each.data_type, inner, table, find_leaf)
        casts.append((found[0].name, cast))

    def convert(value: Column) -> Column:
        members = (
            cast.convert(value if name is None else value.getField(name)).alias(each.name)
            for each, (name, cast) in zip(target.fields, casts, strict=True)
        )
        return sf.when(value.isNotNull(), sf.struct(*members))

    checks = [
        partial(breaks_in_field, name, cast.is_misfit)
        for name, cast in casts
        if name is not None and cast.is_misfit is not None
    ]
    return Cast(convert, _any_of(checks))


def _null_instead_of(data_type: DataType, _: Column) -> Column:
    return null_of(data_type)


def null_of(data_type: DataType) -> Column:
    """Null of this type."""
    only = StructType((StructField("only", data_type),))
    return sf.lit(None).cast(spark_schema_from_schema(only)[0].dataType)


def _is_same(source: DataType, target: DataType) -> bool:
    """Whether Spark stores both types alike: nullability is ignored, the case of names is not."""
    only = (StructType((StructField("only", each),)) for each in (source, target))
    first, second = map(spark_schema_from_schema, only)
    return bool(first == second)


def _is_narrowed(source: DataType, target: DataType) -> bool:
    return is_number(source) and is_number(target) and not _is_widened(source, target)


def _is_widened(source: DataType, target: DataType) -> bool:
    """Whether the target type includes all values of the source type."""
    if source == target or source in _EXACT_IN.get(target, ()):
        return True
    if source in _DIGITS and target in _DIGITS:
        return _DIGITS[source] <= _DIGITS[target]
    if not isinstance(target, DecimalType):
        return False
    whole = target.precision - target.scale
    if isinstance(source, DecimalType):
        return source.precision - source.scale <= whole and source.scale <= target.scale
    return source in _DIGITS and _DIGITS[source] <= whole


def _misfit(path: str, source: DataType, target: DataType, why: str) -> str:
    return (
        f"column {path!r} is {target.name} in the table and {source.name} in the data{why}; cast it"
    )
