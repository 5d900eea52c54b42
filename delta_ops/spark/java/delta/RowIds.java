package delta;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.Product;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Gives the tables of a query the hidden column `_metadata`, with the ids of their rows.
 *
 * <p>The names of tables are replaced in the plan before Spark resolves it. Spark finds a hidden
 * column only where the query names it.
 */
@SuppressWarnings({"rawtypes", "unchecked"}) // Janino makes no bridges to typed parameters
class RowIds extends AbstractPartialFunction {
    private final Function<Object, Object> open;
    private final Set<String> names;
    private int count = 0;

    /**
     * Makes the replacement.
     *
     * @param open returns the rows of the table of a name, whose last column is the hidden one;
     *     null for other names
     * @param names the names that the query defines, in lower case
     */
    private RowIds(Function<Object, Object> open, Set<String> names) {
        this.open = open;
        this.names = names;
    }

    /** Runs a query; returns null if it is no query, or has no such table. */
    static Dataset<Row> query(SparkSession session, String text, Function<Object, Object> open)
            throws ParseException {
        LogicalPlan parsed = (LogicalPlan) session.sessionState().sqlParser().parsePlan(text);
        if (parsed instanceof Command || parsed instanceof ParsedStatement) {
            return null;
        }
        Set<String> names = new HashSet<>();
        addNames(parsed, names);
        RowIds replacement = new RowIds(open, names);
        LogicalPlan plan = (LogicalPlan) parsed.transformUpWithSubqueries(replacement);
        if (replacement.count == 0) {
            return null;
        }
        return org.apache.spark.sql.classic.Dataset.ofRows(session, plan);
    }

    /** Adds the names of common table expressions, which are not children of their plan. */
    private static void addNames(LogicalPlan plan, Set<String> names) {
        if (plan instanceof UnresolvedWith) {
            UnresolvedWith with = (UnresolvedWith) plan;
            for (Object each : CollectionConverters.asJava(with.cteRelations())) {
                names.add(((String) ((Product) each).productElement(0)).toLowerCase());
                addNames((LogicalPlan) ((Product) each).productElement(1), names);
            }
        }
        for (Object child : CollectionConverters.asJava(plan.children())) {
            addNames((LogicalPlan) child, names);
        }
        for (Object subquery : CollectionConverters.asJava(plan.subqueries())) {
            addNames((LogicalPlan) subquery, names);
        }
    }

    @Override
    public boolean isDefinedAt(Object node) {
        return node instanceof UnresolvedRelation || node instanceof UnresolvedWith;
    }

    @Override
    public Object applyOrElse(Object node, Function1 other) {
        if (node instanceof UnresolvedWith) {
            return replaceInTables((UnresolvedWith) node);
        }
        if (!(node instanceof UnresolvedRelation)) {
            return other.apply(node);
        }
        Seq<String> name = ((UnresolvedRelation) node).multipartIdentifier();
        if (name.size() == 1 && names.contains(((String) name.head()).toLowerCase())) {
            return node;
        }
        Object rows = Python.ask(open, String.join("\0", CollectionConverters.asJava(name)));
        if (rows == null) {
            return node;
        }
        count++;
        return SubqueryAlias$.MODULE$.apply(name, hidingLast((Dataset<Row>) rows));
    }

    /** Replaces the names within common table expressions. */
    private LogicalPlan replaceInTables(UnresolvedWith with) {
        List<Object> tables = new ArrayList<>();
        for (Object each : CollectionConverters.asJava(with.cteRelations())) {
            Product table = (Product) each;
            Object name = table.productElement(0);
            Object plan =
                    ((LogicalPlan) table.productElement(1)).transformUpWithSubqueries(this);
            // Spark 4.1 added the depth of a recursion.
            tables.add(
                    table.productArity() == 2
                            ? (Object) new Tuple2(name, plan)
                            : (Object) new Tuple3(name, plan, table.productElement(2)));
        }
        Object[] arguments = new Object[with.productArity()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = with.productElement(i);
        }
        arguments[1] = CollectionConverters.asScala(tables).toSeq();
        return (LogicalPlan) with.makeCopy(arguments);
    }

    private static LogicalPlan hidingLast(Dataset<Row> rows) {
        LogicalPlan plan =
                ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed();
        List<NamedExpression> shown = new ArrayList<>();
        List<Attribute> hidden = new ArrayList<>();
        for (Object column : CollectionConverters.asJava(plan.output())) {
            shown.add((NamedExpression) column);
        }
        hidden.add((Attribute) shown.remove(shown.size() - 1));
        Project project = new Project(CollectionConverters.asScala(shown).toSeq(), plan);
        project.setTagValue(
                Project.hiddenOutputTag(), CollectionConverters.asScala(hidden).toSeq());
        return project;
    }
}
