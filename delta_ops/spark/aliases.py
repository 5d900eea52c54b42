"""Aliases: what the rows of a DataFrame are called in expressions, as its maker has called them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from delta_ops.spark.session import is_connect

_KEEPING = frozenset(
    {
        "Deduplicate",
        "Drop",
        "DropNa",
        "FillNa",
        "Filter",
        "Hint",
        "Limit",
        "Offset",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "WithColumns",
    }
)
"""Plans of Connect through which columns keep the alias of those they come from."""


def alias_of(rows: DataFrame) -> str | None:
    """The one alias that columns have; None: there is none, or more than one."""
    return _alias_in_plan(rows) if is_connect(rows.sparkSession) else _alias_of_columns(rows)


def _alias_of_columns(rows: DataFrame) -> str | None:
    columns = rows._jdf.queryExecution().analyzed().output()
    found = set()
    for i in range(columns.length()):
        qualifier = columns.apply(i).qualifier()
        if qualifier.nonEmpty():  # a column that was added has none
            found.add(qualifier.last())
    return found.pop() if len(found) == 1 else None


def _alias_in_plan(rows: DataFrame) -> str | None:
    plan: Any = rows._plan
    while type(plan).__name__ in _KEEPING:
        plan = plan._child
    return plan._alias if type(plan).__name__ == "SubqueryAlias" else None
