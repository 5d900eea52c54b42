package delta;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the query of rows in memory, which Spark before 4.0 keeps in a private list only. */
class CachedPlans {
    private CachedPlans() {}

    /** Returns the query, which finds the rows again; null if it is not cached any more. */
    static LogicalPlan planOf(SparkSession session, InMemoryRelation rows) {
        Object all;
        try {
            Field field = CacheManager.class.getDeclaredField("cachedData");
            field.setAccessible(true);
            all = field.get(session.sharedState().cacheManager());
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException(error);
        }
        for (Object each : CollectionConverters.asJava((Seq<?>) all)) {
            CachedData data = (CachedData) each;
            if (data.cachedRepresentation().cacheBuilder() == rows.cacheBuilder()) {
                return data.plan();
            }
        }
        return null;
    }
}
