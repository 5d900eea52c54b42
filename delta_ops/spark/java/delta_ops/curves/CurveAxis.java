package delta_ops.curves;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.unsafe.types.ByteArray;

/** Ranks the values of one column. The code that Spark generates for a stage calls it. */
public class CurveAxis implements Serializable {
    private static final long serialVersionUID = 1L;

    private long[] numbers;
    private double[] doubles;
    private byte[][] texts;
    private final int[] ranks;

    /**
     * Reads the bounds.
     *
     * @param kind the method that ranks values; it decides how the bounds are stored: longs,
     *     doubles, or the length and the bytes of each text
     * @param ranks the rank below the first bound, then from each bound on
     */
    CurveAxis(String kind, ByteBuffer bounds, int[] ranks) {
        this.ranks = ranks;
        int length = ranks.length - 1;
        if (kind.equals("ofNumber")) {
            numbers = new long[length];
            bounds.asLongBuffer().get(numbers);
        } else if (kind.equals("ofDouble")) {
            doubles = new double[length];
            bounds.asDoubleBuffer().get(doubles);
        } else {
            texts = texts(bounds, length);
        }
    }

    private static byte[][] texts(ByteBuffer bounds, int length) {
        byte[][] texts = new byte[length][];
        for (int i = 0; i < length; i++) {
            texts[i] = new byte[bounds.getInt()];
            bounds.get(texts[i]);
        }
        return texts;
    }

    public int ofNumber(long value) {
        return rankAt(Arrays.binarySearch(numbers, value));
    }

    public int ofDouble(double value) {
        return rankAt(Arrays.binarySearch(doubles, value + 0.0)); // -0.0 becomes 0.0
    }

    public int ofText(byte[] value) {
        int low = 0;
        int high = texts.length;
        while (low < high) {
            int middle = low + high >>> 1;
            if (ByteArray.compareBinary(texts[middle], value) <= 0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return ranks[low];
    }

    private int rankAt(int found) {
        return ranks[found >= 0 ? found + 1 : -found - 1];
    }

    @Override
    public String toString() {
        return "ranks";
    }
}
