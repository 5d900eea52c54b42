package delta;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.AlterTableSetPropertiesCommand;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Refuses statements on a Delta table that Spark would carry out on the entry of the catalog alone.
 *
 * <p>A strategy sees every statement before it runs. It plans nothing itself.
 */
class StatementGuard extends SparkStrategy {
    private static final long serialVersionUID = 1L;

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
        if (plan instanceof Command && Python.answers != null) {
            CatalogTable table = tableOf(plan);
            if (table != null && isDelta(table)) {
                validate(plan, table);
            }
        }
        return CollectionConverters.asScala(new ArrayList<SparkPlan>()).toSeq();
    }

    private CatalogTable tableOf(LogicalPlan plan) {
        try {
            return StatementTables.tableOf(plan, session);
        } catch (Exception error) {
            return null; // the table is gone, or this version of Spark has another statement
        }
    }

    private static void validate(LogicalPlan plan, CatalogTable table) {
        String statement = plan.getClass().getSimpleName();
        Object[] question = {statement, placeOf(table), detailOf(plan, table)};
        Object refusal = Python.ask(Python.answers, question);
        if (refusal != null) {
            throw Python.refuse((String) refusal);
        }
    }

    private static boolean isDelta(CatalogTable table) {
        Option<String> provider = table.provider();
        return provider.isDefined() && "delta".equalsIgnoreCase((String) provider.get());
    }

    private static String placeOf(CatalogTable table) {
        Option<URI> place = table.storage().locationUri();
        return place.isDefined() ? new Path((URI) place.get()).toString() : "";
    }

    /** Returns what else the statement, or the entry of the table, says about the table. */
    private static String detailOf(LogicalPlan plan, CatalogTable table) {
        if (plan instanceof AlterTableSetPropertiesCommand
                && ((AlterTableSetPropertiesCommand) plan)
                        .properties()
                        .contains("clusteringColumns")) {
            return "clustering";
        }
        boolean hasMore =
                !table.properties().isEmpty()
                        || table.comment().isDefined()
                        || !table.partitionColumnNames().isEmpty();
        return hasMore ? "properties" : "";
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
