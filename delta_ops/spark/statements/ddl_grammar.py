"""Grammar of ALTER TABLE, COMMENT ON and CREATE TABLE.

Source: apache/spark, `SqlBaseParser.g4`; delta-io/delta, `DeltaSqlBase.g4`.
"""

from __future__ import annotations

from typing import Any, Literal

from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.names import (
    NOT_ALLOWED_DETAIL,
    column_of,
    properties_of,
    property_name,
    take_unsupported,
    target_of,
    version_of,
)
from delta_ops.spark.statements.nodes import (
    AddColumns,
    AddConstraint,
    AlterColumns,
    ClusterBy,
    ColumnChange,
    ColumnDefinition,
    CommentOnColumn,
    CommentOnTable,
    CreateTable,
    CreateTableLike,
    DropColumns,
    DropConstraint,
    DropFeature,
    Identity,
    RenameColumn,
    ReplaceColumns,
    SetProperties,
    ShallowClone,
    Statement,
    Target,
    UnsetProperties,
)
from delta_ops.spark.statements.time_travel import is_time

_DELETE_ROWS = "delete the rows with DELETE FROM ... WHERE"
_IN_LOG = "the log has the partitions of each file, so leave the statement out"
_UNSUPPORTED = (
    *(
        (words, f"ALTER TABLE ... {name}", NOT_ALLOWED_DETAIL, cure)
        for words, name, cure in (
            (("ADD", "PARTITION"), "ADD PARTITION", _IN_LOG),
            (("ADD", "IF", "NOT", "EXISTS", "PARTITION"), "ADD PARTITION", _IN_LOG),
            (("DROP", "PARTITION"), "DROP PARTITION", _DELETE_ROWS),
            (("DROP", "IF", "EXISTS", "PARTITION"), "DROP PARTITION", _DELETE_ROWS),
            (("PARTITION",), "PARTITION", "change the rows with UPDATE"),
            (("RECOVER", "PARTITIONS"), "RECOVER PARTITIONS", _IN_LOG),
            (("SET", "SERDEPROPERTIES"), "SET SERDEPROPERTIES", "write SET TBLPROPERTIES"),
            (("SET", "SERDE"), "SET SERDE", "leave it out, because the files are Parquet files"),
        )
    ),
)
"""First words after the table, the statement, the reference's error class, and what to do."""
_OF_CHANGE = ("TYPE", "COMMENT", "SET", "DROP", "FIRST", "AFTER")
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
    if found := take_unsupported(cursor, target, _UNSUPPORTED):
        return found
    if cursor.take("REPLACE", "COLUMNS"):
        columns = cursor.list_in_brackets(lambda: _column(cursor))
        return ReplaceColumns(target=target, columns=columns)
    if cursor.take("ADD"):
        return _add(cursor, target)
    if cursor.take("DROP"):
        return _drop(cursor, target)
    is_change = cursor.take("CHANGE")
    if not is_change:
        cursor.expect("ALTER")
    cursor.take("COLUMN")
    if is_change and (changes := _hive_change(cursor)):
        return AlterColumns(target=target, changes=changes)
    return AlterColumns(target=target, changes=cursor.list(lambda: _column_change(cursor)))


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


def create_of(cursor: Cursor) -> CreateTable | CreateTableLike | ShallowClone:
    """Read CREATE [OR REPLACE] TABLE or REPLACE TABLE: USING delta, LIKE or SHALLOW CLONE."""
    mode = _create_mode(cursor)
    target = target_of(cursor)
    if cursor.take("SHALLOW", "CLONE"):
        return _clone(cursor, target, mode)
    if cursor.take("LIKE"):
        return _read_like(cursor, target, mode)
    columns: tuple[ColumnDefinition, ...] = ()
    if cursor.peek("("):
        columns = cursor.list_in_brackets(lambda: _column(cursor))
    if any(each.is_first or each.after for each in columns):
        raise UnclearError("FIRST and AFTER are for existing tables")
    cursor.expect("USING", "DELTA")
    clauses = _table_clauses(cursor)
    columns += clauses.pop("partition_columns")
    query = cursor.slice() if cursor.take("AS") or not cursor.is_at_end else None
    return CreateTable(target=target, mode=mode, columns=columns, query=query, **clauses)


