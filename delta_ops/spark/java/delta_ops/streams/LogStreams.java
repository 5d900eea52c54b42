package delta_ops.streams;

import java.util.function.Function;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Makes streaming DataFrames of tables. */
public class LogStreams {
    /**
     * Returns the rows of a table as a stream.
     *
     * @param name what Spark shows of the source
     * @param schema the columns, JSON
     * @param open opens the table for a query, see {@link LogSource#ask}
     */
    public Dataset<Row> stream(
            SparkSession session, String name, String schema, Function<Object, Object> open) {
        StructType type = (StructType) DataType.fromJson(schema);
        LogDataSource source = new LogDataSource(session, name, type, open);
        return Dataset.ofRows(session, source.relation(name, Relations.attributes(type)));
    }
}
