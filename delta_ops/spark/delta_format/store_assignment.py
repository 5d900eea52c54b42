"""Store assignment: casts values to the types of columns, as statements of SQL do.

The reference casts each value of INSERT, UPDATE and MERGE with Spark's CAST in ANSI mode, in the
session's time zone. Here a cast must keep the meaning of the value, too: a value that cannot be
cast, or that is another value after a cast back, is rejected. Texts are an exception, because many
texts have the same value: '07' becomes the number 7.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column

from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.widening import is_number
from delta_ops.spark.casting import (
    Cast,
    Misfit,
    apply_cast,
    find_cast,
    narrow,
    widen,
)
from delta_ops.spark.versions import try_cast

_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def assign_value(
    value: Column, source: DataType, field: StructField, table: str
) -> tuple[Column, Misfit | None]:
    """Cast a value to the type of a table column; add a check if values may not fit.

    Raises:
        InvalidRequestError: There is no cast between the types.
    """
    found = find_cast(source, field.data_type, field.name, table, _find_cast)
    return apply_cast(found, value, source, field)


def name_by_position(source: DataType, target: DataType) -> DataType | None:
    """The type with the field names of the target in structs whose names the target lacks.

    INSERT by position matches the fields of such structs by position, as in `SELECT (1, 'a')`. A
    struct with names of the target stays, because its fields have another order on purpose.

    Returns:
        The type; None if such a struct has another number of fields than the target.
    """
    match source, target:
        case StructType(), StructType():
            return _name_fields(source, target)
        case ArrayType(), ArrayType():
            element = name_by_position(source.element_type, target.element_type)
            return None if element is None else ArrayType(element, source.contains_null)
        case MapType(), MapType():
            key = name_by_position(source.key_type, target.key_type)
            value = name_by_position(source.value_type, target.value_type)
            if key is None or value is None:
                return None
            return MapType(key, value, source.value_contains_null)
    return source


def _name_fields(source: StructType, target: StructType) -> StructType | None:
    known = target.fields_by_lower_name
    has_names = all(each.name.lower() in known for each in source.fields)
    if not has_names and len(source.fields) != len(target.fields):
        return None
    fields = []
    for number, given in enumerate(source.fields):
        wanted = known[given.name.lower()][0] if has_names else target.fields[number]
        found = name_by_position(given.data_type, wanted.data_type)
        if found is None:
            return None
        fields.append(StructField(given.name if has_names else wanted.name, found))
    return StructType(tuple(fields))


def _find_cast(source: DataType, target: DataType) -> Cast | None:
    if found := widen(source, target) or narrow(source, target):
        return found
    if target == STRING and (_is_plain(source) or source in _TIMES):
        return Cast(lambda value: value.cast("string"))
    if (source == STRING and target == BINARY) or (source == DATE and target in _TIMES):
        return Cast(lambda value: value.cast(_sql_type(target)))
    if source == STRING and (_is_plain(target) or target in _TIMES):
        is_misfit = partial(_is_lost, target)
    elif (_is_plain(source) and _is_plain(target)) or {source, target} <= set(_TIMES):
        is_misfit = partial(_is_changed, source, target)
    else:
        return None
    return Cast(partial(_try_cast, target), is_misfit)


def _is_plain(data_type: DataType) -> bool:
    """Whether the values are numbers or truth values."""
    return data_type == BOOLEAN or is_number(data_type)


def _is_lost(target: DataType, value: Column) -> Column:
    return value.isNotNull() & _try_cast(target, value).isNull()


def _is_changed(source: DataType, target: DataType, value: Column) -> Column:
    return ~_try_cast(source, _try_cast(target, value)).eqNullSafe(value)


def _try_cast(target: DataType, value: Column) -> Column:
    return try_cast(value, _sql_type(target))


def _sql_type(data_type: DataType) -> str:
    """The type in SQL; what TIMESTAMP means there depends on spark.sql.timestampType."""
    return "timestamp_ltz" if data_type == TIMESTAMP else data_type.name
