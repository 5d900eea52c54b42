"""Existing rows: checks the rows of a table against new rules.

Source: PROTOCOL.md, "CHECK Constraints" and "Column Invariants" (every row satisfies them).

One read checks all rules, and reads only the columns that the rules use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.expression.quotes import condition_of_constants
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.analysis import analyze
from delta_ops.spark.expressions.stored_sql import stored_sql
from delta_ops.spark.read.read import read_files
from delta_ops.spark.row_checks import counts_of, expression_checks, null_checks
from delta_ops.spark.schema import empty_rows
from delta_ops.spark.session.failures import translating_failures


def check_rows(
    spark: SparkSession,
    snapshot: Snapshot,
    definition: TableDefinition,
    rules: Sequence[Check | NotNull],
) -> None:
    """See `Engine.check_rows`.

    Raises:
        InvalidRequestError: A row breaks a rule, a condition needs more than the table's columns,
            or its result depends on the session.
    """
    expressions = [rule for rule in rules if isinstance(rule, Check)]
    checks = [
        *(each for each in null_checks(definition.schema) if each.rule in rules),
        *expression_checks(definition, spark, snapshot.uri, expressions),
    ]
    empty = empty_rows(spark, definition.schema)
    for rule in expressions:
        if analyze(sf.expr(stored_sql(rule.expression or "", spark)), empty).is_constant:
            reason = condition_of_constants(rule.expression or "")
            raise InvalidRequestError(f"{snapshot.uri}: {rule} cannot be used: {reason}")
    with translating_failures(snapshot.uri, snapshot.uri):
        rows = read_files(spark, snapshot, snapshot.add_files())  # without padding of CHAR columns
        (counts,) = rows.agg(*counts_of(checks)).collect()
    for number, each in enumerate(checks):
        if counts[str(number)]:
            raise InvalidRequestError(
                f"{snapshot.uri}: {_describe_breach(each.rule)} all existing rows "
                f"(violations: {counts[str(number)]}); correct or delete these rows first. "
                "Nothing was changed",
                f"DELTA_NEW_{_NEW[type(each.rule)]}_VIOLATION",
            )


_NEW: Mapping[type, str] = {Check: "CHECK_CONSTRAINT", NotNull: "NOT_NULL"}
"""Parts of the reference's error classes of rows that break a new rule."""


def _describe_breach(rule: object) -> str:
    if isinstance(rule, Check):
        return f"{rule} ({rule.expression}) is not true for"
    return f"{rule} does not hold for"
