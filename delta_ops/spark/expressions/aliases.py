"""Aliases: what the rows of a DataFrame are called in expressions, as its maker has called them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.session.session import is_connect

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


def columns_by_alias(rows: DataFrame) -> dict[str, list[str]]:
    """The columns that each alias has, in their order; those without one are left out.

    On Spark Connect only an alias of all columns is found.
    """
    if is_connect(rows.sparkSession):
        alias = _alias_in_plan(rows)
        return {} if alias is None else {alias: rows.columns}
    columns = rows._jdf.queryExecution().analyzed().output()
    found: dict[str, list[str]] = {}
    for i in range(columns.length()):
        column = columns.apply(i)
        qualifier = column.qualifier()
        if qualifier.nonEmpty():  # a column that was added has none
            found.setdefault(qualifier.last(), []).append(column.name())
    return found


def _alias_in_plan(rows: DataFrame) -> str | None:
    plan: Any = rows._plan
    while type(plan).__name__ in _KEEPING:
        plan = plan._child
    return plan._alias if type(plan).__name__ == "SubqueryAlias" else None


def name_as_structs(rows: DataFrame, aliases: Mapping[str, Sequence[str]]) -> DataFrame:
    """Rows whose columns are found without regard to aliases that they may lose.

    `a.id` is then a field of a struct `a`, which stands beside the columns. A column whose name
    several aliases have is in their structs only, as nobody could name it by itself.

    Args:
        aliases: As `columns_by_alias` finds them.
    """
    names = [name.lower() for name in rows.columns]
    plain = [quote(each) for each in rows.columns if names.count(each.lower()) == 1]
    structs = [
        sf.struct(*(f"{quote(alias)}.{quote(name)}" for name in columns)).alias(alias)
        for alias, columns in aliases.items()
        if alias.lower() not in names
    ]
    return rows.select(*plain, *structs)
