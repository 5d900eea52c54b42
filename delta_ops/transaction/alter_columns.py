"""Alter columns: add, describe and reorder a table's columns, and let them be null.

Source: PROTOCOL.md, "Change Metadata" and "Column Mapping".

No file is touched: in a file without a column, it is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.schema import (
    DataType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from delta_ops.protocol.schema.changes import (
    add_field,
    find_by_path,
    find_struct,
    order_fields,
    set_metadata_key,
)
from delta_ops.protocol.schema.column_names import find_named, name_of_path, path_of_name
from delta_ops.protocol.schema.evolution import allow_nulls
from delta_ops.protocol.schema.type_text import parse_type
from delta_ops.transaction.alter_table import Alteration, alter
from delta_ops.transaction.column_changes import change_field, field_json, find_column, set_schema
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to add, or a field of a struct; it may be null, as it is in the rows there are."""

    name: str
    """`a.b` is a new field `b` of the column `a`."""
    data_type: DataType | pa.DataType | str
    """As a text it is a type of Spark SQL."""
    comment: str | None = None
    first: bool = False
    """Whether it comes before all others of its struct."""
    after: str | None = None
    """The field of the same struct that it follows; neither: it comes last."""

    def __post_init__(self) -> None:
        validate_arguments(
            NewColumn, {each.name: getattr(self, each.name) for each in fields(self)}
        )


def add_columns(
    target: TableOrPlace,
    columns: Sequence[NewColumn],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Add columns, or fields of structs, which are null in the rows that are there.

    Args:
        txn: Application id and version: a change that the table holds already is not made again.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: There is such a column (case does not count), its name or type cannot
            be used, its type needs a feature that the table does not have, or its place is not
            there.
    """
    validate_arguments(add_columns, locals())
    if not columns:
        raise InvalidRequestError("no column is given; name one to add")

    def change(transaction: Transaction) -> Alteration:
        schema = transaction.schema
        paths, positions = [], []
        for column in columns:
            *parent, name = path_of_name(column.name, StructType())
            struct, spelt = find_struct(schema, tuple(parent))
            after = None if column.after is None else _plain_name(struct, column.after)
            field = _new_field(name, column)
            schema = add_field(schema, spelt, field, first=column.first, after=after)
            paths.append((*spelt, name))
            positions.append(_position(column, after))
        set_schema(transaction, schema)
        # As they are now, with ids where the table is mapped.
        added = [find_by_path(transaction.schema, path)[1] for path in paths]
        said = [
            {"column": field_json(path[:-1], field), **position}
            for path, field, position in zip(paths, added, positions, strict=True)
        ]
        return Alteration(operation="ADD COLUMNS", parameters={"columns": said})

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def set_comment(
    target: TableOrPlace,
    column: str,
    comment: str | None,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Set the comment of a column, or remove it where it is None.

    Raises:
        InvalidRequestError: There is no such column.
    """
    validate_arguments(set_comment, locals())

    def change(transaction: Transaction) -> Alteration | None:
        path, field = find_column(transaction, column)
        return change_field(transaction, path, set_metadata_key(field, "comment", comment))

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def drop_not_null(
    target: TableOrPlace,
    column: str,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Let a column be null.

    Raises:
        InvalidRequestError: There is no such column.
    """
    validate_arguments(drop_not_null, locals())

    def change(transaction: Transaction) -> Alteration | None:
        path, field = find_column(transaction, column)
        return change_field(transaction, path, replace(field, nullable=True))

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def reorder_columns(
    target: TableOrPlace,
    columns: Sequence[str],
    *,
    struct: str | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Put columns first, in the order given; the others follow as they were.

    Args:
        struct: The column whose fields are meant; None: the columns of the table.

    Raises:
        InvalidRequestError: There is no such column, or one is named twice.
    """
    validate_arguments(reorder_columns, locals())

    def change(transaction: Transaction) -> Alteration | None:
        schema = transaction.schema
        parent = () if struct is None else path_of_name(struct, schema)
        ordered = order_fields(schema, parent, columns)
        if ordered == schema:
            return None
        set_schema(transaction, ordered)
        said = [field_json((), field) for field in ordered.fields]
        return Alteration(operation="REPLACE COLUMNS", parameters={"columns": said})

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def _new_field(name: str, column: NewColumn) -> StructField:
    given = column.data_type
    if isinstance(given, str):
        data_type = parse_type(given)
    elif isinstance(given, pa.DataType):
        data_type = schema_from_arrow(pa.schema([pa.field(name, given)])).fields[0].data_type
    else:
        data_type = given
    metadata = {} if column.comment is None else {"comment": column.comment}
    return StructField(name, allow_nulls(data_type), True, metadata)


def _plain_name(struct: StructType, name: str) -> str:
    """The name of a field in the spelling given, without backticks."""
    found = find_named(struct, name).name
    return name if name.lower() == found.lower() else found


def _position(column: NewColumn, after: str | None) -> dict[str, str]:
    if column.first and after is not None:
        raise InvalidRequestError(
            f"column {column.name} would come first and after {column.after}; choose one"
        )
    if column.first:
        return {"position": "FIRST"}
    return {} if after is None else {"position": f"AFTER {name_of_path((after,))}"}
