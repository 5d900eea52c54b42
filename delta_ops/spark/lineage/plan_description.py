"""Plan description: what Spark's analysed plan of a DataFrame says, as plain values, by one call.

A plan has thousands of parts, and each question that Python asks the JVM takes up to a millisecond.
So a class of ours walks the plan there, and one text comes back. It only tells what stands in the
plan; what that means is decided in `column_lineage`.

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
    walker = instance_of(frame.sparkSession, "PlanWalker", JAVA)
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


JAVA = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LateralJoin;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import scala.Option;
import scala.collection.Iterator;

public class PlanWalker {
  public String describe(LogicalPlan plan, TreeNodeTag tag, int most) throws Exception {
    try {
      return new ObjectMapper().writeValueAsString(new Walk(tag, most).whole(plan));
    } catch (TooManyParts e) {
      return null;
    }
  }
}

class TooManyParts extends RuntimeException {}

class Walk {
  private static final String PLANS = "org.apache.spark.sql.catalyst.plans.logical.";
  private static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";
  // Of what Spark tells about files beside their rows; such a column is none of the table's.
  private static final String METADATA = "__metadata_col";
  private final TreeNodeTag tag;
  private final List nodes = new ArrayList();
  private int left;

  Walk(TreeNodeTag tag, int most) {
    this.tag = tag;
    this.left = most;
  }

  Map whole(LogicalPlan plan) {
    add(plan, new ArrayList());
    Map told = new HashMap();
    told.put("nodes", nodes);
    told.put("columns", columns(plan));
    return told;
  }

  private int add(LogicalPlan plan, List outer) {
    count();
    Map node = new HashMap();
    node.put("kind", kind(plan, PLANS));
    node.put("outer", outer);
    Option mark = plan.getTagValue(tag);
    if (mark.isDefined()) {
      node.put("input", mark.get());
      node.put("columns", columns(plan));
    } else {
      describe(plan, node, outer);
    }
    nodes.add(node);
    return nodes.size() - 1;
  }

  private void describe(LogicalPlan plan, Map node, List outer) {
    List children = new ArrayList();
    for (Iterator each = plan.children().iterator(); each.hasNext();) {
      children.add(Integer.valueOf(add((LogicalPlan) each.next(), outer)));
    }
    node.put("children", children);
    if (plan instanceof Project) {
      list(((Project) plan).projectList().iterator(), node);
    } else if (plan instanceof Aggregate) {
      list(((Aggregate) plan).aggregateExpressions().iterator(), node);
    } else if (plan instanceof Window) {
      list(((Window) plan).windowExpressions().iterator(), node);
    } else if (plan instanceof Generate) {
      node.put("output", ids(((Generate) plan).generatorOutput().iterator()));
      list(plan.expressions().iterator(), node);
    } else if (plan instanceof Expand) {
      node.put("output", ids(plan.output().iterator()));
      for (Iterator each = ((Expand) plan).projections().iterator(); each.hasNext();) {
        list(((scala.collection.Iterable) each.next()).iterator(), node);
      }
    } else if (plan instanceof LateralJoin) {
      list(plan.expressions().iterator(), node);
    } else if (plan instanceof Union) {
      node.put("output", ids(plan.output().iterator()));
      node.put("child_outputs", childOutputs(plan));
    } else if (plan instanceof CTERelationDef) {
      node.put("number", Long.valueOf(((CTERelationDef) plan).id()));
      node.put("child_outputs", childOutputs(plan));
    } else if (plan instanceof CTERelationRef) {
      node.put("number", Long.valueOf(((CTERelationRef) plan).cteId()));
      node.put("output", ids(plan.output().iterator()));
    } else if (plan instanceof Range || plan instanceof OneRowRelation) {
      node.put("output", ids(plan.output().iterator()));
    }
  }

  private void list(Iterator tops, Map node) {
    List list = new ArrayList();
    while (tops.hasNext()) list.add(Integer.valueOf(add((Expression) tops.next(), node)));
    part(node, "lists").add(list);
  }

  private int add(Expression expression, Map node) {
    count();
    Object id = null, ordinal = null, plan = null;
    List children = new ArrayList(), output = new ArrayList();
    for (Iterator each = expression.children().iterator(); each.hasNext();) {
      children.add(Integer.valueOf(add((Expression) each.next(), node)));
    }
    if (expression instanceof NamedExpression) {
      id = Long.valueOf(((NamedExpression) expression).exprId().id());
    }
    if (expression instanceof GetStructField) {
      ordinal = Integer.valueOf(((GetStructField) expression).ordinal());
    }
    if (expression instanceof SubqueryExpression) {
      LogicalPlan query = (LogicalPlan) ((SubqueryExpression) expression).plan();
      plan = Integer.valueOf(add(query, (List) node.get("children")));
      output = ids(query.output().iterator());
    }
    Object[] told = {kind(expression, EXPRESSIONS), children, id, ordinal, plan, output};
    List expressions = part(node, "expressions");
    expressions.add(Arrays.asList(told));
    return expressions.size() - 1;
  }

  private static List part(Map node, String name) {
    List part = (List) node.get(name);
    if (part == null) {
      part = new ArrayList();
      node.put(name, part);
    }
    return part;
  }

  private List childOutputs(LogicalPlan plan) {
    List outputs = new ArrayList();
    for (Iterator each = plan.children().iterator(); each.hasNext();) {
      outputs.add(ids(((LogicalPlan) each.next()).output().iterator()));
    }
    return outputs;
  }

  private List ids(Iterator attributes) {
    List ids = new ArrayList();
    while (attributes.hasNext()) {
      count();
      ids.add(Long.valueOf(((Attribute) attributes.next()).exprId().id()));
    }
    return ids;
  }

  private List columns(LogicalPlan plan) {
    List columns = new ArrayList();
    for (Iterator each = plan.output().iterator(); each.hasNext();) {
      Attribute attribute = (Attribute) each.next();
      count();
      if (attribute.metadata().contains(METADATA)) continue;
      Long id = Long.valueOf(attribute.exprId().id());
      columns.add(Arrays.asList(new Object[] {id, attribute.name()}));
    }
    return columns;
  }

  private static String kind(Object part, String usual) {
    String name = part.getClass().getName();
    return name.startsWith(usual) ? name.substring(usual.length()) : name;
  }

  private void count() {
    if (left-- == 0) throw new TooManyParts();
  }
}
"""
