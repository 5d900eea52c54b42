"""Plan description: Spark's analysed plan of a DataFrame as plain values, by one call of the JVM.

A plan has thousands of parts, and each call from Python takes up to a millisecond. So a Java class
(`java/delta_ops/lineage`) walks the plan and returns one text. It judges nothing; `column_lineage`
does.

Inputs are marked in the plan itself: Spark keeps a tag with a part of a plan also where it copies
the part, as it does in self-joins. A mark lives as long as the plan, and nothing else remembers it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from delta_ops.spark.compiled import instance_of

MOST_PARTS = 20_000
"""Parts of plans and of expressions up to which a plan is described: some tenths of a second."""
_TAG = "delta_ops input"
_CLASS = "delta_ops.lineage.PlanWalker"


class Expression(NamedTuple):
    """A part of an expression; those that it is made of come before it."""

    kind: str
    """Name of Spark's class, without the usual package."""
    children: Sequence[int]
    id: int | None
    """Number of the attribute that it is or makes."""
    ordinal: int | None
    """Which field is taken out of a struct."""
    plan: int | None
    """The place of a subquery's plan."""
    plan_output: Sequence[int]
    """Attributes of that plan."""


class Node(NamedTuple):
    """A part of the plan; those that it reads come before it."""

    kind: str
    """Name of Spark's class, without the usual package."""
    outer: Sequence[int]
    """Parts whose attributes a subquery may name as outer ones."""
    input: str | None = None
    """The mark, of what is an input; nothing below it is described."""
    columns: Sequence[tuple[int, str]] = ()
    """Attributes of an input, with their names."""
    children: Sequence[int] = ()
    child_outputs: Sequence[Sequence[int]] = ()
    """Attributes of the children, where places count."""
    output: Sequence[int] = ()
    """Attributes that it makes by their places."""
    number: int | None = None
    """By which a common table expression is referred to."""
    expressions: Sequence[Expression] = ()
    lists: Sequence[Sequence[int]] = ()
    """Places of the expressions that stand at the top, list by list."""


class PlanDescription(NamedTuple):
    """A plan."""

    nodes: Sequence[Node]
    """The last one is the whole."""
    columns: Sequence[tuple[int, str]]
    """Attributes of the output, with their names."""


def mark_input(frame: DataFrame, name: str) -> None:
    """Mark a DataFrame of a classic session as an input, before anything is made of it."""
    of_frame: Any = frame
    of_frame._jdf.logicalPlan().setTagValue(_tag(frame), name)


def describe_plan(frame: DataFrame) -> PlanDescription | None:
    """The analysed plan of a DataFrame of a classic session; None if it has too many parts."""
    of_frame: Any = frame
    walker = instance_of(frame.sparkSession, _CLASS)
    plan = of_frame._jdf.queryExecution().analyzed()
    text = walker.describe(plan, _tag(frame), MOST_PARTS)
    if text is None:
        return None
    told = json.loads(text)
    return PlanDescription(list(map(_node, told["nodes"])), told["columns"])


def _tag(frame: DataFrame) -> Any:
    context: Any = frame.sparkSession.sparkContext
    return context._jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag(_TAG)


def _node(told: dict[str, Any]) -> Node:
    expressions = [Expression(*each) for each in told.pop("expressions", ())]
    return Node(**told, expressions=expressions)
