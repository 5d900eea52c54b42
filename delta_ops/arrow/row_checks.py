"""Row checks: the rules that every row must keep, in Arrow data.

Source: PROTOCOL.md, "Column Invariants" (NOT NULL), `protocol.row_rules`.

The nullability of the Arrow types is not asked, only the values. What must not be null may be so
where its parent is null. Bytes that are no text can stand in an Arrow column of text, and Parquet
takes them: a file could be written that other readers fail on.

Conditions of constraints and invariants are checked where they are among those that a predicate as
text may say, which mean the same to Spark; the rest is refused before a file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from delta_ops.arrow.nesting import entries
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import parse_predicate, resolve, to_arrow
from delta_ops.protocol.predicate.stored import stored_predicate
from delta_ops.protocol.row_rules import Check, Invariant, not_null_rules
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructType
from delta_ops.protocol.table_definition import TableDefinition

Checks = Mapping[Check | Invariant, Callable[[pa.RecordBatch], None]]
"""What refuses batches in which a row breaks a rule, by the rule."""


def validate_values(rows: pa.RecordBatch, table: str) -> None:
    """Refuse values that their type does not allow, such as text that is not UTF-8.

    Args:
        rows: May have any types.
        table: For the message.

    Raises:
        InvalidRequestError: With the column.
    """
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise InvalidRequestError(
                f"{table}: column {name} has a value that its type does not allow ({reason}); "
                "change it or leave the row out. Bytes that are no UTF-8 text belong in a binary "
                "column, or are decoded by their own encoding first"
            ) from error


def plan_checks(definition: TableDefinition, table: str) -> Checks:
    """What refuses batches in which a row breaks a CHECK constraint or an invariant, by the rule.

    Args:
        table: For messages.

    Raises:
        InvalidRequestError: A condition is none that this engine can evaluate.
    """
    rules = [rule for rule in definition.row_rules if isinstance(rule, Check | Invariant)]
    return {rule: _plan_check(rule, definition, table) for rule in rules}


def _plan_check(
    rule: Check | Invariant, definition: TableDefinition, table: str
) -> Callable[[pa.RecordBatch], None]:
    schema = definition.schema
    try:
        predicate = parse_predicate(rule.expression or "")
        stored = stored_predicate(predicate, schema, definition.partition_columns)
        is_kept = to_arrow(resolve(stored, schema), schema)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{table}: {rule} ({rule.expression}) needs the Spark engine: {error} Write with "
            "delta_ops.spark"
        ) from error

    def validate(rows: pa.RecordBatch) -> None:
        num_broken = len(rows) - len(rows.filter(is_kept))
        if num_broken:
            raise InvalidRequestError(
                f"{table}: {rule} ({rule.expression}) is not true; correct these rows or leave "
                f"them out, nothing was committed (rows: {num_broken} of a batch of {len(rows)})"
            )

    return validate


def validate_rows(rows: pa.Table, schema: StructType, table: str) -> None:
    """Refuse rows that break a rule.

    Args:
        rows: Have the schema's Arrow types; a column may be missing.
        schema: The table's.
        table: For the message.

    Raises:
        InvalidRequestError: With the column.
    """
    for field in schema.fields:
        if not not_null_rules(StructType((field,))) or field.name not in rows.column_names:
            continue
        for chunk in rows[field.name].chunks:
            for path in _find_nulls(chunk, field.data_type, field.nullable, field.name):
                raise InvalidRequestError(
                    f"{table}: column {path} has a null, and the table says NOT NULL; fill it or "
                    "leave the row out"
                )


def _find_nulls(array: Any, data_type: DataType, nullable: bool, path: str) -> Iterator[str]:
    """The paths of nulls that must not be; the array has no null that is its parent's."""
    if not nullable and array.null_count:
        yield path
    match data_type:
        case StructType(fields=fields):
            members = array.drop_null().flatten()
            for member, each in zip(members, fields, strict=True):
                yield from _find_nulls(member, each.data_type, each.nullable, f"{path}.{each.name}")
        case ArrayType(element_type=element_type, contains_null=contains_null):
            yield from _find_nulls(array.flatten(), element_type, contains_null, f"{path}.element")
        case MapType():
            keys, values = entries(array).flatten().flatten()
            yield from _find_nulls(keys, data_type.key_type, True, f"{path}.key")
            yield from _find_nulls(
                values, data_type.value_type, data_type.value_contains_null, f"{path}.value"
            )
