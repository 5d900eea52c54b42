"""Grammar of ALTER TABLE, COMMENT ON and CREATE TABLE.

Source: apache/spark, `SqlBaseParser.g4`; delta-io/delta, `DeltaSqlBase.g4`.
"""

from __future__ import annotations

from typing import Any, Literal

from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.names import (
    column_of,
    properties_of,
    property_name,
    target_of,
    version_of,
)
from delta_ops.spark.statements.nodes import (
    AddColumns,
    AddConstraint,
    AlterColumn,
    ClusterBy,
    ColumnDefinition,
    CommentOnColumn,
    CommentOnTable,
    CreateTable,
    DropColumns,
    DropConstraint,
    DropFeature,
    Properties,
    RenameColumn,
    SetProperties,
    ShallowClone,
    Statement,
    Target,
    UnsetProperties,
)

_AFTER_TYPE = (",", "NOT", "NULL", "COMMENT", "DEFAULT", "GENERATED", "FIRST", "AFTER")


def alter_of(cursor: Cursor) -> Statement:
    """Read ALTER TABLE table, and one change."""
    cursor.expect("ALTER", "TABLE")
    target = target_of(cursor)
    if cursor.take("SET", "TBLPROPERTIES"):
        return SetProperties(target=target, properties=properties_of(cursor))
    if cursor.take("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.take("IF", "EXISTS")
        names = cursor.list_in_brackets(lambda: property_name(cursor))
        return UnsetProperties(target=target, names=names, if_exists=if_exists)
    if cursor.take("RENAME", "COLUMN"):
        column = column_of(cursor)
        cursor.expect("TO")
        return RenameColumn(target=target, column=column, name=cursor.name())
    if cursor.take("CLUSTER", "BY"):
        return ClusterBy(target=target, columns=_clusters(cursor))
    if cursor.take("ADD"):
        return _add(cursor, target)
    if cursor.take("DROP"):
        return _drop(cursor, target)
    if not cursor.take("ALTER"):
        cursor.expect("CHANGE")
    cursor.take("COLUMN")
    return _alter_column(cursor, target)


def comment_of(cursor: Cursor) -> CommentOnTable | CommentOnColumn:
    """Read COMMENT ON TABLE or COMMENT ON COLUMN."""
    cursor.expect("COMMENT", "ON")
    if cursor.take("TABLE"):
        target = target_of(cursor)
        return CommentOnTable(target=target, comment=_comment_text(cursor))
    cursor.expect("COLUMN")
    parts = cursor.parts()
    if len(parts) < 2:
        raise UnclearError("a column needs its table")
    target = Target(parts=parts[:-1], text=name_of_path(parts[:-1]))
    column = name_of_path(parts[-1:])
    return CommentOnColumn(target=target, column=column, comment=_comment_text(cursor))


def create_of(cursor: Cursor) -> CreateTable | ShallowClone:
    """Read CREATE [OR REPLACE] TABLE or REPLACE TABLE, USING delta or SHALLOW CLONE."""
    mode = _create_mode(cursor)
    target = target_of(cursor)
    if cursor.take("SHALLOW", "CLONE"):
        return _clone(cursor, target, mode)
    columns: tuple[ColumnDefinition, ...] = ()
    if cursor.peek("("):
        columns = cursor.list_in_brackets(lambda: _column(cursor))
    if any(each.is_first or each.after for each in columns):
        raise UnclearError("FIRST and AFTER are for existing tables")
    cursor.expect("USING", "DELTA")
    clauses = _table_clauses(cursor)
    query = cursor.slice() if cursor.take("AS") or not cursor.is_at_end else None
    return CreateTable(target=target, mode=mode, columns=columns, query=query, **clauses)


def _add(cursor: Cursor, target: Target) -> AddColumns | AddConstraint:
    if cursor.take("CONSTRAINT"):
        name = cursor.name()
        cursor.expect("CHECK")
        return AddConstraint(target=target, name=name, condition=cursor.text_in_brackets())
    if not cursor.take("COLUMNS"):
        cursor.expect("COLUMN")
    read = lambda: _column(cursor)  # noqa: E731
    columns = cursor.list_in_brackets(read) if cursor.peek("(") else cursor.list(read)
    return AddColumns(target=target, columns=columns)


def _drop(cursor: Cursor, target: Target) -> Statement:
    if cursor.take("CONSTRAINT"):
        if_exists = cursor.take("IF", "EXISTS")
        return DropConstraint(target=target, name=cursor.name(), if_exists=if_exists)
    if cursor.take("FEATURE"):
        name = cursor.string() if cursor.peeks_string() else cursor.name()
        truncates = cursor.take("TRUNCATE", "HISTORY")
        return DropFeature(target=target, name=name, truncates_history=truncates)
    if not cursor.take("COLUMNS"):
        cursor.expect("COLUMN")
    read = lambda: column_of(cursor)  # noqa: E731
    columns = cursor.list_in_brackets(read) if cursor.peek("(") else cursor.list(read)
    return DropColumns(target=target, columns=columns)


def _alter_column(cursor: Cursor, target: Target) -> AlterColumn:
    column = column_of(cursor)
    if cursor.take("TYPE"):
        return AlterColumn(target=target, column=column, change="type", value=cursor.slice((",",)))
    if cursor.take("COMMENT"):
        return AlterColumn(target=target, column=column, change="comment", value=cursor.string())
    if cursor.take("SET", "NOT", "NULL"):
        return AlterColumn(target=target, column=column, change="set not null")
    if cursor.take("DROP", "NOT", "NULL"):
        return AlterColumn(target=target, column=column, change="drop not null")
    if cursor.take("SET", "DEFAULT"):
        return AlterColumn(target=target, column=column, change="default", value=cursor.slice())
    if cursor.take("DROP", "DEFAULT"):
        return AlterColumn(target=target, column=column, change="default")
    if cursor.take("FIRST"):
        return AlterColumn(target=target, column=column, change="first")
    cursor.expect("AFTER")
    return AlterColumn(target=target, column=column, change="after", value=cursor.name())


def _column(cursor: Cursor) -> ColumnDefinition:
    name = column_of(cursor)
    data_type = _data_type(cursor)
    found: dict[str, str | bool | None] = {}

    def add(key: str, value: str | bool) -> None:
        if key in found:
            raise UnclearError(f"{key} is repeated")
        found[key] = value

    while True:
        if cursor.take("NOT", "NULL"):
            add("is_nullable", False)
        elif cursor.take("COMMENT"):
            add("comment", cursor.string())
        elif cursor.take("DEFAULT"):
            add("default", cursor.slice(_AFTER_TYPE))
        elif cursor.take("GENERATED", "ALWAYS", "AS"):
            add("generated_as", cursor.text_in_brackets())
        elif cursor.take("FIRST"):
            add("is_first", True)
        elif cursor.take("AFTER"):
            add("after", cursor.name())
        else:
            return ColumnDefinition(name=name, data_type=data_type, **found)  # type: ignore[arg-type]


def _data_type(cursor: Cursor) -> str:
    """Read a type. Types with fields in angle brackets may contain the keywords that end a type."""
    start = cursor.position
    cursor.name()
    if cursor.peek("("):
        cursor.text_in_brackets()
    depth = 0
    while depth or cursor.peek("<"):
        if cursor.is_at_end:
            raise UnclearError("a type does not end")
        depth += cursor.take("<") or -cursor.take(">") or cursor.skip()
    return cursor.text_since(start)


def _clusters(cursor: Cursor) -> tuple[str, ...]:
    if cursor.take("NONE"):
        return ()
    return cursor.list_in_brackets(lambda: column_of(cursor))


def _comment_text(cursor: Cursor) -> str | None:
    cursor.expect("IS")
    return None if cursor.take("NULL") else cursor.string()


_Mode = Literal["create", "create if not exists", "replace", "create or replace"]


def _create_mode(cursor: Cursor) -> _Mode:
    if cursor.take("REPLACE", "TABLE"):
        return "replace"
    cursor.expect("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    cursor.expect("TABLE")
    if replaces:
        return "create or replace"
    return "create if not exists" if cursor.take("IF", "NOT", "EXISTS") else "create"


def _clone(cursor: Cursor, target: Target, mode: _Mode) -> ShallowClone:
    source = target_of(cursor)
    version, timestamp = None, None
    if not cursor.is_at_end and not cursor.peek("TBLPROPERTIES"):
        version, timestamp = version_of(cursor)
    properties = properties_of(cursor) if cursor.take("TBLPROPERTIES") else ()
    if_exists: dict[_Mode, Literal["error", "ignore", "replace"]] = {
        "create": "error",
        "create if not exists": "ignore",
        "replace": "replace",
        "create or replace": "replace",
    }
    return ShallowClone(
        target=target,
        source=source,
        version=version,
        timestamp=timestamp,
        if_exists=if_exists[mode],
        properties=properties,
    )


def _table_clauses(cursor: Cursor) -> dict[str, Any]:
    """Read the clauses between USING and the query, in any order."""
    found: dict[str, Any] = {}

    def add(key: str, value: tuple[str, ...] | Properties | str) -> None:
        if key in found:
            raise UnclearError(f"{key} is repeated")
        found[key] = value

    while not (cursor.is_at_end or cursor.peek("AS") or cursor.peek("SELECT")):
        if cursor.take("PARTITIONED", "BY"):
            add("partition_by", cursor.list_in_brackets(cursor.name))
        elif cursor.take("CLUSTER", "BY"):
            add("cluster_by", _clusters(cursor))
        elif cursor.take("TBLPROPERTIES"):
            add("properties", properties_of(cursor))
        elif cursor.take("COMMENT"):
            add("comment", cursor.string())
        else:
            cursor.expect("LOCATION")
            add("location", cursor.string())
    return {
        "partition_by": (),
        "cluster_by": (),
        "properties": (),
        "comment": None,
        "location": None,
    } | found
