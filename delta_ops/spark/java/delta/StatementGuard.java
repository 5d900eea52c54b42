package delta;

import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.RowDataSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.command.AlterTableSetLocationCommand;
import org.apache.spark.sql.execution.command.AlterTableSetPropertiesCommand;
import org.apache.spark.sql.execution.command.CreateDataSourceTableCommand;
import org.apache.spark.sql.execution.command.RunnableCommand;
import org.apache.spark.sql.execution.datasources.CreateTempViewUsing;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Refuses statements on a Delta table that Spark would carry out on the entry of the catalog alone,
 * describes the table as its log does, and keeps Spark from remembering the table.
 *
 * <p>A strategy sees every statement before it runs. It plans the descriptions only.
 */
class StatementGuard extends SparkStrategy {
    private static final long serialVersionUID = 1L;
    private static final String DELTA = "delta";
    private static final String DESCRIBES = "DescribeTableCommand";
    private static final String NAMES = "CreateDataSourceTableCommand";

    private final SparkSession session;

    StatementGuard(SparkSession session) {
        this.session = session;
    }

    @SuppressWarnings("unchecked")
    static void watch(SparkSession session) {
        Seq<SparkStrategy> known = session.experimental().extraStrategies();
        List<SparkStrategy> extended = new ArrayList<>();
        extended.add(new StatementGuard(session));
        for (SparkStrategy strategy : CollectionConverters.asJava(known)) {
            if (strategy instanceof StatementGuard) {
                return;
            }
            extended.add(strategy);
        }
        session.experimental()
                .extraStrategies_$eq(CollectionConverters.asScala(extended).toSeq());
        session.extensions()
                .injectPlannerStrategy(
                        (Function1<org.apache.spark.sql.SparkSession, SparkStrategy>)
                                new Builder());
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        List<SparkPlan> planned = new ArrayList<>();
        LogicalPlan source = plan;
        while (source instanceof Project || source instanceof Filter) {
            source = (LogicalPlan) ((UnaryNode) source).child();
        }
        if (source instanceof LogicalRelation) {
            forget((LogicalRelation) source);
        } else if (source instanceof InMemoryRelation) {
            CachedQuery cached = new CachedQuery((InMemoryRelation) source);
            forget(cached);
            if (cached.isStale()) {
                planned.add(planOver(replaced(plan, cached.refreshed(session))));
            }
        } else if (plan instanceof CreateTempViewUsing && Python.answers != null) {
            validateView((CreateTempViewUsing) plan);
        } else if (plan instanceof Command && Python.answers != null) {
            CatalogTable table = tableOf(plan);
            if (table != null && isDelta(table)) {
                Object answer = answerTo(plan, table);
                if (answer instanceof Dataset) {
                    planned.add(((Dataset<?>) answer).queryExecution().sparkPlan());
                }
            }
        }
        return CollectionConverters.asScala(planned).toSeq();
    }

    /** Lets the next query find the table anew, with its columns of that time. */
    private void forget(LogicalRelation read) {
        if (read.relation() instanceof LogRelation && read.catalogTable().isDefined()) {
            forget(((CatalogTable) read.catalogTable().get()).identifier());
        }
    }

    /** Lets the next query find the tables of rows in memory anew. */
    private void forget(CachedQuery cached) {
        for (RowDataSourceScanExec scan : cached.scans()) {
            if (scan.tableIdentifier().isDefined()) {
                forget((TableIdentifier) scan.tableIdentifier().get());
            }
        }
    }

    private void forget(TableIdentifier table) {
        session.sessionState().catalog().invalidateCachedTable(table);
    }

