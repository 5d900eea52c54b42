package delta;

import java.net.URI;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The provider "delta" of Spark's SQL, which reads tables and refuses all else.
 *
 * <p>Spark finds the class by this name. It takes the class for a format of files where a query
 * names a path and no catalog has the name "delta"; all methods of a format refuse.
 */
public class DefaultSource
        implements RelationProvider,
                SchemaRelationProvider,
                CreatableRelationProvider,
                FileFormat,
                DataSourceRegister {
    private static final String OPENS_ENTRIES =
            "org.apache.spark.sql.execution.datasources.FindDataSourceTable";

    /** Spark calls it by reflection. */
    public DefaultSource() {}

    /** Sets what answers for Python; null withdraws the provider. */
    public void use(Function<Object, Object> answers) {
        Python.answers = answers;
    }

    /** Refuses statements on Delta tables in this session, and in sessions that begin later. */
    public void guard(SparkSession session) {
        StatementGuard.watch((org.apache.spark.sql.classic.SparkSession) session);
    }

    /**
     * Adds a table to the catalog of a session.
     *
     * @param place the location of an external table; null for a table whose files Spark owns
     * @param columns a copy of the table's columns, as JSON
     */
    public void addTable(
            SparkSession session, String database, String table, String place, String columns)
            throws ReflectiveOperationException {
        TableIdentifier name = new TableIdentifier(table, Option.apply(database));
        URI location = place == null ? null : CatalogUtils.stringToURI(place);
        StructType type = (StructType) DataType.fromJson(columns);
        ((org.apache.spark.sql.classic.SparkSession) session)
                .sessionState()
                .catalog()
                .createTable(CatalogTables.named(name, location, type), false, false);
    }

    /**
     * Runs a query that names the ids of rows.
     *
     * @param open opens the table of a name, see RowIds
     * @return the rows; null if the query has no table with such ids
     */
    public Dataset<Row> queryWithRowIds(
            SparkSession session, String text, Function<Object, Object> open)
            throws ParseException {
        return RowIds.query((org.apache.spark.sql.classic.SparkSession) session, text, open);
    }

    @Override
    public String shortName() {
        return "delta";
    }

    @Override
    public BaseRelation createRelation(SQLContext context, Map<String, String> options) {
        return createRelation(context, options, null);
    }

    @Override
    public BaseRelation createRelation(
            SQLContext context, Map<String, String> options, StructType known) {
        java.util.Map<String, String> given = CollectionConverters.asJava(options);
        StructType columns = isOfCatalog() ? null : known;
        Function<Object, Object> table = Python.open(context.sparkSession(), given, columns);
        return new LogRelation(context, table, given);
    }

    /** Whether Spark opens a table of the catalog; its entry has a copy of former columns. */
    private static boolean isOfCatalog() {
        for (StackTraceElement call : Thread.currentThread().getStackTrace()) {
            if (call.getClassName().startsWith(OPENS_ENTRIES)) {
                return true;
            }
        }
        return false;
    }

    @Override
    public BaseRelation createRelation(
            SQLContext context, SaveMode mode, Map<String, String> options, Dataset<Row> rows) {
        throw Python.refuseWrite();
    }

    @Override
    public Option<StructType> inferSchema(
            SparkSession session, Map<String, String> options, Seq<FileStatus> files) {
        throw Python.refuseWrite();
    }

    @Override
    public OutputWriterFactory prepareWrite(
            SparkSession session, Job job, Map<String, String> options, StructType schema) {
        throw Python.refuseWrite();
    }

    @Override
    public String toString() {
        return "delta";
    }
}
