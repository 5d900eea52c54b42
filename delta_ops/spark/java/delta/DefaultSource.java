package delta;

import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
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
        Function<Object, Object> table = Python.open(context.sparkSession(), given, known);
        return new LogRelation(context, table, given);
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
