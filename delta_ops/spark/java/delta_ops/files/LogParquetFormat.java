package delta_ops.files;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's Parquet reader, without the filters by which it would skip row groups with matching rows.
 *
 * <p>Spark takes NaN for the greatest number, but most writers leave it out of the bounds of a row
 * group. A dictionary has -0.0 apart from 0.0. Text that is not UTF-8 reaches the reader as U+FFFD.
 * Spark evaluates all filters again for rows.
 */
class LogParquetFormat extends ParquetFileFormat {
    private static final long serialVersionUID = 1L;
    private static final String REPLACEMENT = "\ufffd";

    /** The reader belongs to Spark's class, because executors do not have this class. */
    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession session,
            StructType dataSchema,
            StructType partitionSchema,
            StructType requiredSchema,
            Seq<Filter> filters,
            scala.collection.immutable.Map<String, String> options,
            Configuration configuration) {
        return new ParquetFileFormat()
                .buildReaderWithPartitionValues(
                        session,
                        dataSchema,
                        partitionSchema,
                        requiredSchema,
                        safeFilters(filters, dataSchema),
                        options,
                        configuration);
    }

    private static Seq<Filter> safeFilters(Seq<Filter> filters, StructType schema) {
        List<Filter> safe = new ArrayList<>();
        for (Filter filter : CollectionConverters.asJava(filters)) {
            if (isSafe(filter, schema)) {
                safe.add(filter);
            }
        }
        return LogFileIndex.scalaSeq(safe);
    }

    private static boolean isSafe(Filter filter, StructType schema) {
        if (filter instanceof IsNull || filter instanceof IsNotNull) {
            return true;
        }
        for (String reference : filter.references()) {
            for (StructField field : schema.fields()) {
                if (hasFractions(field) && isWithin(reference, field.name())) {
                    return false;
                }
            }
        }
        return !filter.toString().contains(REPLACEMENT);
    }

    private static boolean hasFractions(StructField field) {
        String type = field.dataType().sql();
        return type.contains("FLOAT") || type.contains("DOUBLE");
    }

    /** Whether a name as Spark quotes it is a column or one of its fields. */
    private static boolean isWithin(String reference, String column) {
        String quoted = "`" + column.replace("`", "``") + "`";
        return reference.equals(column)
                || reference.startsWith(column + ".")
                || reference.equals(quoted)
                || reference.startsWith(quoted + ".");
    }
}
