"""Casting: converts the columns of a DataFrame to the columns of a table.

Columns are matched by name, case-insensitively. Missing columns become null. Types must agree, or
the conversion must keep the meaning of each value. Numbers are widened without a check. A top-level
column is narrowed if casting each value back gives the same value. There are no other casts,
because Spark's casts between strings, times and numbers depend on the session. ANSI mode decides
whether a cast fails, so values that do not fit become null here and are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.partitioning import fill_empty
from delta_ops.spark.row_checks import RowCheck
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


Misfit = tuple[Column, str]
"""Condition that a value does not fit its column, and the error message."""


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
            *(is_changed.alias(n) for n, (is_changed, _) in zip(names, misfits, strict=True)),
        ),
        checks=tuple(
            RowCheck(num_broken=sf.count_if(named_column(name)), message=message)
            for name, (_, message) in zip(names, misfits, strict=True)
        ),
    )


def fit_value(
    value: Column, source: DataType, field: StructField, table: str
) -> tuple[Column, Misfit | None]:
    """Convert a value to the type of a table column; add a check if the conversion may change it.

    Raises:
        InvalidRequestError: The type does not fit.
    """
    wanted = field.data_type
    if not _is_narrowed(source, wanted):
        return _convert(value, source, wanted, field.name, table), None
    narrowed = try_cast(value, wanted.name)
    is_changed = ~try_cast(narrowed, source.name).eqNullSafe(value)
    if isinstance(source, DecimalType) and wanted in (FLOAT, DOUBLE):
        is_changed = ~_is_decimal_of_float(value, narrowed, source)
    if wanted == LONG and source in _EXACT_IN:
        is_changed |= _is_past_longs(value)
    elif source == LONG and wanted in _EXACT_IN:
        is_changed |= _is_past_longs(narrowed)
    message = _misfit(field.name, source, wanted, ", and a value does not fit")
    return narrowed, (is_changed, message)


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
                f"{', '.join(f.name for f in schema.fields) or 'none'}"
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


def _convert(value: Column, source: DataType, target: DataType, path: str, table: str) -> Column:
    """Convert a value to the target type; only conversions that need no check."""
    if _is_same(source, target):
        return value
    if source == _VOID:
        return null_of(target)
    match source, target:
        case StructType(), StructType():
            return _converted_struct(value, source, target, path, table)
        case ArrayType(), ArrayType():
            return sf.transform(
                value,
                lambda element: _convert(
                    element, source.element_type, target.element_type, f"{path}.element", table
                ),
            )
        case MapType(), MapType():
            return _converted_map(value, source, target, path, table)
    if _is_number(source) and _is_number(target) and _is_widened(source, target):
        return value.cast(target.name)
    raise InvalidRequestError(f"{table}: {_misfit(path, source, target, '')}")


def _converted_map(
    value: Column, source: MapType, target: MapType, path: str, table: str
) -> Column:
    if not _is_same(source.key_type, target.key_type):
        # Conversions without a check keep different keys different.
        value = sf.transform_keys(
            value,
            lambda key, _: _convert(key, source.key_type, target.key_type, f"{path}.key", table),
        )
    return sf.transform_values(
        value,
        lambda _, each: _convert(
            each, source.value_type, target.value_type, f"{path}.value", table
        ),
    )


def _converted_struct(
    value: Column, source: StructType, target: StructType, path: str, table: str
) -> Column:
    for each in source.fields:
        if each.name.lower() not in target.fields_by_lower_name:
            raise InvalidRequestError(
                f"{table} has no column {path}.{each.name}; drop it from the data, or write with "
                f"{option('merge_schema', True)} to add it"
            )
    members = []
    for each in target.fields:
        found = source.fields_by_lower_name.get(each.name.lower())
        member = (
            _convert(
                value.getField(found[0].name),
                found[0].data_type,
                each.data_type,
                f"{path}.{each.name}",
                table,
            )
            if found
            else null_of(each.data_type)
        )
        members.append(member.alias(each.name))
    return sf.when(value.isNotNull(), sf.struct(*members))


def null_of(data_type: DataType) -> Column:
    """Null of this type."""
    only = StructType((StructField("only", data_type),))
    return sf.lit(None).cast(spark_schema_from_schema(only)[0].dataType)


def _is_same(source: DataType, target: DataType) -> bool:
    """Whether Spark stores both types alike: nullability is ignored, the case of names is not."""
    only = (StructType((StructField("only", each),)) for each in (source, target))
    first, second = map(spark_schema_from_schema, only)
    return bool(first == second)


def _is_number(data_type: DataType) -> bool:
    return data_type in _DIGITS or data_type in _EXACT_IN or isinstance(data_type, DecimalType)


def _is_narrowed(source: DataType, target: DataType) -> bool:
    return _is_number(source) and _is_number(target) and not _is_widened(source, target)


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
