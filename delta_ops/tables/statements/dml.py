"""DML: DELETE, UPDATE, MERGE INTO, INSERT and TRUNCATE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.writers import save
from delta_ops.spark.session.settings import reset_txn, txn_of
from delta_ops.spark.statements import nodes
from delta_ops.tables.merge_builder import DeltaMergeBuilder
from delta_ops.tables.statements.table import Table
from delta_ops.transaction import CommitResult

Dml: TypeAlias = nodes.Delete | nodes.Update | nodes.MergeInto | nodes.Insert | nodes.Truncate

_AFFECTED = "num_affected_rows BIGINT"
_UNKNOWN = -1
"""The number of deleted rows if removed files have no statistics, as in the reference."""
_DEFAULT = "DEFAULT"


def run(table: Table, statement: Dml) -> DataFrame:
    """Change the rows of a table."""
    match statement:
        case nodes.Delete():
            return _delete(table, statement)
        case nodes.Update():
            return _update(table, statement)
        case nodes.MergeInto():
            return _merge(table, statement)
        case nodes.Insert():
            return _insert(table, statement)
        case nodes.Truncate():
            ds.delete(table.spark, table.log, user_metadata=table.user_metadata)
            return table.nothing()


def _delete(table: Table, statement: nodes.Delete) -> DataFrame:
    txn = txn_of(table.spark)
    result = ds.delete(
        table.spark,
        table.log,
        statement.condition,
        target_alias=statement.alias or table.name,
        txn=txn,
        user_metadata=table.user_metadata,
    )
    return _affected_rows(table, result, "numDeletedRows", txn)


def _update(table: Table, statement: nodes.Update) -> DataFrame:
    txn = txn_of(table.spark)
    result = ds.update(
        table.spark,
        table.log,
        _values(table, statement.assignments),
        statement.condition,
        target_alias=statement.alias or table.name,
        txn=txn,
        user_metadata=table.user_metadata,
    )
    return _affected_rows(table, result, "numUpdatedRows", txn)


def _affected_rows(
    table: Table, result: CommitResult, metric: str, txn: tuple[str, int] | None
) -> DataFrame:
    if txn is not None:
        reset_txn(table.spark)
    unknown = 0 if result.version is None else _UNKNOWN
    return table.rows([(result.metrics.get(metric, unknown),)], _AFFECTED)


def _values(table: Table, assignments: nodes.Assignments) -> dict[str, str]:
    """New values by column.

    Raises:
        InvalidRequestError: A column is set twice, or to DEFAULT.
    """
    for column, value in assignments:
        if value.upper() == _DEFAULT:
            raise InvalidRequestError(
                f"{table.log.uri}: DEFAULT as the new value of {column} is not supported; write "
                "the value itself"
            )
    values = dict(assignments)
    if len(values) < len(assignments):
        raise InvalidRequestError(f"{table.log.uri}: a column is set twice; set it once")
    return values


def _merge(table: Table, statement: nodes.MergeInto) -> DataFrame:
    source = table.query(f"SELECT * FROM {statement.source}")  # noqa: S608  (the user's own text)
    merge = table.delta_table(statement.alias).merge(source, statement.condition)
    if statement.adds_columns:
        merge = merge.withSchemaEvolution()
    for clause in statement.clauses:
        merge = _add_clause(merge, clause, _values(table, clause.assignments))
    return merge.execute()


def _add_clause(
    merge: DeltaMergeBuilder, clause: nodes.MergeClause, values: dict[str, str]
) -> DeltaMergeBuilder:
    condition = clause.condition
    given: dict[str, Any] = dict(values)
    match clause.applies_to, clause.action:
        case "matched", "delete":
            return merge.whenMatchedDelete(condition)
        case "matched", "update all":
            return merge.whenMatchedUpdateAll(condition)
        case "matched", _:
            return merge.whenMatchedUpdate(condition, given)
        case "not matched", "insert all":
            return merge.whenNotMatchedInsertAll(condition)
        case "not matched", _:
            return merge.whenNotMatchedInsert(condition, given)
        case _, "delete":
            return merge.whenNotMatchedBySourceDelete(condition)
    return merge.whenNotMatchedBySourceUpdate(condition, given)


def _insert(table: Table, statement: nodes.Insert) -> DataFrame:
    rows = table.query(statement.query)
    if not statement.is_by_name:
        names = statement.columns or tuple(each.name for each in table.log.snapshot().schema.fields)
        rows = _name_columns(table, rows, names)
    options = {"path": ("path", table.path)}
    if statement.replace_where is not None:
        options["replacewhere"] = ("replaceWhere", statement.replace_where)
    replaces = statement.overwrites or statement.replace_where is not None
    calls = Calls(mode="overwrite" if replaces else "append", options=options)
    save(rows, calls, None, table.storage_options)
    return table.nothing()


def _name_columns(table: Table, rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Name the columns of a query by their position.

    Raises:
        InvalidRequestError: The query has another number of columns, or a column is named twice.
    """
    if len(rows.columns) != len(names):
        raise InvalidRequestError(
            f"{table.log.uri}: the query has {len(rows.columns)} columns, and the statement needs "
            f"{len(names)} ({', '.join(names)}); name the columns after the table, or use BY NAME"
        )
    if len({each.lower() for each in names}) < len(names):
        raise InvalidRequestError(f"{table.log.uri}: a column is named twice; name it once")
    return rows.toDF(*names)
