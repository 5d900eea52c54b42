"""Plan description: reads Spark's analyzed plan of a DataFrame in one JVM call.

A plan has thousands of parts, and each Python call takes up to a millisecond. A Java class
(`java/delta_ops/lineage`) therefore walks the plan and returns one text. It only describes the
plan; `column_lineage` interprets it.

Inputs are marked in the plan itself. Spark keeps a tag on a plan node even in copies of the node,
as in self-joins. A mark lives as long as the plan and is stored nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from delta_ops.spark.compiled import instance_of
from delta_ops.spark.java_classes import java_class

MOST_PARTS = 20_000
"""Maximum number of plan and expression nodes to describe; takes some tenths of a second."""
_TAG = "delta_ops input"
_CLASS = "delta_ops.lineage.PlanWalker"


class Expression(NamedTuple):
    """A node of an expression; its children precede it."""

    kind: str
    """Name of Spark's class, without the usual package."""
    children: Sequence[int]
    id: int | None
    """Number of the attribute that it refers to or defines."""
    ordinal: int | None
    """Position of the extracted struct field."""
    plan: int | None
    """Position of a subquery's plan."""
    plan_output: Sequence[int]
    """Attributes of that plan."""


class Node(NamedTuple):
    """A plan node; its children precede it."""

    kind: str
    """Name of Spark's class, without the usual package."""
    outer: Sequence[int]
    """Nodes whose attributes a subquery may use as outer references."""
    input: str | None = None
    """The name of a marked input. Nodes below it are not described."""
    columns: Sequence[tuple[int, str]] = ()
    """Attributes of an input, with their names."""
    children: Sequence[int] = ()
    child_outputs: Sequence[Sequence[int]] = ()
    """Attributes of the children in order, for nodes that match columns by position."""
    output: Sequence[int] = ()
    """Attributes that it defines, in order."""
    number: int | None = None
    """Number that identifies a common table expression."""
    expressions: Sequence[Expression] = ()
    lists: Sequence[Sequence[int]] = ()
    """Positions of the top-level expressions, list by list."""


class PlanDescription(NamedTuple):
    """A plan."""

    nodes: Sequence[Node]
    """The last node is the root."""
    columns: Sequence[tuple[int, str]]
    """Attributes of the output, with their names."""


def mark_input(frame: DataFrame, name: str) -> None:
    """Mark a DataFrame of a classic session as an input, before other DataFrames use it."""
    of_frame: Any = frame
    of_frame._jdf.logicalPlan().setTagValue(_tag(frame), name)


def describe_plan(frame: DataFrame) -> PlanDescription | None:
    """Describe the analyzed plan of a classic DataFrame; None if it has too many nodes."""
    of_frame: Any = frame
    walker = instance_of(frame.sparkSession, _CLASS)
    plan = of_frame._jdf.queryExecution().analyzed()
    text = walker.describe(plan, _tag(frame), MOST_PARTS)
    if text is None:
        return None
    fields = json.loads(text)
    return PlanDescription(list(map(_node, fields["nodes"])), fields["columns"])


def _tag(frame: DataFrame) -> Any:
    context: Any = frame.sparkSession.sparkContext
    return java_class(context._jvm, "org.apache.spark.sql.catalyst.trees.TreeNodeTag")(_TAG)


def _node(fields: dict[str, Any]) -> Node:
    expressions = [Expression(*each) for each in fields.pop("expressions", ())]
    return Node(**fields, expressions=expressions)
