package delta;

import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.V1Table;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the table of the catalog that a statement changes or describes. */
class StatementTables {
    private StatementTables() {}

    /** Returns the table; null where a statement has none. */
    static CatalogTable tableOf(LogicalPlan plan, SparkSession session) throws Exception {
        for (Method method : plan.getClass().getMethods()) {
            if (method.getParameterCount() > 0) {
                continue;
            }
            if (method.getReturnType() == CatalogTable.class) {
                return (CatalogTable) method.invoke(plan);
            }
            if (method.getReturnType() == TableIdentifier.class) {
                CatalogTable table = tableNamed((TableIdentifier) method.invoke(plan), session);
                if (table != null) {
                    return table;
                }
            }
        }
        return tableAmong(plan);
    }

    private static CatalogTable tableNamed(TableIdentifier name, SparkSession session)
            throws Exception {
        SessionCatalog catalog = session.sessionState().catalog();
        if (catalog.isTempView(name) || !catalog.tableExists(name)) {
            return null;
        }
        return catalog.getTableMetadata(name);
    }

    private static CatalogTable tableAmong(LogicalPlan plan) {
        for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
            if (child instanceof ResolvedTable
                    && ((ResolvedTable) child).table() instanceof V1Table) {
                return ((V1Table) ((ResolvedTable) child).table()).v1Table();
            }
        }
        return null;
    }
}
