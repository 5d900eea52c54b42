package delta_ops.lineage;

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
import scala.collection.Iterable;
import scala.jdk.javaapi.CollectionConverters;

/** One walk over a plan, which collects its nodes, children before parents. */
class Walk {
    private static final String PLANS = "org.apache.spark.sql.catalyst.plans.logical.";
    private static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";
    /** Metadata of attributes that describe a file, such as its name. No table has them. */
    private static final String OF_FILES = "__metadata_col";

    private final TreeNodeTag<?> tag;
    private final List<Map<String, Object>> nodes = new ArrayList<>();
    private int numLeft;

    Walk(TreeNodeTag<?> tag, int mostParts) {
        this.tag = tag;
        this.numLeft = mostParts;
    }

    Map<String, Object> whole(LogicalPlan plan) {
        add(plan, new ArrayList<Integer>());
        Map<String, Object> described = new HashMap<>();
        described.put("nodes", nodes);
        described.put("columns", columns(plan));
        return described;
    }

    /** Adds a plan and what it reads, and returns its number. */
    private int add(LogicalPlan plan, List<Integer> outer) {
        count();
        Map<String, Object> node = new HashMap<>();
        node.put("kind", kind(plan, PLANS));
        node.put("outer", outer);
        Option<?> mark = plan.getTagValue(tag);
        if (mark.isDefined()) {
            node.put("input", mark.get());
            node.put("columns", columns(plan));
        } else {
            addChildren(plan, node, outer);
            describe(plan, node);
        }
        nodes.add(node);
        return nodes.size() - 1;
    }

    private void addChildren(LogicalPlan plan, Map<String, Object> node, List<Integer> outer) {
        List<Integer> children = new ArrayList<>();
        for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
            children.add(Integer.valueOf(add(child, outer)));
        }
        node.put("children", children);
    }

    private void describe(LogicalPlan plan, Map<String, Object> node) {
        if (plan instanceof Project) {
            addList(((Project) plan).projectList(), node);
        } else if (plan instanceof Aggregate) {
            addList(((Aggregate) plan).aggregateExpressions(), node);
        } else if (plan instanceof Window) {
            addList(((Window) plan).windowExpressions(), node);
        } else if (plan instanceof Generate) {
            node.put("output", ids(((Generate) plan).generatorOutput()));
            addList(plan.expressions(), node);
        } else if (plan instanceof Expand) {
            node.put("output", ids(plan.output()));
            for (Iterable<?> list : CollectionConverters.asJava(((Expand) plan).projections())) {
                addList(list, node);
            }
        } else if (plan instanceof LateralJoin) {
            addList(plan.expressions(), node);
        } else if (plan instanceof Union) {
            node.put("output", ids(plan.output()));
            node.put("child_outputs", childOutputs(plan));
        } else if (plan instanceof CTERelationDef) {
            node.put("number", Long.valueOf(((CTERelationDef) plan).id()));
            node.put("child_outputs", childOutputs(plan));
        } else if (plan instanceof CTERelationRef) {
            node.put("number", Long.valueOf(((CTERelationRef) plan).cteId()));
            node.put("output", ids(plan.output()));
        } else if (plan instanceof Range || plan instanceof OneRowRelation) {
            node.put("output", ids(plan.output()));
        }
    }

    private void addList(Iterable<?> tops, Map<String, Object> node) {
        List<Integer> list = new ArrayList<>();
        for (Object top : CollectionConverters.asJava(tops)) {
            list.add(Integer.valueOf(add((Expression) top, node)));
        }
        listOf(node, "lists").add(list);
    }

    /** Adds an expression and its parts to a node, and returns its number there. */
    private int add(Expression expression, Map<String, Object> node) {
        count();
        List<Integer> children = new ArrayList<>();
        for (Expression child : CollectionConverters.asJava(expression.children())) {
            children.add(Integer.valueOf(add(child, node)));
        }
        Object id = null;
        if (expression instanceof NamedExpression) {
            id = Long.valueOf(((NamedExpression) expression).exprId().id());
        }
        Object ordinal = null;
        if (expression instanceof GetStructField) {
            ordinal = Integer.valueOf(((GetStructField) expression).ordinal());
        }
        Object plan = null;
        List<Long> output = new ArrayList<>();
        if (expression instanceof SubqueryExpression) {
            LogicalPlan query = (LogicalPlan) ((SubqueryExpression) expression).plan();
            plan = Integer.valueOf(add(query, childrenOf(node)));
            output = ids(query.output());
        }
        List<Object> expressions = listOf(node, "expressions");
        expressions.add(
                Arrays.asList(
                        kind(expression, EXPRESSIONS), children, id, ordinal, plan, output));
        return expressions.size() - 1;
    }

    @SuppressWarnings("unchecked")
    private static List<Integer> childrenOf(Map<String, Object> node) {
        return (List<Integer>) node.get("children");
    }

    @SuppressWarnings("unchecked")
    private static List<Object> listOf(Map<String, Object> node, String name) {
        if (!node.containsKey(name)) {
            node.put(name, new ArrayList<Object>());
        }
        return (List<Object>) node.get(name);
    }

    private List<List<Long>> childOutputs(LogicalPlan plan) {
        List<List<Long>> outputs = new ArrayList<>();
        for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
            outputs.add(ids(child.output()));
        }
        return outputs;
    }

    private List<Long> ids(Iterable<Attribute> attributes) {
        List<Long> ids = new ArrayList<>();
        for (Attribute attribute : CollectionConverters.asJava(attributes)) {
            count();
            ids.add(Long.valueOf(attribute.exprId().id()));
        }
        return ids;
    }

    private List<List<Object>> columns(LogicalPlan plan) {
        List<List<Object>> columns = new ArrayList<>();
        for (Attribute attribute : CollectionConverters.asJava(plan.output())) {
            count();
            if (!attribute.metadata().contains(OF_FILES)) {
                Object id = Long.valueOf(attribute.exprId().id());
                columns.add(Arrays.asList(id, attribute.name()));
            }
        }
        return columns;
    }

    /** Returns the name of a part's class, without the usual package. */
    private static String kind(Object part, String usual) {
        String name = part.getClass().getName();
        return name.startsWith(usual) ? name.substring(usual.length()) : name;
    }

    private void count() {
        if (numLeft-- == 0) {
            throw new TooManyPartsException();
        }
    }
}
