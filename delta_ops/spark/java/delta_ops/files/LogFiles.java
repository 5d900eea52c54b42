package delta_ops.files;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.BitSet;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Files as columns, group by group; the files of a group have the same partition values.
 *
 * <p>A status is made when Spark first needs its group: a filter that chooses a few of many
 * partitions makes the statuses of these alone.
 */
class LogFiles {
    private static final int REPLICATION = 1;
    private static final long BLOCK_BYTES = 128L << 20;

    private final String prefix;
    private final int[] starts;
    private final PackedTexts names;
    private final long[] sizes;
    private final long[] modified;
    private final InternalRow[] values;
    private final FileStatus[][] statuses;
    private final BitSet kept;

    /**
     * Reads the columns.
     *
     * @param prefix the common prefix of the paths
     * @param schema the partition columns
     * @param columns the number of files of each group; the rest of the path, the size in bytes and
     *     the modification time in milliseconds of each file; of each partition column, the value
     *     of each group. All little endian, before each column its length.
     */
    LogFiles(String prefix, StructType schema, byte[] columns) {
        ByteBuffer rest = ByteBuffer.wrap(columns).order(ByteOrder.LITTLE_ENDIAN);
        this.prefix = prefix;
        starts = startsOf(numbers(rest));
        names = new PackedTexts(rest);
        sizes = numbers(rest);
        modified = numbers(rest);
        values = valuesOf(schema, rest, starts.length - 1);
        statuses = new FileStatus[values.length][];
        kept = null;
    }

    /** Keeps some of the files, by their numbers, in the same groups. */
    LogFiles(LogFiles all, BitSet kept) {
        prefix = all.prefix;
        starts = all.starts;
        names = all.names;
        sizes = all.sizes;
        modified = all.modified;
        values = all.values;
        statuses = new FileStatus[values.length][];
        this.kept = kept;
    }

    private static long[] numbers(ByteBuffer rest) {
        long[] numbers = new long[rest.getInt()];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = rest.getLong();
        }
        return numbers;
    }

    private static int[] startsOf(long[] counts) {
        int[] starts = new int[counts.length + 1];
        for (int i = 0; i < counts.length; i++) {
            starts[i + 1] = starts[i] + (int) counts[i];
        }
        return starts;
    }

    private static InternalRow[] valuesOf(StructType schema, ByteBuffer rest, int numGroups) {
        PackedTexts[] texts = new PackedTexts[schema.length()];
        for (int j = 0; j < texts.length; j++) {
            texts[j] = new PackedTexts(rest);
        }
        InternalRow[] values = new InternalRow[numGroups];
        for (int i = 0; i < numGroups; i++) {
            Object[] row = new Object[texts.length];
            for (int j = 0; j < row.length; j++) {
                row[j] = value(texts[j].get(i), schema.apply(j).dataType());
            }
            values[i] = new GenericInternalRow(row);
        }
        return values;
    }

    private static Object value(String text, DataType type) {
        if (text == null) {
            return null;
        } else if (type.equals(DataTypes.StringType)) {
            return UTF8String.fromString(text);
        } else if (type.equals(DataTypes.BinaryType)) {
            return bytes(text);
        } else if (type.equals(DataTypes.BooleanType)) {
            return Boolean.valueOf(text);
        } else if (type.equals(DataTypes.ByteType)) {
            return Byte.valueOf(text);
        } else if (type.equals(DataTypes.ShortType)) {
            return Short.valueOf(text);
        } else if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
            return Integer.valueOf(text);
        } else if (isLong(type)) {
            return Long.valueOf(text);
        } else if (type.equals(DataTypes.FloatType)) {
            return Float.valueOf(text);
        } else if (type.equals(DataTypes.DoubleType)) {
            return Double.valueOf(text);
        } else if (type instanceof DecimalType) {
            DecimalType decimal = (DecimalType) type;
            return Decimal.apply(new BigDecimal(text), decimal.precision(), decimal.scale());
        }
        throw new IllegalArgumentException("no partition values of type " + type.catalogString());
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static boolean isLong(DataType type) {
        return type.equals(DataTypes.LongType)
                || type.equals(DataTypes.TimestampType)
                || type.equals(DataTypes.TimestampNTZType);
    }

    int numGroups() {
        return values.length;
    }

    int numFiles(int group) {
        if (kept == null) {
            return starts[group + 1] - starts[group];
        }
        return kept.get(starts[group], starts[group + 1]).cardinality();
    }

    InternalRow values(int group) {
        return values[group];
    }

    long sizeInBytes() {
        long sum = 0;
        for (long size : sizes) {
            sum += size;
        }
        return sum;
    }

    FileStatus[] statuses(int group) {
        FileStatus[] known = statuses[group];
        if (known != null) {
            return known;
        }
        FileStatus[] made = new FileStatus[numFiles(group)];
        int file = starts[group];
        for (int i = 0; i < made.length; i++) {
            file = kept == null ? file : kept.nextSetBit(file);
            made[i] = status(file++);
        }
        statuses[group] = made;
        return made;
    }

    private FileStatus status(int file) {
        Path path = new Path(prefix + names.get(file));
        return new FileStatus(sizes[file], false, REPLICATION, BLOCK_BYTES, modified[file], path);
    }
}
