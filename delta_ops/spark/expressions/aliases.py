"""Aliases: finds the aliases of a DataFrame's rows, as its user set them."""

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
"""Connect plans whose columns keep the alias of their input."""


def columns_by_alias(rows: DataFrame) -> dict[str, list[str]]:
    """The columns of each alias, in order; columns without an alias are left out.

    On Spark Connect, an alias is found only if it covers all columns.
    """
    if is_connect(rows.sparkSession):
        alias = _alias_in_plan(rows)
        return {} if alias is None else {alias: rows.columns}
    columns = rows._jdf.queryExecution().analyzed().output()
    found: dict[str, list[str]] = {}
    for i in range(columns.length()):
        column = columns.apply(i)
        qualifier = column.qualifier()
        if qualifier.nonEmpty():  # an added column has none
            found.setdefault(qualifier.last(), []).append(column.name())
    return found


def _alias_in_plan(rows: DataFrame) -> str | None:
    plan: Any = rows._plan
    while type(plan).__name__ in _KEEPING:
        plan = plan._child
    return plan._alias if type(plan).__name__ == "SubqueryAlias" else None


def name_as_structs(rows: DataFrame, aliases: Mapping[str, Sequence[str]]) -> DataFrame:
    """Add a struct column for each alias, so that names still resolve if the aliases are lost.

    `a.id` then is a field of the struct `a`, next to the plain columns. If several aliases have a
    column of the same name, only their structs contain it, because the plain name would be
    ambiguous.

    Args:
        aliases: Result of `columns_by_alias`.
    """
    names = [name.lower() for name in rows.columns]
    plain = [quote(each) for each in rows.columns if names.count(each.lower()) == 1]
    structs = [
        sf.struct(*(f"{quote(alias)}.{quote(name)}" for name in columns)).alias(alias)
        for alias, columns in aliases.items()
        if alias.lower() not in names
    ]
    return rows.select(*plain, *structs)
