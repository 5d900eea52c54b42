"""Run: executes a routed statement, and returns a DataFrame with the reference's columns."""

from __future__ import annotations

from pyspark.sql import DataFrame

from delta_ops.errors import TableNotFoundError
from delta_ops.option_words import Surface
from delta_ops.spark.delta_format.sql_source import forget_columns
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.routing import Routed
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
            forget_columns(routed.spark)
        return result


_MAY_CREATE = (nodes.CreateTable, nodes.ShallowClone, nodes.ConvertToDelta)


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
        ):
            return commands.run(table, statement)
    return ddl.run(table, statement)
