"""Assignments: computes the new values of columns as Spark columns.

A value must fit its column as in a write: it keeps its meaning, or it is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import reduce
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.planning.assigned_fields import assigned_field, whole_values
from delta_ops.planning.merge_columns import unmatchable_message
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Column as PredicateColumn
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    BINARY,
    NO_COLUMNS,
    STRING,
    VARIANT,
    ColumnPath,
    StructField,
    StructType,
    find_field,
    walk,
)
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.conversion import value_of_type
from delta_ops.spark.dml.value_columns import column_of_value
from delta_ops.spark.expressions.analysis import analyze, reason_of
from delta_ops.spark.partition_text import fill_empty, is_nan_partition
from delta_ops.spark.schema import (
    data_schema_from_spark,
    has_collation,
    spark_schema_from_schema,
)
from delta_ops.spark.session.variables import escape_variables, names_like_variables
from delta_ops.spark.write.table_columns import Misfit, fit_value
from delta_ops.transaction.mutability import validate_whole


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
        assigned: Values by column or struct field: SQL texts, expressions, Spark columns or other
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
    if not assigned:
        raise InvalidRequestError(f"{table}: no column is given a value; name one at least")
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
    *,
    is_update: bool,
    unmatchable: Collection[str] = (),
) -> Assigned:
    """Convert new values to the types of the table's columns.

    Args:
        columns: By column name in the table.
        rows: With all columns that the values use.
        definition: Definition of the table.
        table: For messages.
        is_update: Whether the values replace values of existing rows.
        unmatchable: Merge keys that must not be empty in any row.

    Raises:
        InvalidRequestError: A value cannot be computed, or its type does not fit.
    """
    try:
        made = rows.select(*(each.alias(name) for name, each in columns.items())).schema
    except PySparkException as error:
        raise InvalidRequestError(
            f"{table}: a new value cannot be understood by Spark ({reason_of(error)})"
        ) from error
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
        if name not in definition.partition_columns:
            continue
        if nan := is_nan_partition(values[name], wanted):
            misfits.append(nan)
        if name in unmatchable:
            is_empty = sf.coalesce(sf.length(values[name]) == 0, sf.lit(False))
            misfits.append((is_empty, unmatchable_message(name)))
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
    if isinstance(value, str):
        return sf.expr(escape_variables(value, names))
    if isinstance(value, Expression):
        return sf.expr(escape_variables(value.text))
    if isinstance(value, PredicateColumn | Predicate):
        raise InvalidRequestError(
            f"{table}: column {field.name} is given {value!r}; give a value, or an "
            'expression of SQL such as "price * 2"'
        )
    if value is None:
        return sf.lit(None)
    if any(each == VARIANT for _, each in walk(StructType((field,)))):
        raise InvalidRequestError(
            f"{table}: column {field.name} has a variant, of which no Python value is made; give "
            "an expression of SQL such as \"parse_json('...')\""
        )
    taken = value_of_type(value, field, table, is_whole=is_whole)
    return column_of_value(taken, field.data_type)
