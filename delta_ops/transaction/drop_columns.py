"""Drop columns, or rename them, in the metadata alone.

Source: PROTOCOL.md, "Column Mapping".

The files keep the columns under their physical names, so both need column mapping. What rests on a
column by its name is not changed behind its back: such a column is refused, with what uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.column_uses import uses_in_clustering, uses_in_expressions
from delta_ops.protocol.properties.known import STATS_COLUMNS
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.schema.changes import drop_field, replace_field
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.alter_table import Alteration, alter
from delta_ops.transaction.column_changes import find_column, set_schema
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.transaction import Transaction


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
    """Give a column, or a field of a struct, another name; where the table has column mapping.

    Args:
        name: The new name alone, without what the column is a field of.

    Raises:
        InvalidRequestError: There is no such column, the name is taken or cannot be used, a
            constraint or a generated column uses it, or the table has no column mapping.
    """
    validate_arguments(rename_column, locals())

    def change(transaction: Transaction) -> Alteration | None:
        _require_mapping(transaction, "renamed")
        path, field = find_column(transaction, column)
        if field.name == name:
            return None
        _refuse_uses(transaction, path, "renamed")
        renamed = replace_field(transaction.schema, path, replace(field, name=name))
        new_path = (*path[:-1], name)
        partitions = tuple(
            name if path == (each,) else each for each in transaction.metadata.partition_columns
        )
        configuration = _rename_in_stats_columns(transaction, path, new_path)
        set_schema(transaction, renamed, configuration, partitions)
        return Alteration(
            operation="RENAME COLUMN",
            parameters={
                "oldColumnPath": name_of_path(path),
                "newColumnPath": name_of_path(new_path),
            },
        )

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
    """Drop columns, or fields of structs; where the table has column mapping.

    The files keep their values, which nobody sees any more, until they are rewritten.

    Raises:
        InvalidRequestError: There is no such column; the table is partitioned or clustered by it,
            or a constraint or a generated column uses it; it is the only one; or the table has no
            column mapping.
    """
    validate_arguments(drop_columns, locals())
    if not columns:
        raise InvalidRequestError("no column is given; name one to drop")

    def change(transaction: Transaction) -> Alteration:
        _require_mapping(transaction, "dropped")
        dropped = []
        for column in columns:
            path, _ = find_column(transaction, column)
            _refuse_uses(transaction, path, "dropped")
            _refuse_layout(transaction, path)
            schema = drop_field(transaction.schema, path)
            set_schema(transaction, schema, _rename_in_stats_columns(transaction, path, None))
            dropped.append(name_of_path(path))
        if not transaction.definition.data_schema.fields:
            raise InvalidRequestError(
                f"{transaction.log.uri}: only partition columns would be left; leave one column "
                "for the files"
            )
        return Alteration(operation="DROP COLUMNS", parameters={"columns": dropped})

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def _require_mapping(transaction: Transaction, done: str) -> None:
    if not transaction.definition.is_mapped:
        raise InvalidRequestError(
            f"{transaction.log.uri}: columns can be {done} only where the table has column "
            "mapping, since its files know them by their names; set delta.columnMapping.mode = "
            "name first, or write the table anew with overwrite_schema=True"
        )


def _refuse_uses(transaction: Transaction, path: ColumnPath, done: str) -> None:
    uses = list(uses_in_expressions(transaction.definition, path))
    if uses:
        raise InvalidRequestError(
            f"{transaction.log.uri}: column {name_of_path(path)} cannot be {done}: it is used by "
            f"{', '.join(uses)}; drop or change that first"
        )


def _refuse_layout(transaction: Transaction, path: ColumnPath) -> None:
    definition = transaction.definition
    assert transaction.snapshot
    clustering = (
        uses_in_clustering(definition, path, transaction.snapshot.domain_metadata().values())
        if definition.has("clustering")
        else ()
    )
    partitioning = (
        "the partitioning of the table" for each in definition.partition_columns if path == (each,)
    )
    for use in chain(partitioning, clustering):
        raise InvalidRequestError(
            f"{transaction.log.uri}: column {name_of_path(path)} cannot be dropped: it is used by "
            f"{use}"
        )


def _rename_in_stats_columns(
    transaction: Transaction, path: ColumnPath, new_path: ColumnPath | None
) -> dict[str, str]:
    """The properties, with the columns that get statistics under the names that are there then."""
    configuration = dict(transaction.metadata.configuration)
    listed = STATS_COLUMNS.value_in(configuration)
    if listed is None:
        return configuration
    lower = tuple(part.lower() for part in path)
    kept: list[ColumnPath] = []
    for each in listed:
        is_within = tuple(part.lower() for part in each[: len(path)]) == lower
        if not is_within:
            kept.append(each)
        elif new_path is not None:
            kept.append((*new_path, *each[len(path) :]))
    if kept != list(listed):
        configuration[STATS_COLUMNS.name] = ",".join(map(name_of_path, kept))
    return configuration
