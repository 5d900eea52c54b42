"""Grammar of DELETE, UPDATE, MERGE INTO, INSERT and TRUNCATE.

Source: apache/spark, `SqlBaseParser.g4`: `dmlStatementNoWith`, `insertInto`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.names import alias_of, column_of, take_unsupported, target_of
from delta_ops.spark.statements.nodes import (
    Assignments,
    Delete,
    Insert,
    MergeClause,
    MergeInto,
    Truncate,
    Unsupported,
    Update,
)

DEFAULT = "DEFAULT"
"""A value that stands for the default of its column."""
_UNSUPPORTED = (
    (
        ("PARTITION",),
        "TRUNCATE TABLE ... PARTITION",
        "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED",
        "delete the rows with DELETE FROM ... WHERE",
    ),
)
_QUERY_STARTS = ("SELECT", "VALUES", "WITH", "TABLE")


def delete_of(cursor: Cursor) -> Delete:
    """Read DELETE FROM table [alias] [WHERE condition]."""
    cursor.expect("DELETE", "FROM")
    target = target_of(cursor)
    alias = alias_of(cursor, ("WHERE",))
    return Delete(target=target, alias=alias, condition=_where(cursor))


def update_of(cursor: Cursor) -> Update:
    """Read UPDATE table [alias] SET column = value, ... [WHERE condition]."""
    cursor.expect("UPDATE")
    target = target_of(cursor)
    alias = alias_of(cursor, ("SET",))
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    return Update(target=target, alias=alias, assignments=assignments, condition=_where(cursor))


def merge_of(cursor: Cursor) -> MergeInto:
    """Read MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN ..."""
    cursor.expect("MERGE")
    adds_columns = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    target = target_of(cursor)
    alias = alias_of(cursor, ("USING",))
    cursor.expect("USING")
    source, source_name = _source(cursor)
    cursor.expect("ON")
    condition = cursor.slice(("WHEN",))
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    if not clauses:
        raise UnclearError("a merge without clauses")
    return MergeInto(
        target=target,
        alias=alias,
        source=source,
        source_name=source_name,
        condition=condition,
        clauses=tuple(clauses),
        adds_columns=adds_columns,
    )


def insert_of(cursor: Cursor) -> Insert:
    """Read INSERT INTO, INSERT OVERWRITE, and INSERT INTO table REPLACE WHERE condition."""
    cursor.expect("INSERT")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    overwrites = cursor.take("OVERWRITE")
    if not overwrites:
        cursor.expect("INTO")
    cursor.take("TABLE")
    target = target_of(cursor)
    columns, is_by_name, condition = None, False, None
    partition: tuple[tuple[str, str | None], ...] = ()
    if not overwrites and cursor.take("REPLACE", "WHERE"):
        condition = cursor.slice(_QUERY_STARTS)
    else:
        if cursor.take("PARTITION"):
            partition = cursor.list_in_brackets(lambda: _partition_value(cursor))
        if cursor.take("BY", "NAME"):
            is_by_name = True
        elif cursor.peek("("):
            columns = _column_list(cursor)
    if not any(cursor.peek(word) for word in (*_QUERY_STARTS, "(")):
        raise UnclearError("no query follows")
    rows = _rows_with_default(cursor)
    query = cursor.slice()
    cursor.expect_end()
    return Insert(
        target=target,
        query=query,
        columns=columns,
        is_by_name=is_by_name,
        overwrites=overwrites,
        evolves=evolves,
        replace_where=condition,
        partition=partition,
        value_rows=rows,
    )


def change_with_tables(cursor: Cursor) -> Insert | MergeInto:
    """Read WITH name AS (query), ... INSERT or MERGE; the query or the source gets the WITH."""
    start = cursor.position
    cursor.expect("WITH")
    if cursor.peek("RECURSIVE"):
        raise UnclearError("a recursive query")
    cursor.list(lambda: _common_table(cursor))
    tables = cursor.text_since(start)
    if cursor.peek("MERGE"):
        merge = merge_of(cursor)
        return replace(merge, with_tables=tables)
    insert = insert_of(cursor)
    if insert.value_rows:
        raise UnclearError("VALUES with DEFAULT after WITH")
    is_nested = insert.query[:4].upper() == "WITH"
    query = f"SELECT * FROM ({insert.query})" if is_nested else insert.query  # noqa: S608
    return replace(insert, query=f"{tables} {query}")


def _common_table(cursor: Cursor) -> None:
    cursor.name()
    if cursor.peek("("):
        cursor.list_in_brackets(cursor.name)
    cursor.take("AS")
    cursor.text_in_brackets()


def _partition_value(cursor: Cursor) -> tuple[str, str | None]:
    name = cursor.name()
    return name, cursor.constant() if cursor.take("=") else None


def _rows_with_default(cursor: Cursor) -> tuple[tuple[str, ...], ...]:
    """The rows of VALUES without reading them; empty if no value is DEFAULT."""
    start = cursor.position
    if not cursor.take("VALUES"):
        return ()
    try:
        rows = cursor.list(
            lambda: cursor.list_in_brackets(lambda: cursor.slice((",",))),
        )
        is_complete = cursor.is_at_end
    except UnclearError:
        is_complete, rows = False, ()
    cursor.return_to(start)
    has_default = any(value.upper() == DEFAULT for row in rows for value in row)
    return rows if is_complete and has_default else ()


def truncate_of(cursor: Cursor) -> Truncate | Unsupported:
    """Read TRUNCATE TABLE table [PARTITION]."""
    cursor.expect("TRUNCATE", "TABLE")
    target = target_of(cursor)
    return take_unsupported(cursor, target, _UNSUPPORTED) or Truncate(target=target)


def _where(cursor: Cursor) -> str | None:
    return cursor.slice() if cursor.take("WHERE") else None


def _assignments(cursor: Cursor, *stops: str) -> Assignments:
    def assignment() -> tuple[str, str]:
        column = column_of(cursor)
        cursor.expect("=")
        return column, cursor.slice((",", *stops))

    return cursor.list(assignment)


def _column_list(cursor: Cursor) -> tuple[str, ...] | None:
    """Read column names in brackets; None if the brackets are a query."""
    if any(cursor.peek("(", word) for word in (*_QUERY_STARTS, "(")):
        return None
    return cursor.list_in_brackets(cursor.name)


def _source(cursor: Cursor) -> tuple[str, str | None]:
    """Read the source of a merge; returns its text, and the name of its columns' table."""
    start, name = cursor.position, None
    if cursor.peek("("):
        cursor.text_in_brackets()
    else:
        name = target_of(cursor).parts[-1]
    alias = alias_of(cursor, ("ON",))
    if alias is not None and cursor.peek("("):
        cursor.list_in_brackets(cursor.name)
    return cursor.text_since(start), alias or name


