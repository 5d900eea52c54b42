package delta;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.RowDataSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A query whose rows Spark keeps in memory: by CACHE TABLE, or by cache() of a DataFrame.
 *
 * <p>Spark looks for such a query by its plan, and two reads of a table are equal there
 * (LogRelation). It does not look for commits. This class does, in each use of the rows.
 */
class CachedQuery {
    private static final String CHANGED =
            "the rows of a cached query changed while this query was planned; run it again";

    private final InMemoryRelation rows;
    private final List<RowDataSourceScanExec> scans = new ArrayList<>();

    CachedQuery(InMemoryRelation rows) {
        this.rows = rows;
        collectScans(rows.cacheBuilder().cachedPlan());
    }

    /** Returns the reads of Delta tables that the rows come from. */
    List<RowDataSourceScanExec> scans() {
        return scans;
    }

    /** Whether a table has another version than the rows in memory. */
    boolean isStale() {
        Map<LogRelation, Object> newest = new HashMap<>();
        for (RowDataSourceScanExec scan : scans) {
            LogRelation table = (LogRelation) scan.relation();
            if (!newest.containsKey(table)) {
                newest.put(table, table.newestVersion());
            }
            if (!newest.get(table).equals(table.versionOf(scan.rdd()))) {
                return true;
            }
        }
        return false;
    }

    /**
     * Lets Spark keep the rows of the newest versions.
     *
     * <p>Spark computes them when a query needs them, and keeps the name for UNCACHE TABLE.
     */
    InMemoryRelation refreshed(SparkSession session) {
        LogicalPlan query = CachedPlans.planOf(session, rows);
        if (query == null) {
            throw Python.refuse(CHANGED);
        }
        CacheManager cached = session.sharedState().cacheManager();
        cached.recacheByPlan(session, query);
        Option<CachedData> found = cached.lookupCachedData(Dataset.ofRows(session, query));
        if (!found.isDefined()) {
            throw Python.refuse(CHANGED);
        }
        return ((CachedData) found.get()).cachedRepresentation().withOutput(rows.output());
    }

    /** Plans in leaves that Spark does not count as children are looked at, too. */
    private void collectScans(SparkPlan plan) {
        if (plan instanceof RowDataSourceScanExec) {
            if (((RowDataSourceScanExec) plan).relation() instanceof LogRelation) {
                scans.add((RowDataSourceScanExec) plan);
            }
        } else if (plan instanceof AdaptiveSparkPlanExec) {
            collectScans(((AdaptiveSparkPlanExec) plan).inputPlan());
        } else if (plan instanceof InMemoryTableScanExec) {
            InMemoryRelation inner = ((InMemoryTableScanExec) plan).relation();
            collectScans(inner.cacheBuilder().cachedPlan());
        }
        for (Object child : CollectionConverters.asJava(plan.children())) {
            collectScans((SparkPlan) child);
        }
        for (Object subquery : CollectionConverters.asJava(plan.subqueries())) {
            collectScans((SparkPlan) subquery);
        }
    }
}
