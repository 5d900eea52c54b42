package delta;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;

/** Finds the query of rows in memory. */
class CachedPlans {
    private CachedPlans() {}

    /** Returns the query, which finds the rows again; null if it is not cached any more. */
    static LogicalPlan planOf(SparkSession session, InMemoryRelation rows) {
        return rows.cacheBuilder().logicalPlan();
    }
}
