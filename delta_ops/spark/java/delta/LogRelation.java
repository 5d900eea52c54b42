package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Function;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table in a query. Its rows are those of the newest version when the query is planned.
 *
 * <p>The columns and filters of the query become part of the plan over the files, so that Spark
 * prunes columns, partitions and files. Two reads of a table are equal, so that Spark finds rows
 * in memory (CachedQuery).
 */
class LogRelation extends BaseRelation implements CatalystScan, InsertableRelation {
    private final SQLContext context;
    private final Function<Object, Object> table;
    private final StructType type;
    private final long size;

    /** The options of the table and what else decides which rows it has. */
    private final List<Object> identity;

    /** The version of each scan, as an id of the table with a number. */
    private final Map<RDD<?>, Object> versions =
            Collections.synchronizedMap(new WeakHashMap<RDD<?>, Object>());

    LogRelation(
            SQLContext context, Function<Object, Object> table, Map<String, String> options) {
        this.context = context;
        this.table = table;
        this.type = (StructType) DataType.fromJson((String) Python.ask(table, "schema"));
        this.size = Long.parseLong((String) Python.ask(table, "size"));
        this.identity = new ArrayList<>();
        identity.add(new HashMap<>(options));
        identity.add(type);
        identity.add(context.getConf("spark.sql.session.timeZone"));
    }

    /** Returns rows in Spark's internal form: `needConversion` says so. */
    @Override
    @SuppressWarnings("unchecked")
    public RDD<Row> buildScan(Seq<Attribute> columns, Seq<Expression> filters) {
        Object[] opened = (Object[]) Python.ask(table, "rows");
        org.apache.spark.sql.classic.Dataset<Row> rows =
                (org.apache.spark.sql.classic.Dataset<Row>) opened[1];
        LogicalPlan plan = rows.queryExecution().analyzed();
        ColumnsByName read = new ColumnsByName(type, plan.output());
        for (Expression filter : CollectionConverters.asJava(filters)) {
            if (filter.deterministic() && !SubqueryExpression.hasSubquery(filter)) {
                plan = new Filter((Expression) filter.transformUp(read), plan);
            }
        }
        plan = new Project(selected(columns, read), plan);
        SparkSession session = (SparkSession) context.sparkSession();
        Object scanned =
                org.apache.spark.sql.classic.Dataset.ofRows(session, plan)
                        .queryExecution()
                        .toRdd();
        versions.put((RDD<?>) scanned, opened[0]);
        return (RDD<Row>) scanned;
    }

    /** Returns the version that a scan of this relation reads; the rows are never older. */
    Object versionOf(RDD<?> scanned) {
        return versions.get(scanned);
    }

    /** Returns the version that a scan would read. */
    Object newestVersion() {
        return Python.ask(table, "version");
    }

    private static Seq<NamedExpression> selected(Seq<Attribute> columns, ColumnsByName read) {
        List<NamedExpression> selected = new ArrayList<>();
        for (Attribute column : CollectionConverters.asJava(columns)) {
            selected.add(read.find(column));
        }
        return CollectionConverters.asScala(selected).toSeq();
    }

    @Override
    public SQLContext sqlContext() {
        return context;
    }

    @Override
    public StructType schema() {
        return type;
    }

    @Override
    public long sizeInBytes() {
        return size;
    }

    @Override
    public boolean needConversion() {
        return false;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof LogRelation && identity.equals(((LogRelation) other).identity);
    }

    @Override
    public int hashCode() {
        return identity.hashCode();
    }

    /** Refuses with a sentence that names a way, which Spark's own does not. */
    @Override
    public void insert(Dataset<Row> rows, boolean overwrite) {
        throw Python.refuseWrite();
    }

    @Override
    public String toString() {
        return "delta";
    }
}