    /** Replaces the rows in memory below projections and filters. */
    private static LogicalPlan replaced(LogicalPlan plan, InMemoryRelation rows) {
        if (plan instanceof InMemoryRelation) {
            return rows;
        }
        List<LogicalPlan> children = new ArrayList<>();
        children.add(replaced((LogicalPlan) ((UnaryNode) plan).child(), rows));
        return (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
    }

    private SparkPlan planOver(LogicalPlan plan) {
        return (SparkPlan) session.sessionState().planner().plan(plan).next();
    }

    /** Refuses columns of a view that are not those of the table. */
    private void validateView(CreateTempViewUsing view) {
        if (DELTA.equalsIgnoreCase(view.provider()) && view.userSpecifiedSchema().isDefined()) {
            StructType columns = (StructType) view.userSpecifiedSchema().get();
            Map<String, String> options = new HashMap<>();
            options.putAll(CollectionConverters.asJava(view.options()));
            ask(new Object[] {NAMES, session, options, columns.json(), null});
        }
    }

    private CatalogTable tableOf(LogicalPlan plan) {
        try {
            return StatementTables.tableOf(plan, session);
        } catch (Exception error) {
            return null; // the table is gone, or this version of Spark has another statement
        }
    }

    /** Asks Python, which refuses, describes the table, or has nothing to say. */
    private Object answerTo(LogicalPlan plan, CatalogTable table) {
        String statement = plan.getClass().getSimpleName();
        Map<String, String> options = new HashMap<>();
        options.putAll(CollectionConverters.asJava(table.storage().properties()));
        String place = placeOf(table);
        if (!place.isEmpty()) {
            options.put("path", place);
        }
        Object described = DESCRIBES.equals(statement) ? rowsOf(plan) : null;
        return ask(new Object[] {statement, session, options, detailOf(plan, table), described});
    }

    private static Object ask(Object[] question) {
        Object answer = Python.ask(Python.answers, question);
        if (answer instanceof String) {
            throw Python.refuse((String) answer);
        }
        return answer;
    }

    /** Runs a statement of Spark on the entry of the catalog. */
    @SuppressWarnings("unchecked")
    private Object rowsOf(LogicalPlan plan) {
        Seq<Row> rows = (Seq<Row>) ((RunnableCommand) plan).run(session);
        return session.createDataFrame(CollectionConverters.asJava(rows), plan.schema());
    }

    private static boolean isDelta(CatalogTable table) {
        Option<String> provider = table.provider();
        return provider.isDefined() && DELTA.equalsIgnoreCase((String) provider.get());
    }

    private static String placeOf(CatalogTable table) {
        Option<URI> place = table.storage().locationUri();
        if (place.isDefined()) {
            return new Path((URI) place.get()).toString();
        }
        Option<String> path = table.storage().properties().get("path");
        return path.isDefined() ? (String) path.get() : "";
    }

    /** Returns what else the statement, or the entry of the table, says about the table. */
    private String detailOf(LogicalPlan plan, CatalogTable table) {
        if (plan instanceof AlterTableSetPropertiesCommand
                && ((AlterTableSetPropertiesCommand) plan)
                        .properties()
                        .contains("clusteringColumns")) {
            return "clustering";
        }
        if (plan instanceof AlterTableSetLocationCommand) {
            return newPlaceOf((AlterTableSetLocationCommand) plan, table);
        }
        if (plan instanceof DescribeRelation) {
            return ((DescribeRelation) plan).isExtended() ? "extended" : "";
        }
        if (plan instanceof CreateDataSourceTableCommand) {
            return saysMore(table) ? "more" : table.schema().json();
        }
        return "";
    }

    /** Whether the entry has more than a location and columns. */
    private static boolean saysMore(CatalogTable table) {
        return !table.properties().isEmpty()
                || table.comment().isDefined()
                || table.bucketSpec().isDefined()
                || !table.partitionColumnNames().isEmpty();
    }

    /** Returns the new location; a relative one begins at the database's, as Spark has it. */
    private String newPlaceOf(AlterTableSetLocationCommand plan, CatalogTable table) {
        Path place = new Path(CatalogUtils.stringToURI(plan.location()));
        if (place.toUri().isAbsolute() || place.isAbsolute()) {
            return place.toString();
        }
        URI base =
                session.sessionState()
                        .catalog()
                        .getDatabaseMetadata(table.database())
                        .locationUri();
        return new Path(new Path(base), place).toString();
    }

    /** Makes the guards of sessions that begin later. */
    @SuppressWarnings("rawtypes") // Janino makes no bridges to typed parameters
    private static class Builder extends AbstractFunction1 {
        @Override
        public Object apply(Object session) {
            return new StatementGuard((SparkSession) session);
        }
    }
}
