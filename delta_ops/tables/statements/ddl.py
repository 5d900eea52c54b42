"""DDL: CREATE TABLE, ALTER TABLE and COMMENT ON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField
from pyspark.sql.types import StructType as StructOfSpark

import delta_ops.spark as ds
from delta_ops import ddl
from delta_ops.ddl import NewColumn, column_changes
from delta_ops.ddl.alter import Alteration, Change, alter
from delta_ops.ddl.clone import create_like
from delta_ops.ddl.replace_columns import replace_columns
from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.log import DeltaLog
from delta_ops.protocol.properties.table_properties import requested_properties
from delta_ops.protocol.schema import CURRENT_DEFAULT, StructType
from delta_ops.protocol.schema.changes import find_by_path
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.schema.type_text import parse_type
from delta_ops.spark.delta_format.creation import NewTable, create_from_rows
from delta_ops.spark.delta_format.named_tables import Claims
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.nodes import ColumnChange
from delta_ops.spark.statements.targets import path_of_target
from delta_ops.spark.versions import type_of_ddl
from delta_ops.tables.statements.table import Table
from delta_ops.tables.table_builder import (
    DeltaTableBuilder,
    IdentityGenerator,
    identity_metadata,
)
from delta_ops.transaction import Transaction

_KINDS = {"drop not null": "set not null", "after": "first"}
"""Changes that contradict each other have the same kind."""


def run(table: Table, statement: nodes.Statement) -> DataFrame:
    """Change the definition of a table, or create a table."""
    if isinstance(statement, nodes.CreateTable):
        _create(table, statement)
    elif isinstance(statement, nodes.CreateTableLike):
        _create_like(table, statement)
    elif not _alter_table(table, statement):
        _alter_columns(table, statement)
    return table.nothing()


def _alter_table(table: Table, statement: nodes.Statement) -> bool:
    """Change the table as a whole; returns False for other statements."""
    log, text = table.log, table.user_metadata
    match statement:
        case nodes.SetProperties(properties=properties):
            ddl.set_properties(log, dict(properties), user_metadata=text)
        case nodes.UnsetProperties():
            _unset(table, statement)
        case nodes.AddConstraint(name=name, condition=condition):
            engine = ds.check_rows(table.spark)
            ddl.add_constraint(log, name, condition, engine=engine, user_metadata=text)
        case nodes.DropConstraint(name=name, if_exists=if_exists):
            ddl.drop_constraint(log, name, if_exists, user_metadata=text)
        case nodes.ClusterBy(columns=names):
            ddl.cluster_by(log, names, user_metadata=text)
        case nodes.DropFeature(name=name, truncates_history=truncates):
            rewrite = ds.rewrite(table.spark)
            ddl.drop_feature(log, name, truncates, user_metadata=text, engine=rewrite)
        case nodes.CommentOnTable(comment=comment):
            ddl.set_table_comment(log, comment, user_metadata=text)
        case _:
            return False
    return True


def _alter_columns(table: Table, statement: nodes.Statement) -> None:
    log, text = table.log, table.user_metadata
    match statement:
        case nodes.AddColumns(columns=columns):
            added = [_new_column(table, each) for each in columns]
            ddl.add_columns(log, added, user_metadata=text)
        case nodes.ReplaceColumns(columns=columns):
            stated = [_new_column(table, each) for each in columns]
            change = partial(replace_columns, columns=stated)
            alter(log, change, None, text, None, dry_run=False)
        case nodes.RenameColumn(column=column, name=name):
            ddl.rename_column(log, column, name, user_metadata=text)
        case nodes.DropColumns(columns=names, if_exists=if_exists):
            there = _existing(table, names) if if_exists else names
            if there:
                ddl.drop_columns(log, there, user_metadata=text)
        case nodes.CommentOnColumn(column=column, comment=comment):
            ddl.set_comment(log, column, comment, user_metadata=text)
        case nodes.AlterColumns(changes=changes):
            _alter_columns_together(table, changes)


def _existing(table: Table, names: Sequence[str]) -> list[str]:
    """The names of existing columns and fields."""
    schema, found = table.log.snapshot().schema, []
    for name in names:
        with suppress(UnknownColumnError):
            find_by_path(schema, path_of_name(name, schema))
            found.append(name)
    return found


def _unset(table: Table, statement: nodes.UnsetProperties) -> None:
    known = table.log.snapshot().metadata.configuration
    wanted = requested_properties(dict.fromkeys(statement.names)).properties
    values = {name: None for name in wanted if name in known}
    if values:
        ddl.set_properties(table.log, values, user_metadata=table.user_metadata)


def _new_column(table: Table, column: nodes.ColumnDefinition) -> NewColumn:
    given = (column.default, column.generated_as, column.identity)
    if not column.is_nullable or any(each is not None for each in given):
        raise InvalidRequestError(
            f"{table.log.uri}: existing rows have null in the new column {column.name}, so it "
            "cannot be NOT NULL, generated, or have a DEFAULT; add the column first, then change "
            "it with ALTER COLUMN"
        )
    return NewColumn(
        name=column.name,
        data_type=column.data_type,
        comment=column.comment,
        first=column.is_first,
        after=column.after,
    )


def _alter_columns_together(table: Table, changes: Sequence[ColumnChange]) -> None:
    """Change columns of a table in one commit.

    Raises:
        InvalidRequestError: A change does not fit the table, or two changes contradict.
    """
    kinds = [(each.column.lower(), _KINDS.get(each.change, each.change)) for each in changes]
    if len(set(kinds)) < len(kinds):
        raise InvalidRequestError(
            f"{table.log.uri}: the statement changes a column twice; change it once"
        )
    apply = partial(_apply, changes=[_change_of(table, each) for each in changes])
    alter(table.log, apply, None, table.user_metadata, None, dry_run=False)


def _apply(transaction: Transaction, changes: Sequence[Change]) -> Alteration | None:
    made = [found for change in changes if (found := change(transaction)) is not None]
    if len(made) < 2:
        return made[0] if made else None
    return Alteration(
        operation="CHANGE COLUMNS",
        parameters={"columns": [dict(each.parameters) for each in made]},
        is_alone=any(each.is_alone for each in made),
    )


def _change_of(table: Table, change: ColumnChange) -> Change:
    column, value = change.column, change.value
    match change.change:
        case "type":
            wanted = parse_type(value or "", allows_lengths=True)
            return partial(column_changes.change_type, column=column, wanted=wanted)
        case "comment":
            return partial(column_changes.set_comment, column=column, comment=value)
        case "set not null":
            engine = ds.check_rows(table.spark)
            return partial(column_changes.require, column=column, engine=engine)
        case "drop not null":
            return partial(column_changes.allow_null, column=column)
        case "default":
            return partial(column_changes.set_default, column=column, default=value)
        case _:
            return partial(_move, column=column, after=value)


def _move(transaction: Transaction, column: str, after: str | None) -> Alteration | None:
    """Move a column to the front of its struct, or after another column."""
    schema = transaction.schema
    *parent, name = path_of_name(column, schema)
    struct = find_by_path(schema, tuple(parent))[1].data_type if parent else schema
    assert isinstance(struct, StructType)
    if after is not None and after.lower() == name.lower():
        return None
    order = [each.name for each in struct.fields if each.name.lower() != name.lower()]
    lower = [each.lower() for each in order]
    if after is not None and after.lower() not in lower:
        raise InvalidRequestError(f"there is no other column {after} to place {column} after")
    order.insert(0 if after is None else lower.index(after.lower()) + 1, name)
    columns = [name_of_path((each,)) for each in order]
    in_struct = name_of_path(tuple(parent)) if parent else None
    return column_changes.reorder(transaction, columns, in_struct)


def _create(table: Table, statement: nodes.CreateTable) -> None:
    if table.place is None and statement.location is not None:
        _require_same_location(table, statement.location)
    fields = [_field(each) for each in statement.columns]
    claims = Claims(
        columns=StructOfSpark(fields) if fields else None,
        partition_by=statement.partition_by,
        cluster_by=statement.cluster_by,
        properties=dict(statement.properties),
        comment=statement.comment,
        has_rows=statement.query is not None,
    )
    query = statement.query
    if query is None:
        create = partial(_create_empty, table, statement, fields)
    else:
        create = partial(_create_from_query, table, statement, query)
    table.create(statement.mode, claims, create)


def _require_same_location(table: Table, location: str) -> None:
    if DeltaLog(location).uri != table.log.uri:
        raise InvalidRequestError(
            f"the table is at {table.log.uri}, and LOCATION is {location}; leave LOCATION out",
            "DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE",
        )


def _create_empty(table: Table, statement: nodes.CreateTable, fields: list[StructField]) -> None:
    builder = DeltaTableBuilder(
        table.spark, statement.mode, lambda _, __: None, lambda _, __: table.log
    )
    builder.location(table.path).addColumns(fields)
    builder.partitionedBy(*statement.partition_by).clusterBy(*statement.cluster_by)
    for name, value in statement.properties:
        builder.property(name, value)
    if statement.comment is not None:
        builder.comment(statement.comment)
    builder.execute()


def _create_from_query(table: Table, statement: nodes.CreateTable, query: str) -> None:
    if statement.columns:
        raise InvalidRequestError(
            f"{table.log.uri}: AS SELECT takes the columns of its query; leave the columns out, "
            "and name and cast the columns in the query"
        )
    new = NewTable(
        partition_by=statement.partition_by,
        cluster_by=statement.cluster_by,
        properties=dict(statement.properties),
        comment=statement.comment,
        is_managed=table.place is not None and table.place.is_managed,
    )
    replaces = statement.mode in ("replace", "create or replace")
    create_from_rows(table.query(query), table.log, new, replaces=replaces)


def _create_like(table: Table, statement: nodes.CreateTableLike) -> None:
    path = path_of_target(table.spark, statement.source)
    if path is None:
        raise InvalidRequestError(
            f"{statement.source.text} is not a Delta table; name a Delta table after LIKE, or "
            "write the columns"
        )
    if table.place is None and statement.location is not None:
        _require_same_location(table, statement.location)
    source, properties = table.other(path).snapshot(), dict(statement.properties)
    claims = Claims(
        partition_by=source.partition_columns, properties=properties, has_rows=True
    )  # never a name for an existing table

    def create() -> None:
        create_like(source, table.log, properties=properties, user_metadata=table.user_metadata)

    table.create(statement.mode, claims, create)


def _field(column: nodes.ColumnDefinition) -> StructField:
    metadata: dict[str, Any] = {
        "comment": column.comment,
        "delta.generationExpression": column.generated_as,
        CURRENT_DEFAULT: column.default,
    }
    if column.identity is not None:
        metadata |= identity_metadata(
            IdentityGenerator(column.identity.start, column.identity.step),
            allows_values=column.identity.allows_values,
        )
    (name,) = path_of_name(column.name, StructType())
    return StructField(
        name,
        type_of_ddl(column.data_type),
        column.is_nullable,
        {key: value for key, value in metadata.items() if value is not None},
    )