def _read_like(cursor: Cursor, target: Target, mode: _Mode) -> CreateTableLike:
    if mode not in ("create", "create if not exists"):
        raise UnclearError("LIKE replaces no table")
    source = target_of(cursor)
    is_delta = cursor.take("USING", "DELTA")
    clauses = _table_clauses(cursor)
    cursor.expect_end()
    if clauses["partition_by"] or clauses["cluster_by"] or clauses["comment"] is not None:
        raise UnclearError("LIKE takes a location and properties only")
    return CreateTableLike(
        target=target,
        source=source,
        mode=mode,
        is_delta=is_delta,
        properties=clauses["properties"],
        location=clauses["location"],
    )


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
    if_exists = cursor.take("IF", "EXISTS")
    read = lambda: column_of(cursor)  # noqa: E731
    columns = cursor.list_in_brackets(read) if cursor.peek("(") else cursor.list(read)
    return DropColumns(target=target, columns=columns, if_exists=if_exists)


def _column_change(cursor: Cursor) -> ColumnChange:
    column = column_of(cursor)
    if cursor.take("TYPE"):
        start = cursor.position
        _data_type(cursor)
        if not (cursor.is_at_end or cursor.peek(",")):
            cursor.slice((",",))
        value = cursor.text_since(start)
        return ColumnChange(column=column, change="type", value=value)
    if cursor.take("COMMENT"):
        return ColumnChange(column=column, change="comment", value=cursor.string())
    if cursor.take("SET", "NOT", "NULL"):
        return ColumnChange(column=column, change="set not null")
    if cursor.take("DROP", "NOT", "NULL"):
        return ColumnChange(column=column, change="drop not null")
    if cursor.take("SET", "DEFAULT"):
        return ColumnChange(column=column, change="default", value=cursor.slice((",",)))
    if cursor.take("DROP", "DEFAULT"):
        return ColumnChange(column=column, change="default")
    found = _position(cursor, column)
    if found is None:
        raise UnclearError("a column without a change")
    return found


def _position(cursor: Cursor, column: str) -> ColumnChange | None:
    if cursor.take("FIRST"):
        return ColumnChange(column=column, change="first")
    if cursor.take("AFTER"):
        return ColumnChange(column=column, change="after", value=cursor.name())
    return None


def _hive_change(cursor: Cursor) -> tuple[ColumnChange, ...]:
    """Read CHANGE COLUMN a a type [COMMENT text] [FIRST | AFTER b]; empty for the form of ALTER.

    Spark rejects another second name.
    """
    start = cursor.position
    parts = cursor.parts()
    column = name_of_path(parts)
    if any(map(cursor.peek, _OF_CHANGE)):
        cursor.return_to(start)
        return ()
    if cursor.name().lower() != parts[-1].lower():
        raise UnclearError("the statement renames the column")
    changes = [ColumnChange(column=column, change="type", value=_data_type(cursor))]
    if cursor.take("COMMENT"):
        changes.append(ColumnChange(column=column, change="comment", value=cursor.string()))
    position = _position(cursor, column)
    return tuple(changes) if position is None else (*changes, position)


def _column(cursor: Cursor) -> ColumnDefinition:
    name = column_of(cursor)
    data_type = _data_type(cursor)
    found: dict[str, str | bool | Identity | None] = {}

    def add(key: str, value: str | bool | Identity) -> None:
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
        elif cursor.take("GENERATED", "ALWAYS", "AS", "IDENTITY"):
            add("identity", _identity(cursor, allows_values=False))
        elif cursor.take("GENERATED", "BY", "DEFAULT", "AS", "IDENTITY"):
            add("identity", _identity(cursor, allows_values=True))
        elif cursor.take("GENERATED", "ALWAYS", "AS"):
            add("generated_as", cursor.text_in_brackets())
        elif cursor.take("FIRST"):
            add("is_first", True)
        elif cursor.take("AFTER"):
            add("after", cursor.name())
        else:
            return ColumnDefinition(name=name, data_type=data_type, **found)  # type: ignore[arg-type]


