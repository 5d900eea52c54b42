"""Columns: add, rename, drop and reorder them; set type, nullability, default and comment.

Source: PROTOCOL.md, "Change Metadata", "Column Mapping", "Type Widening", "Default Columns".

No file is rewritten: readers fill a column that a file lacks with null, and widen narrower values.
`column_changes` computes the new schema of each change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.ddl import column_changes
from delta_ops.ddl.alter import alter
from delta_ops.ddl.new_columns import NewColumn
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.schema import DataType
from delta_ops.protocol.schema.type_text import parse_type
from delta_ops.transaction import CommitResult, Txn
from delta_ops.transaction.engine import CheckRows, Engine


def add_columns(
    target: TableOrPlace,
    columns: Sequence[NewColumn],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Add columns, or fields of structs; existing rows have null in them.

    Args:
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: The column exists (ignoring case), its name or type cannot be used, its
            type needs a feature that the table lacks, or its position does not exist.

    Examples:
        >>> discount = NewColumn(name="discount", data_type="decimal(10,2)", after="price")
        >>> add_columns("lake/orders", [discount]).version
        1
        >>> da.to_table("lake/orders")["discount"].null_count  # no file was rewritten
        3
    """
    validate_arguments(add_columns, locals())
    if not columns:
        raise InvalidRequestError("no column to add was given; name at least one")
    change = partial(column_changes.add, columns=columns)
    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def rename_column(
    target: TableOrPlace,
    column: str,
    name: str,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Rename a column, or a field of a struct; the table must have column mapping.

    Args:
        name: The new name without the parent of a nested field.

    Raises:
        InvalidRequestError: The column does not exist, the name is taken or cannot be used, a
            constraint or a generated column uses the column, or the table has no column mapping.

    Examples:
        >>> _ = set_properties("lake/orders", {"delta.columnMapping.mode": "name"})
        >>> _ = rename_column("lake/orders", "price", "amount")
        >>> da.to_table("lake/orders")["amount"].to_pylist()
        [10.0, 20.0, 30.0]
    """
    validate_arguments(rename_column, locals())
    change = partial(column_changes.rename, column=column, name=name)
    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def drop_columns(
    target: TableOrPlace,
    columns: Sequence[str],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Drop columns, or fields of structs; the table must have column mapping.

    The files keep the values, hidden from readers, until the files are rewritten.

    Raises:
        InvalidRequestError: A column does not exist; the table is partitioned or clustered by it,
            or a constraint or a generated column uses it; no other column is left; or the table has
            no column mapping.

    Examples:
        >>> _ = set_properties("lake/orders", {"delta.columnMapping.mode": "name"})
        >>> _ = drop_columns("lake/orders", ["country"])
        >>> da.to_table("lake/orders").column_names
        ['id', 'price']
    """
    validate_arguments(drop_columns, locals())
    if not columns:
        raise InvalidRequestError("no column to drop was given; name at least one")
    change = partial(column_changes.drop, columns=columns)
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
    """Move columns to the front, in the given order; the others follow in their order.

    Args:
        struct: Reorders the fields of this column; None: the columns of the table.

    Raises:
        InvalidRequestError: A column does not exist, or is named twice.

    Examples:
        >>> _ = reorder_columns("lake/orders", ["price", "id"])
        >>> da.to_table("lake/orders").column_names
        ['price', 'id', 'country']
    """
    validate_arguments(reorder_columns, locals())
    change = partial(column_changes.reorder, columns=columns, struct=struct)
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
    """Widen the type of a column, or of a field of a struct; the table must have type widening.

    Args:
        column: `l.element`, `m.key` and `m.value` name the members of an array or a map.
        data_type: A string is a type of Spark SQL. A CHAR or VARCHAR column can become a longer
            VARCHAR, or string, also without type widening.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: The column does not exist, not all of its values fit the new type, a
            rule of the table uses it, or the table has no type widening.

    Examples:
        >>> widening = {"delta.enableTypeWidening": "true"}
        >>> rows = pa.table({"n": pa.array([1], pa.int16())})
        >>> _ = da.write("lake/t", rows, configuration=widening)
        >>> change_type("lake/t", "n", "bigint").version
        1
        >>> da.to_table("lake/t")["n"].type
        DataType(int64)
    """
    validate_arguments(change_type, locals())
    if isinstance(data_type, str):
        data_type = parse_type(data_type, allows_lengths=True)
    change = partial(column_changes.change_type, column=column, wanted=data_type)
    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def set_not_null(
    target: TableOrPlace,
    column: str,
    *,
    engine: Engine | CheckRows | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Require that a column, or a field of a struct, is never null.

    Args:
        engine: Checks the existing rows; `delta_ops.arrow.check_rows` if None.

    Raises:
        InvalidRequestError: A row has null in it, the column does not exist, or it lies within an
            array or a map.
        CommitConflictError: Another writer added rows or changed the table meanwhile.

    Examples:
        >>> _ = set_not_null("lake/orders", "id")
        >>> DeltaLog("lake/orders").snapshot().arrow_schema.field("id").nullable
        False
    """
    validate_arguments(set_not_null, locals())
    change = partial(column_changes.require, column=column, engine=engine)
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
    """Allow nulls in a column.

    Raises:
        InvalidRequestError: The column does not exist.

    Examples:
        >>> _ = set_not_null("lake/orders", "id")
        >>> _ = drop_not_null("lake/orders", "id")
        >>> DeltaLog("lake/orders").snapshot().arrow_schema.field("id").nullable
        True
    """
    validate_arguments(drop_not_null, locals())
    change = partial(column_changes.allow_null, column=column)
    return alter(target, change, txn, user_metadata, storage_options, dry_run)


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
    """Set the default of a column for new rows, and add the feature to the table.

    Args:
        default: A literal of Spark SQL, or current_timestamp() or current_date(); None: null.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: The column does not exist, is a field of a struct, or is a generated or
            identity column; or the default does not fit it.

    Examples:
        >>> _ = set_default("lake/orders", "country", "'NL'")
        >>> _ = da.write("lake/orders", pa.table({"id": [4], "price": [5.0]}))
        >>> da.to_table("lake/orders", predicate=col("id") == 4)["country"].to_pylist()
        ['NL']
    """
    validate_arguments(set_default, locals())
    change = partial(column_changes.set_default, column=column, default=default)
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
    """Set the comment of a column; None removes it.

    Raises:
        InvalidRequestError: The column does not exist.

    Examples:
        >>> _ = set_comment("lake/orders", "price", "in euros")
        >>> DeltaLog("lake/orders").snapshot().schema.fields[2].metadata["comment"]
        'in euros'
    """
    validate_arguments(set_comment, locals())
    change = partial(column_changes.set_comment, column=column, comment=comment)
    return alter(target, change, txn, user_metadata, storage_options, dry_run)
