"""Column lineage: finds the input columns of each column of a DataFrame.

Source: Spark's analyzed plan, as described by `plan_description`.

An input column counts if it occurs in the expression for a value, in arguments and conditions
alike. Columns that only filter, join, group or order rows do not count. Examples are filters, keys
of joins, groups and windows, and FILTER and ORDER BY of an aggregate.

The lineage contains no guesses. An output column is omitted if any of its sources is unknown:
Python functions over whole rows, rows from an RDD or a checkpoint, files that are no input, and
plan nodes that are not listed below. It is also omitted if it uses no input column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame

from delta_ops.spark.lineage.plan_description import Expression, Node, describe_plan, mark_input
from delta_ops.spark.versions import is_connect

__all__ = ["ColumnOfInput", "column_lineage", "remember_input"]


class ColumnOfInput(NamedTuple):
    """A column of an input."""

    input: str
    """The name passed to `remember_input`."""
    column: str


class _Flow(NamedTuple):
    """The input columns that flow into a value; None if unknown."""

    columns: frozenset[ColumnOfInput] | None
    fields: tuple[_Flow, ...] = ()
    """Flows into each field, if the plan itself builds the struct."""


_Flows = Mapping[int, _Flow]
"""By attribute number. A missing attribute is unknown."""
_UNKNOWN = _Flow(None)
_NOTHING = _Flow(frozenset())

_PASSING = frozenset(
    {
        "CollectMetrics",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "EventTimeWatermark",
        "Filter",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Tail",
        "View",
        # Both return rows of the left side; the right side only selects them.
        "Except",
        "Intersect",
    }
)
"""Plan nodes that return the columns of their first child unchanged."""
_JOINS = frozenset({"AsOfJoin", "Join", "LateralJoin"})
_OF_NO_COLUMN = frozenset(
    {
        # These order rows. A rank, like a row number, comes from no column.
        "DenseRank",
        "PercentRank",
        "Rank",
        "SortOrder",
        # These refer to arguments that are also in the plan.
        "CommonExpressionRef",
        "NamedLambdaVariable",
    }
)
_OF_FIRST_CHILD = frozenset(
    {
        "Alias",
        "WindowExpression",
        # The second child is FILTER.
        "aggregate.AggregateExpression",
        # These select one of the values.
        "aggregate.AnyValue",
        "aggregate.First",
        "aggregate.Last",
        "aggregate.Max",
        "aggregate.MaxBy",
        "aggregate.Min",
        "aggregate.MinBy",
    }
)
_TYPED = "org.apache.spark.sql.execution.aggregate.Typed"


def remember_input(frame: DataFrame, name: str) -> None:
    """Mark a DataFrame as an input, so that derived columns can be traced to it.

    Args:
        frame: A DataFrame of any session. On Connect there is no plan to mark.
        name: Name of the input.
    """
    if not is_connect(frame.sparkSession):
        mark_input(frame, name)


def column_lineage(frame: DataFrame) -> dict[str, frozenset[ColumnOfInput]]:
    """Input columns of each output column, where known."""
    if is_connect(frame.sparkSession):
        return {}
    plan = describe_plan(frame)
    if plan is None:
        return {}
    flows = _trace(plan.nodes)[-1]
    found = {name: flows.get(number, _UNKNOWN).columns for number, name in plan.columns}
    return {name: columns for name, columns in found.items() if columns}


class _Traced(NamedTuple):
    """The flows of the plan nodes that were traced so far."""

    flows: list[_Flows]
    """Flows of each earlier node."""
    tables: dict[int, tuple[_Flow, ...]]
    """Columns of common table expressions, in order."""

    def flows_below(self, places: Iterable[int]) -> _Flows:
        """Attributes of several nodes. The first node wins if several have the same attribute."""
        found: dict[int, _Flow] = {}
        for place in places:
            found = {**self.flows[place], **found}
        return found


def _trace(nodes: Sequence[Node]) -> Sequence[_Flows]:
    traced = _Traced([], {})
    for node in nodes:
        traced.flows.append(_flows_of_node(node, traced))
    return traced.flows


def _flows_of_node(node: Node, traced: _Traced) -> _Flows:
    if node.input is not None:
        return {
            number: _Flow(frozenset({ColumnOfInput(node.input, name)}))
            for number, name in node.columns
        }
    if node.kind in _PASSING:
        return traced.flows[node.children[0]]
    if node.kind == "WithCTE":
        return traced.flows[node.children[-1]]
    below = traced.flows_below(node.children)
    values = _flows_of_expressions(node, below, traced)
    lists = [[values[place] for place in places] for places in node.lists]
    match node.kind:
        case "Project" | "Aggregate":
            return _flows_of_list(node, values)
        case "Window":
            return {**below, **_flows_of_list(node, values)}
        case "Generate":
            generator = node.expressions[node.lists[0][0]]
            arguments = [values[place] for place in generator.children]
            made = _flows_of_generator(generator.kind, arguments, len(node.output))
            return {**below, **dict(zip(node.output, made, strict=True))}
        case "Expand":
            return _unite_by_place(node.output, lists)
        case "Union":
            outputs = zip(node.children, node.child_outputs, strict=True)
            return _unite_by_place(node.output, [_columns(traced, *each) for each in outputs])
        case "CTERelationDef" if node.number is not None:
            outputs = zip(node.children, node.child_outputs, strict=True)
            (traced.tables[node.number],) = [tuple(_columns(traced, *each)) for each in outputs]
            return below
        case "CTERelationRef" if node.number in traced.tables:
            return _unite_by_place(node.output, [traced.tables[node.number]])
        case "Range" | "OneRowRelation":
            return dict.fromkeys(node.output, _NOTHING)
        case kind if kind in _JOINS:
            laterals = [each.plan for each in node.expressions if each.plan is not None]
            return {**traced.flows_below(laterals), **below}
    return {}


def _columns(traced: _Traced, place: int, output: Iterable[int]) -> list[_Flow]:
    return [traced.flows[place].get(each, _UNKNOWN) for each in output]


def _flows_of_list(node: Node, values: Sequence[_Flow]) -> _Flows:
    tops = [(node.expressions[place].id, values[place]) for place in node.lists[0]]
    return {number: flow for number, flow in tops if number is not None}


def _unite_by_place(output: Sequence[int], rows: Sequence[Sequence[_Flow]]) -> _Flows:
    """Unite rows of several inputs: each output column gets the flows at its position."""
    return {each: _unite(flows) for each, *flows in zip(output, *rows, strict=True)}


def _flows_of_generator(kind: str, arguments: Sequence[_Flow], width: int) -> list[_Flow]:
    """Flows of the columns that a generator returns."""
    if kind == "Stack":
        return [_unite(arguments[1 + place :: width]) for place in range(width)]
    whole = _Flow(_unite(arguments).columns)
    # Positions come from no value.
    positions = [_NOTHING] if kind == "PosExplode" else []
    rest = width - len(positions)
    if rest > 1:
        # Keys and values of a map, or fields of structs.
        whole = _part_of(whole)
    return [*positions, *[whole] * rest]


def _part_of(whole: _Flow) -> _Flow:
    """Flow into a part of a value; unknown if the whole value has several source columns."""
    return _UNKNOWN if len(whole.columns or ()) > 1 else whole


def _flows_of_expressions(node: Node, below: _Flows, traced: _Traced) -> list[_Flow]:
    values: list[_Flow] = []
    for each in node.expressions:
        children = [values[place] for place in each.children]
        values.append(_flow(each, children, node, below, traced))
    return values


def _flow(
    expression: Expression, children: Sequence[_Flow], node: Node, below: _Flows, traced: _Traced
) -> _Flow:
    match expression:
        case Expression(kind="AttributeReference", id=int() as number):
            return below.get(number, _UNKNOWN)
        case Expression(kind="OuterReference", id=int() as number):
            return traced.flows_below(node.outer).get(number, _UNKNOWN)
        case Expression(kind="ScalarSubquery" | "ListQuery", plan=int() as place):
            return _Flow(_unite(_columns(traced, place, expression.plan_output)).columns)
        case Expression(plan=int()):
            return _UNKNOWN
        case Expression(kind="CreateNamedStruct"):
            fields = tuple(children[1::2])
            return _Flow(_unite(fields).columns, fields)
        case Expression(kind="GetStructField", ordinal=int() as ordinal):
            parent = children[0]
            return parent.fields[ordinal] if parent.fields else _part_of(parent)
        case Expression(kind="GetArrayStructFields"):
            return _part_of(children[0])
        case Expression(kind="UpdateFields"):  # some may be dropped
            return _unite([_part_of(children[0]), *children[1:]])
        case Expression(kind=kind) if kind in _OF_FIRST_CHILD:
            return children[0]
        case Expression(kind=kind) if kind in _OF_NO_COLUMN:
            return _NOTHING
        case Expression(id=int()):
            return _UNKNOWN
        case Expression(kind=kind) if kind.startswith(_TYPED):
            return _UNKNOWN
    return _Flow(_unite(children).columns)


def _unite(flows: Sequence[_Flow]) -> _Flow:
    """Flow into a value that combines all these values, or is any of them."""
    columns: frozenset[ColumnOfInput] | None = frozenset()
    for each in flows:
        columns = None if columns is None or each.columns is None else columns | each.columns
    widths = {len(each.fields) for each in flows}
    if len(widths) != 1:
        return _Flow(columns)
    return _Flow(columns, tuple(map(_unite, zip(*(each.fields for each in flows), strict=True))))
