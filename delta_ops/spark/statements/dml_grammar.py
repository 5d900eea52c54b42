"""Grammar of DELETE, UPDATE, MERGE INTO, INSERT and TRUNCATE.

Source: apache/spark, `SqlBaseParser.g4`: `dmlStatementNoWith`, `insertInto`.
"""

from __future__ import annotations

from typing import Literal

from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.names import alias_of, column_of, target_of
from delta_ops.spark.statements.nodes import (
    Assignments,
    Delete,
    Insert,
    MergeClause,
    MergeInto,
    Truncate,
    Update,
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
    source = _source(cursor)
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
        condition=condition,
        clauses=tuple(clauses),
        adds_columns=adds_columns,
    )


def insert_of(cursor: Cursor) -> Insert:
    """Read INSERT INTO, INSERT OVERWRITE, and INSERT INTO table REPLACE WHERE condition."""
    cursor.expect("INSERT")
    overwrites = cursor.take("OVERWRITE")
    if not overwrites:
        cursor.expect("INTO")
    cursor.take("TABLE")
    target = target_of(cursor)
    columns, is_by_name, condition = None, False, None
    if not overwrites and cursor.take("REPLACE", "WHERE"):
        condition = cursor.slice(_QUERY_STARTS)
    elif cursor.take("BY", "NAME"):
        is_by_name = True
    elif cursor.peek("("):
        columns = _column_list(cursor)
    if not any(cursor.peek(word) for word in (*_QUERY_STARTS, "(")):
        raise UnclearError("no query follows")
    query = cursor.slice()
    cursor.expect_end()
    return Insert(
        target=target,
        query=query,
        columns=columns,
        is_by_name=is_by_name,
        overwrites=overwrites,
        replace_where=condition,
    )


def truncate_of(cursor: Cursor) -> Truncate:
    """Read TRUNCATE TABLE table, without a partition."""
    cursor.expect("TRUNCATE", "TABLE")
    return Truncate(target=target_of(cursor))


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


def _source(cursor: Cursor) -> str:
    start = cursor.position
    if cursor.peek("("):
        cursor.text_in_brackets()
    else:
        target_of(cursor)
    if alias_of(cursor, ("ON",)) is not None and cursor.peek("("):
        cursor.list_in_brackets(cursor.name)
    return cursor.text_since(start)


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
