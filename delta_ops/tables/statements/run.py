"""Run: executes a routed statement, and returns a DataFrame with the reference's columns."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

import delta_ops.spark as ds
from delta_ops.errors import TableNotFoundError
from delta_ops.option_words import Surface
from delta_ops.spark.delta_format.catalog_entries import copy_columns, find_place
from delta_ops.spark.delta_format.sql_source import forget_columns
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.routing import Routed
from delta_ops.spark.versions import error_with_condition
from delta_ops.tables.exceptions import translating_errors
from delta_ops.tables.statements import commands, ddl, dml
from delta_ops.tables.statements.table import Table, table_of


def run(routed: Routed) -> DataFrame:
    """Run a statement.

    Raises:
        AnalysisException: The statement does not fit the table; the message says why.
    """
    with translating_errors(Surface.SQL):
        table = table_of(routed)
        if not isinstance(routed.statement, _MAY_CREATE) and not table.log.exists():
            raise TableNotFoundError(table.log.uri)
        result = _run(table, routed.statement)
        if routed.is_named:
            _refresh_name(routed, table)
        return result


def _refresh_name(routed: Routed, table: Table) -> None:
    """Make the session find the table again with its columns."""
    forget_columns(routed.spark)
    if routed.place is not None or isinstance(routed.statement, _KEEPS_COLUMNS):
        return
    place = find_place(routed.spark, routed.statement.target.parts)
    if place is not None and place.path == routed.path:  # not so for a view of the table
        copy_columns(routed.spark, place, ds.read(routed.spark, table.log).schema)


_MAY_CREATE = (
    nodes.CreateTable,
    nodes.CreateTableLike,
    nodes.ShallowClone,
    nodes.ConvertToDelta,
)
_KEEPS_COLUMNS = (
    nodes.Delete,
    nodes.Update,
    nodes.Truncate,
    nodes.Optimize,
    nodes.Vacuum,
    nodes.DescribeHistory,
    nodes.DescribeDetail,
    nodes.Generate,
    nodes.Reorg,
    nodes.Show,
)
"""Statements that keep the columns of a table."""


def _run(table: Table, statement: nodes.Statement) -> DataFrame:
    match statement:
        case (
            nodes.Delete() | nodes.Update() | nodes.MergeInto() | nodes.Insert() | nodes.Truncate()
        ):
            return dml.run(table, statement)
        case (
            nodes.Optimize()
            | nodes.Vacuum()
            | nodes.DescribeHistory()
            | nodes.DescribeDetail()
            | nodes.Restore()
            | nodes.Generate()
            | nodes.Reorg()
            | nodes.ConvertToDelta()
            | nodes.ShallowClone()
            | nodes.Show()
        ):
            return commands.run(table, statement)
        case nodes.Unsupported():
            raise error_with_condition(
                AnalysisException,
                f"{table.log.uri}: {statement.operation} is not supported for Delta tables; "
                f"{statement.cure}",
                statement.condition,
            )
    return ddl.run(table, statement)
