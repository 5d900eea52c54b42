"""Change column: what a column holds in new rows that leave it out, and of which type it is.

Source: PROTOCOL.md, "Default Columns", "Type Widening".

No file is touched: values of a narrower type are widened when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.column_uses import is_float_partition, uses_in_expressions
from delta_ops.protocol.columns.defaults import default_value, validate_defaults
from delta_ops.protocol.columns.identity import is_identity
from delta_ops.protocol.properties.known import TYPE_WIDENING
from delta_ops.protocol.row_rules import GENERATION_EXPRESSION
from delta_ops.protocol.schema import (
    CURRENT_DEFAULT,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    StructType,
)
from delta_ops.protocol.schema.changes import find_member, replace_member, set_metadata_key
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.schema.type_text import parse_type
from delta_ops.protocol.schema.widening import describe_widening, is_widening
from delta_ops.transaction.alter_table import Alteration, alter
from delta_ops.transaction.column_changes import change_field, field_json, find_column
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.transaction import Transaction


def set_default(
    target: TableOrPlace,
    column: str,
    default: str | None,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Say what a column holds in new rows that leave it out; the table gets the feature.

    Args:
        default: A literal of Spark SQL, or current_timestamp() or current_date(); None: null.
        txn: Application id and version: a change that the table holds already is not made again.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: There is no such column, it is a field of a struct or makes its values
            itself, or the default is none that fits it.
    """
    validate_arguments(set_default, locals())

    def change(transaction: Transaction) -> Alteration | None:
        path, field = find_column(transaction, column)
        if len(path) > 1:
            raise InvalidRequestError(
                f"{name_of_path(path)} is a field of a struct; only columns have defaults"
            )
        if GENERATION_EXPRESSION in field.metadata or is_identity(field):
            raise InvalidRequestError(
                f"column {field.name} makes its values itself, and can have no default"
            )
        changed = set_metadata_key(field, CURRENT_DEFAULT, default)
        if default is not None:
            validate_defaults(StructType((changed,)), transaction.schema)
            default_value(changed, transaction.clock(), transaction.log.uri)
        features = () if default is None else ("allowColumnDefaults",)
        return change_field(transaction, path, changed, features)

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def change_type(
    target: TableOrPlace,
    column: str,
    data_type: DataType | str,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Give a column, or a field of a struct, a wider type; where the table has type widening.

    Args:
        column: `l.element`, `m.key` and `m.value` are what an array or a map holds.
        data_type: As a text it is a type of Spark SQL.
        txn: Application id and version: a change that the table holds already is not made again.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: There is no such column, its values are none of the new type, a rule of
            the table looks at it, or the table has no type widening.
    """
    validate_arguments(change_type, locals())
    wanted = parse_type(data_type) if isinstance(data_type, str) else data_type

    def change(transaction: Transaction) -> Alteration | None:
        schema, table = transaction.schema, transaction.log.uri
        path, field, inner, given = find_member(schema, path_of_name(column, schema))
        if given == wanted:
            return None
        name = name_of_path((*path, *inner))
        if isinstance(given, StructType | ArrayType | MapType):
            raise InvalidRequestError(
                f"{table}: column {name} is nested; widen what is in it by its own name, such as "
                f"{name}.{_first_member(given)}"
            )
        if not is_widening(given, wanted):
            raise InvalidRequestError(
                f"{table}: column {name} of type {given.name} cannot become {wanted.name}: not "
                "every value is one of that type. Write the table anew with overwrite_schema=True"
            )
        if is_float_partition(transaction.definition, path):
            raise InvalidRequestError(
                f"{table}: column {name} keeps its type: the table is partitioned by it, and the "
                "texts of its values would mean other numbers. Write the table anew with "
                "overwrite_schema=True"
            )
        if uses := list(uses_in_expressions(transaction.definition, path)):
            raise InvalidRequestError(
                f"{table}: column {name} keeps its type: it is used by {', '.join(uses)}; drop "
                "that first"
            )
        if not TYPE_WIDENING.value_in(transaction.metadata.configuration):
            raise InvalidRequestError(
                f"{table}: types are widened only where the table says so; set "
                "delta.enableTypeWidening = true first"
            )
        features = ("timestampNtz",) if wanted == TIMESTAMP_NTZ else ()
        widened = replace(field, data_type=replace_member(field.data_type, inner, wanted))
        change_field(transaction, path, describe_widening(widened, inner, given, wanted), features)
        # As the reference tells of it, without what the schema says of the change.
        return Alteration(
            operation="CHANGE COLUMN", parameters={"column": field_json(path[:-1], widened)}
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def _first_member(data_type: StructType | ArrayType | MapType) -> str:
    match data_type:
        case StructType(fields=(first, *_)):
            return first.name
        case MapType():
            return "value"
    return "element"