_AppliesTo = Literal["matched", "not matched", "not matched by source"]


def _clause(cursor: Cursor) -> MergeClause:
    applies_to = _applies_to(cursor)
    condition = cursor.slice(("THEN",)) if cursor.take("AND") else None
    cursor.expect("THEN")
    if cursor.take("DELETE") and applies_to != "not matched":
        return MergeClause(action="delete", applies_to=applies_to, condition=condition)
    if applies_to == "not matched":
        return _insert_clause(cursor, condition)
    cursor.expect("UPDATE", "SET")
    if cursor.take("*"):
        if applies_to != "matched":
            raise UnclearError("a row without a match has no source")
        return MergeClause(action="update all", applies_to=applies_to, condition=condition)
    return MergeClause(
        action="update",
        applies_to=applies_to,
        condition=condition,
        assignments=_assignments(cursor, "WHEN"),
    )


def _applies_to(cursor: Cursor) -> _AppliesTo:
    if cursor.take("MATCHED"):
        return "matched"
    cursor.expect("NOT", "MATCHED")
    if cursor.take("BY", "SOURCE"):
        return "not matched by source"
    cursor.take("BY", "TARGET")
    return "not matched"


def _insert_clause(cursor: Cursor, condition: str | None) -> MergeClause:
    cursor.expect("INSERT")
    if cursor.take("*"):
        return MergeClause(action="insert all", applies_to="not matched", condition=condition)
    columns = cursor.list_in_brackets(lambda: column_of(cursor))
    cursor.expect("VALUES")
    values = cursor.list_in_brackets(lambda: cursor.slice((",",)))
    if len(columns) != len(values):
        raise UnclearError("as many values as columns are needed")
    return MergeClause(
        action="insert",
        applies_to="not matched",
        condition=condition,
        assignments=tuple(zip(columns, values, strict=True)),
    )
