package delta_ops.files;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Makes relations of exactly the files that it is given. */
public class LogRelations {
    private static final int VERIFIED_GROUPS = 1000;

    /** Reads the columns of files from a local file. */
    public HadoopFsRelation relation(SparkSession session, String json, String columnsFile)
            throws IOException {
        return relation(session, json, Files.readAllBytes(Paths.get(columnsFile)));
    }

    /**
     * Returns a relation, after a check that Spark would scan all files of the first groups.
     *
     * @param json the root, the common prefix of paths, the schemas of files and of partitions,
     *     options of the Parquet reader, whether names of columns match without regard to case,
     *     and the name of the column of row numbers or null
     * @param columns the files and partition values, see {@link LogFiles}
     */
    public HadoopFsRelation relation(SparkSession session, String json, byte[] columns)
            throws IOException {
        Map<?, ?> request = (Map<?, ?>) new ObjectMapper().readValue(json, Map.class);
        scala.collection.immutable.Map<String, String> options = optionsOf(request);
        StructType partitionSchema = schemaIn(request, "partitions");
        String root = (String) request.get("root");
        LogFiles files = new LogFiles((String) request.get("prefix"), partitionSchema, columns);
        int numGroups = files.numGroups();
        LogFileIndex index =
                new LogFileIndex(session, options, partitionSchema, root, files, numGroups);
        LogFileIndex first = index;
        if (numGroups > VERIFIED_GROUPS) { // the files of others are verified when Spark lists them
            first =
                    new LogFileIndex(
                            session, options, partitionSchema, root, files, VERIFIED_GROUPS);
        }
        first.verify();
        boolean foldsCase = ((Boolean) request.get("folds_case")).booleanValue();
        return new HadoopFsRelation(
                index,
                partitionSchema,
                dataSchemaIn(request),
                Option.empty(),
                new LogParquetFormat(),
                options,
                foldsCase ? foldingCase(session) : session);
    }

    /** Returns a relation of the same files, whose planner leaves files out of a query. */
    public HadoopFsRelation planned(HadoopFsRelation all, Function<Object, Object> planner) {
        return new HadoopFsRelation(
                new LogFileIndex((LogFileIndex) all.location(), planner),
                all.partitionSchema(),
                all.dataSchema(),
                all.bucketSpec(),
                all.fileFormat(),
                all.options(),
                (SparkSession) all.sparkSession());
    }

    @SuppressWarnings("unchecked")
    private static scala.collection.immutable.Map<String, String> optionsOf(Map<?, ?> request) {
        return PythonUtils.toScalaMap((Map<String, String>) request.get("options"));
    }

    private static StructType schemaIn(Map<?, ?> request, String name) {
        return (StructType) DataType.fromJson((String) request.get(name));
    }

    private static StructType dataSchemaIn(Map<?, ?> request) {
        StructType schema = schemaIn(request, "data");
        String row = (String) request.get("row");
        if (row == null) {
            return schema;
        }
        if (!row.equals(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME())) {
            throw new IllegalStateException("Spark has another name for the column of row numbers");
        }
        return schema.add(row, DataTypes.LongType, true);
    }

    private static SparkSession foldingCase(SparkSession session) {
        if (!session.sessionState().conf().caseSensitiveAnalysis()) {
            return session;
        }
        SparkSession folding = session.cloneSession();
        folding.sessionState().conf().setConfString("spark.sql.caseSensitive", "false");
        return folding;
    }
}
