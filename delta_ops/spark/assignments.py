"""Assignments: computes the new values of columns as Spark columns.

A value must fit its column: it keeps its meaning, or it is rejected. Which types fit depends on the
caller: `casting.fit_value`, or `store_assignment.assign_value` for statements of SQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from functools import reduce
from typing import Any, NamedTuple

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from delta_ops.errors import InvalidRequestError
from delta_ops.planning.assigned_columns import is_sql_text
from delta_ops.planning.assigned_fields import assigned_field, python_value, whole_values
from delta_ops.planning.merge_columns import NO_KEYS, unmatchable_message
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.schema import (
    BINARY,
    NO_COLUMNS,
    STRING,
    VARIANT,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
    walk,
)
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.casting import FitValue, Misfit
from delta_ops.spark.expressions.analysis import analyze, reason_of
from delta_ops.spark.expressions.columns import parse_physical_text, physical_text
from delta_ops.spark.partitioning import fill_empty, is_nan_partition
from delta_ops.spark.schema import (
    data_schema_from_spark,
    has_collation,
    spark_schema_from_schema,
)
from delta_ops.spark.session.variables import escape_variables, names_like_variables
from delta_ops.transaction.mutability import validate_whole

_KEY, _VALUE = "key", "value"
_OPTIONS = {"mode": "FAILFAST", "maxStringLen": str(2**31 - 1)}


class Assigned(NamedTuple):
    """New values of some columns of a table."""

    values: Mapping[str, Column]
    """In the types of the table, by column name in the spelling of the table."""
    misfits: Sequence[Misfit]
    unfilled: Mapping[str, Column] = {}
    """Strings and bytes of partition columns, before empty values become null or spaces."""


def assigned_columns(
    assigned: Mapping[ColumnPath, Any],
    schema: StructType,
    column_of: Callable[[str], Column],
    table: str,
    others: StructType = NO_COLUMNS,
    *,
    is_whole: bool = True,
) -> dict[str, Column]:
    """Build the new value of each assigned column, by the column's name in the table.

    Args:
        assigned: Values by column or struct field: SQL strings, expressions, Spark columns or other
            Python values.
        schema: Schema of the table.
        column_of: Returns the old value of a column, by its name.
        table: For messages.
        others: Further columns that expressions may use.
        is_whole: Require all fields in Python values of structs, because rows would lose the other
            fields.

    Raises:
        InvalidRequestError: A column does not exist or is assigned twice, or a value does not fit
            its type.
    """
    names = names_like_variables(schema, others)
    values = {
        path: _column_of(value, assigned_field(path, schema), table, names, is_whole)
        for path, value in assigned.items()
    }
    return whole_values(
        values,
        schema,
        lambda path: reduce(Column.getField, path[1:], column_of(path[0])),
        lambda fields: sf.struct(*(value.alias(name) for name, value in fields)),
        table,
    )


def fit_values(
    columns: Mapping[str, Column],
    rows: DataFrame,
    definition: TableDefinition,
    table: str,
    fit_value: FitValue,
    *,
    is_update: bool,
    unmatchable: Mapping[str, int] = NO_KEYS,
) -> Assigned:
    """Convert new values to the types of the table's columns.

    Args:
        columns: By column name in the table.
        rows: Any DataFrame with all columns that the values use.
        definition: Definition of the table.
        table: For messages.
        fit_value: Converts a value to the type of its column.
        is_update: Whether the values replace values of existing rows.
        unmatchable: Minimum length of the keys that a merge inserts, by column. A shorter key
            would match no source row.

    Raises:
        InvalidRequestError: A value cannot be computed, or its type does not fit.
    """
    try:
        made = rows.select(*(each.alias(name) for name, each in columns.items())).schema
    except PySparkException as error:
        raise _not_understood(error, table) from error
    assigned = data_schema_from_spark(made)
    values: dict[str, Column] = {}
    unfilled: dict[str, Column] = {}
    misfits: list[Misfit] = []
    for field, as_made, (name, column) in zip(assigned.fields, made, columns.items(), strict=True):
        plain = spark_schema_from_schema(StructType((field,)))[0].dataType
        # Strings of a table compare by their bytes.
        value = column.cast(plain) if has_collation(as_made.dataType) else column
        wanted = find_field(definition.schema, name)
        if is_update:
            validate_whole(field.data_type, wanted, table)
        values[name], misfit = fit_value(value, field.data_type, wanted, table)
        misfits += [misfit] if misfit else []
        if (least := unmatchable.get(name)) is not None:
            is_shorter = sf.coalesce(sf.length(values[name]) < least, sf.lit(False))
            misfits.append(Misfit(is_shorter, unmatchable_message(name, least)))
        if name not in definition.partition_columns:
            continue
        if nan := is_nan_partition(values[name], wanted):
            misfits.append(Misfit(*nan))
        if wanted.data_type in (STRING, BINARY):
            unfilled[name] = values[name]
        values[name] = fill_empty(values[name], wanted)
    return Assigned(values, misfits, unfilled)


def are_stable(assigned: Assigned, rows: DataFrame) -> bool:
    """Whether each evaluation is known to give the same values.

    Args:
        rows: Any DataFrame with the columns that the values use.
    """
    return analyze(sf.struct(*assigned.values.values()), rows).is_stable


def _column_of(
    value: Any, field: StructField, table: str, names: Set[str], is_whole: bool
) -> Column:
    if isinstance(value, Column):
        return value
    if is_sql_text(value):
        return _parse_sql(escape_variables(value, names), table)
    if isinstance(value, Expression):
        return _parse_sql(escape_variables(value.text), table)
    if value is None:
        return sf.lit(None)
    if any(each == VARIANT for _, each in walk(StructType((field,)))):
        raise InvalidRequestError(
            f"{table}: column {field.name} has a variant, which no Python value represents; give "
            "a SQL expression such as \"parse_json('...')\""
        )
    taken = python_value(value, field, table, is_whole=is_whole)
    return _column_of_value(taken, field.data_type)


def _parse_sql(text: str, table: str) -> Column:
    try:
        return sf.expr(text)
    except ParseException as error:  # PySpark 3.5 parses a text before it is used
        raise _not_understood(error, table) from error


def _not_understood(error: PySparkException, table: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{table}: a new value cannot be understood by Spark ({reason_of(error)})"
    )


def _column_of_value(value: Any, data_type: DataType) -> Column:
    """Build a column with this value in every row.

    A nested value is sent as one JSON string, because one Py4J call per list element would take a
    millisecond each.

    Args:
        value: As `values.value_of_type` makes it.
        data_type: Type of the value, without a variant.
    """
    if not isinstance(data_type, ArrayType | MapType | StructType):
        return parse_physical_text(sf.lit(physical_text(value)), data_type)
    text = json.dumps({_VALUE: _texts(value, data_type)})
    stored = st.StructType([st.StructField(_VALUE, _type_of_texts(data_type))])
    return _parse(sf.from_json(sf.lit(text), stored, _OPTIONS).getField(_VALUE), data_type)


def _texts(value: Any, data_type: DataType) -> Any:
    if value is None:
        return None
    match data_type:
        case StructType(fields=fields):
            # Fields are numbered: column names may contain any character, or differ only in case.
            return {str(n): _texts(value[f.name], f.data_type) for n, f in enumerate(fields)}
        case ArrayType(element_type=element_type):
            return [_texts(each, element_type) for each in value]
        case MapType(key_type=key_type, value_type=value_type):
            return [
                {_KEY: _texts(key, key_type), _VALUE: _texts(item, value_type)}
                for key, item in value
            ]
    return physical_text(value)


def _type_of_texts(data_type: DataType) -> st.DataType:
    match data_type:
        case StructType(fields=fields):
            return st.StructType(
                [st.StructField(str(n), _type_of_texts(f.data_type)) for n, f in enumerate(fields)]
            )
        case ArrayType(element_type=element_type):
            return st.ArrayType(_type_of_texts(element_type))
        case MapType(key_type=key_type, value_type=value_type):
            pair = st.StructType(
                [
                    st.StructField(_KEY, _type_of_texts(key_type)),
                    st.StructField(_VALUE, _type_of_texts(value_type)),
                ]
            )
            return st.ArrayType(pair)
    return st.StringType()


def _parse(texts: Column, data_type: DataType) -> Column:
    match data_type:
        case StructType(fields=fields):
            members = (
                _parse(texts.getField(str(n)), f.data_type).alias(f.name)
                for n, f in enumerate(fields)
            )
            return sf.when(texts.isNotNull(), sf.struct(*members))
        case ArrayType(element_type=element_type):
            if element_type == STRING:
                return texts
            return sf.transform(texts, lambda each: _parse(each, element_type))
        case MapType(key_type=key_type, value_type=value_type):
            pairs = sf.transform(
                texts,
                lambda pair: sf.struct(
                    _parse(pair.getField(_KEY), key_type).alias(_KEY),
                    _parse(pair.getField(_VALUE), value_type).alias(_VALUE),
                ),
            )
            return sf.map_from_entries(pairs)
    return parse_physical_text(texts, data_type)
