"""Targets: finds the Delta table that a statement names, if it names one.

DELETE, UPDATE and MERGE also take a temporary view with all columns and rows of a table, as
delta-spark does.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from delta_ops.spark.delta_format.catalog_entries import (
    is_hidden,
    location_of_parts,
    path_of_entry,
)
from delta_ops.spark.delta_format.sql_source import is_name_free, names_paths
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.statements.nodes import Target
from delta_ops.spark.versions import error_with_condition, is_connect

_DELTA = "delta"
_PADS = "readSidePadding"
"""Spark's function that pads CHAR columns when it reads them."""


def path_of_target(spark: SparkSession, target: Target) -> str | None:
    """The path of a Delta table.

    Returns:
        The path that the target contains, or the location of a table in the session's catalog. None
        if the target is a view, another kind of table, or unknown.

    On Spark Connect, only paths are known.
    """
    if target.path is not None:
        return target.path
    return path_in_name(spark, target) or location_of_parts(spark, target.parts)


def path_of_view(spark: SparkSession, target: Target) -> str | None:
    """The path of the table behind a temporary view with all its columns and rows.

    Returns:
        None for a view of other tables, for a target that is no view, and on Spark Connect.

    Raises:
        AnalysisException: The view reads a Delta table, but not all of its columns and rows.
    """
    if is_connect(spark) or len(target.parts) != 1 or not is_hidden(spark, quote(target.parts[0])):
        return None
    try:
        plan: Any = spark.table(quote(target.parts[0]))._jdf.queryExecution().analyzed()
    except PySparkException:  # such as a view whose table was dropped
        return None
    leaves = plan.collectLeaves()
    if not any(_is_delta(leaves.apply(number)) for number in range(leaves.size())):
        return None
    path = _path_of_plan(spark, plan)
    if path is None:
        raise error_with_condition(
            AnalysisException,
            f"{target.text} is a view with other rows or columns than its table; name the table, "
            "or a view of all its rows and columns",
            "DELTA_UNEXPECTED_PARTIAL_SCAN",
        )
    return path


def _path_of_plan(spark: SparkSession, plan: Any) -> str | None:
    """The path of the table whose columns and rows a plan has; None if it has others."""
    while not _is_delta(plan):
        kind = _class_of(plan)
        is_whole = (
            kind == "SubqueryAlias"
            or (kind == "View" and plan.isTempView())
            or (kind == "Project" and _keeps_columns(plan))
        )
        if not is_whole:
            return None
        plan = plan.child()
    entry = plan.catalogTable()
    return path_of_entry(spark, entry.get()) if entry.isDefined() else None


def _is_delta(plan: Any) -> bool:
    """Whether a plan is a Delta table in SQL."""
    return _class_of(plan) == "LogicalRelation" and _class_of(plan.relation()) == "LogRelation"


def _keeps_columns(project: Any) -> bool:
    """Whether a projection has the columns below it, with their names, types and order."""
    made, given = project.projectList(), project.child().output()
    return made.length() == given.length() and all(
        _is_column(made.apply(number), given.apply(number)) for number in range(made.length())
    )


def _is_column(made: Any, given: Any) -> bool:
    """Whether an expression is the column, also cast to its own type or padded as CHAR."""
    source = made.child() if _class_of(made) == "Alias" else made
    while _class_of(source) == "Cast" and source.dataType().equals(source.child().dataType()):
        source = source.child()
    if _class_of(source) == "StaticInvoke" and source.functionName() == _PADS:
        source = source.arguments().head()
    return (
        _class_of(source) == "AttributeReference"
        and source.exprId().equals(given.exprId())
        and made.name() == given.name()
    )


def _class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def path_in_name(spark: SparkSession, target: Target) -> str | None:
    """The path of a target such as delta.`/path`; None for other names."""
    match target.parts:
        case (source, path) if source.lower() == _DELTA:
            return path if names_paths(spark) or is_name_free(spark) else None
    return None