def _identity(cursor: Cursor, *, allows_values: bool) -> Identity:
    """Read ([START WITH n] [INCREMENT BY n]), in any order, after AS IDENTITY."""
    found: dict[str, int] = {}
    if cursor.take("("):
        while not cursor.take(")"):
            key = "start" if cursor.take("START") else "step"
            if key == "start":
                cursor.take("WITH")
            else:
                cursor.expect("INCREMENT")
                cursor.take("BY")
            if key in found:
                raise UnclearError(f"{key} is repeated")
            found[key] = -cursor.integer() if cursor.take("-") else cursor.integer()
    return Identity(
        start=found.get("start", 1), step=found.get("step", 1), allows_values=allows_values
    )


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


_AFTER_VERSION = ("TBLPROPERTIES", "LOCATION")
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
    version, timestamp, expression = None, None, None
    if not _ends_version(cursor):
        version, timestamp, expression = _version_or_time(cursor)
    properties = properties_of(cursor) if cursor.take("TBLPROPERTIES") else ()
    return ShallowClone(
        target=target,
        source=source,
        version=version,
        timestamp=timestamp,
        time_expression=expression,
        mode=mode,
        properties=properties,
        location=cursor.string() if cursor.take("LOCATION") else None,
    )


def _version_or_time(cursor: Cursor) -> tuple[int | None, str | None, str | None]:
    """Read VERSION AS OF or TIMESTAMP AS OF: a version, a time, or SQL for a time."""
    start = cursor.position
    try:
        version, timestamp = version_of(cursor)
    except UnclearError:
        pass
    else:
        if _ends_version(cursor):
            return version, timestamp, None
    cursor.return_to(start)
    return None, None, _time_expression(cursor)


def _ends_version(cursor: Cursor) -> bool:
    return cursor.is_at_end or any(cursor.peek(word) for word in _AFTER_VERSION)


def _time_expression(cursor: Cursor) -> str:
    """Read TIMESTAMP AS OF and an expression without columns."""
    cursor.take("FOR")
    if not cursor.take("TIMESTAMP"):
        cursor.expect("SYSTEM_TIME")
    cursor.expect("AS", "OF")
    text = cursor.slice(_AFTER_VERSION)
    if not is_time(text):
        raise UnclearError("the time has columns or a query")
    return text


def _partition_field(cursor: Cursor) -> str | ColumnDefinition:
    """Read the name of a column, or a new column with its type."""
    start = cursor.position
    name = cursor.name()
    if cursor.peek(",") or cursor.peek(")"):
        return name
    cursor.return_to(start)
    column = _column(cursor)
    given = (column.default, column.generated_as, column.identity, column.after)
    if column.is_first or any(each is not None for each in given):
        raise UnclearError("a partition column has a name, a type and a comment")
    return column


def _plain_name(column: str) -> str:
    (name,) = path_of_name(column, StructType())
    return name


def _path_option(cursor: Cursor) -> str:
    """Read options in brackets; the path is the only option that Delta tables have."""
    options = properties_of(cursor)
    if [name.lower() for name, _ in options] != ["path"]:
        raise UnclearError("an option has no effect on a Delta table")
    return options[0][1]


def _table_clauses(cursor: Cursor) -> dict[str, Any]:
    """Read the clauses between USING and the query, in any order."""
    found: dict[str, Any] = {}

    def add(key: str, value: object) -> None:
        if key in found:
            raise UnclearError(f"{key} is repeated")
        found[key] = value

    while not (cursor.is_at_end or cursor.peek("AS") or cursor.peek("SELECT")):
        if cursor.take("PARTITIONED", "BY"):
            fields = cursor.list_in_brackets(lambda: _partition_field(cursor))
            names = tuple(each for each in fields if isinstance(each, str))
            added = tuple(each for each in fields if isinstance(each, ColumnDefinition))
            if names and added:
                raise UnclearError("only some partition columns have a type")
            add("partition_by", names or tuple(_plain_name(each.name) for each in added))
            add("partition_columns", added)
        elif cursor.take("CLUSTER", "BY"):
            add("cluster_by", _clusters(cursor))
        elif cursor.take("TBLPROPERTIES"):
            add("properties", properties_of(cursor))
        elif cursor.take("COMMENT"):
            add("comment", cursor.string())
        elif cursor.take("OPTIONS"):
            add("location", _path_option(cursor))
        else:
            cursor.expect("LOCATION")
            add("location", cursor.string())
    return {
        "partition_by": (),
        "partition_columns": (),
        "cluster_by": (),
        "properties": (),
        "comment": None,
        "location": None,
    } | found
