"""DDL: CREATE TABLE, ALTER TABLE and COMMENT ON."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

import delta_ops.spark as ds
from delta_ops import ddl
from delta_ops.ddl import NewColumn
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.protocol.schema import CURRENT_DEFAULT, StructType
from delta_ops.protocol.schema.changes import find_by_path
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.writers import save
from delta_ops.spark.statements import nodes
from delta_ops.spark.versions import type_of_ddl
from delta_ops.tables.statements.table import Table
from delta_ops.tables.table_builder import DeltaTableBuilder


def run(table: Table, statement: nodes.Statement) -> DataFrame:
    """Change the definition of a table, or create a table."""
    if isinstance(statement, nodes.CreateTable):
        _create(table, statement)
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
            ddl.drop_feature(log, name, truncates, user_metadata=text)
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
        case nodes.RenameColumn(column=column, name=name):
            ddl.rename_column(log, column, name, user_metadata=text)
        case nodes.DropColumns(columns=names):
            ddl.drop_columns(log, names, user_metadata=text)
        case nodes.CommentOnColumn(column=column, comment=comment):
            ddl.set_comment(log, column, comment, user_metadata=text)
        case nodes.AlterColumn():
            _alter_column(table, statement)


def _unset(table: Table, statement: nodes.UnsetProperties) -> None:
    known = table.log.snapshot().metadata.configuration
    missing = [name for name in statement.names if name not in known]
    if missing and not statement.if_exists:
        raise InvalidRequestError(
            f"{table.log.uri} has no property {', '.join(missing)}; correct the name, or add IF "
            "EXISTS"
        )
    values = {name: None for name in statement.names if name in known}
    if values:
        ddl.set_properties(table.log, values, user_metadata=table.user_metadata)


def _new_column(table: Table, column: nodes.ColumnDefinition) -> NewColumn:
    if not column.is_nullable or column.default is not None or column.generated_as is not None:
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


def _alter_column(table: Table, statement: nodes.AlterColumn) -> None:
    log, column, value = table.log, statement.column, statement.value
    text = table.user_metadata
    match statement.change:
        case "type":
            ddl.change_type(log, column, value or "", user_metadata=text)
        case "comment":
            ddl.set_comment(log, column, value, user_metadata=text)
        case "set not null":
            ddl.set_not_null(log, column, engine=ds.check_rows(table.spark), user_metadata=text)
        case "drop not null":
            ddl.drop_not_null(log, column, user_metadata=text)
        case "default":
            ddl.set_default(log, column, value, user_metadata=text)
        case _:
            _move(table, column, value)


def _move(table: Table, column: str, after: str | None) -> None:
    """Move a column to the front of its struct, or after another column."""
    schema = table.log.snapshot().schema
    *parent, name = path_of_name(column, schema)
    struct = find_by_path(schema, tuple(parent))[1].data_type if parent else schema
    assert isinstance(struct, StructType)
    order = [each.name for each in struct.fields if each.name.lower() != name.lower()]
    lower = [each.lower() for each in order]
    if after is not None and after.lower() not in lower:
        raise InvalidRequestError(
            f"{table.log.uri}: there is no other column {after} to place {column} after"
        )
    order.insert(0 if after is None else lower.index(after.lower()) + 1, name)
    ddl.reorder_columns(
        table.log,
        [name_of_path((each,)) for each in order],
        struct=name_of_path(tuple(parent)) if parent else None,
        user_metadata=table.user_metadata,
    )


def _create(table: Table, statement: nodes.CreateTable) -> None:
    if statement.mode == "create if not exists" and table.log.exists():
        return
    if statement.location is not None and DeltaLog(statement.location).uri != table.log.uri:
        raise InvalidRequestError(
            f"the table is at {table.log.uri}, and LOCATION is {statement.location}; leave "
            "LOCATION out"
        )
    if statement.query is not None:
        _create_from_query(table, statement, statement.query)
        return
    builder = DeltaTableBuilder(
        table.spark, statement.mode, lambda _, __: None, lambda _, __: table.log
    )
    builder.location(table.path).addColumns([_field(each) for each in statement.columns])
    builder.partitionedBy(*statement.partition_by).clusterBy(*statement.cluster_by)
    for name, value in statement.properties:
        builder.property(name, value)
    if statement.comment is not None:
        builder.comment(statement.comment)
    builder.execute()


def _field(column: nodes.ColumnDefinition) -> StructField:
    metadata: dict[str, Any] = {
        "comment": column.comment,
        "delta.generationExpression": column.generated_as,
        CURRENT_DEFAULT: column.default,
    }
    (name,) = path_of_name(column.name, StructType())
    return StructField(
        name,
        type_of_ddl(column.data_type),
        column.is_nullable,
        {key: value for key, value in metadata.items() if value is not None},
    )


def _create_from_query(table: Table, statement: nodes.CreateTable, query: str) -> None:
    if table.log.exists() and statement.mode in ("replace", "create or replace"):
        raise InvalidRequestError(
            f"{table.log.uri}: AS SELECT does not replace an existing table; use INSERT OVERWRITE "
            "to replace its rows, or replace the table without AS SELECT and insert the rows"
        )
    others = [name for name, _ in statement.properties if not name.startswith("delta.")]
    if statement.columns or statement.comment is not None or others:
        raise InvalidRequestError(
            f"{table.log.uri}: AS SELECT takes no columns, COMMENT, or properties without delta.; "
            "create the table without AS SELECT and insert the rows"
        )
    properties = {name.lower(): (name, value) for name, value in statement.properties}
    calls = Calls(
        mode="error",
        partition_by=statement.partition_by or None,
        cluster_by=statement.cluster_by or None,
        options={**properties, "path": ("path", table.path)},
    )
    save(table.query(query), calls, None, table.storage_options)
