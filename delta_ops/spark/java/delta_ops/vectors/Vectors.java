package delta_ops.vectors;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.broadcast.Broadcast;
import org.roaringbitmap.RoaringBitmap;

/**
 * The deletion vectors of a scan. The code that Spark generates for a stage calls it for each row.
 *
 * <p>A task decodes the vector of the file that it reads, and spreads one block of it at a time.
 */
public class Vectors implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Broadcast<byte[][]> vectors;
    private transient VectorBlock block;

    Vectors(Broadcast<byte[][]> vectors) {
        this.vectors = vectors;
    }

    /** Returns whether the vector of a file names a row. */
    public boolean isNamed(long file, long row) throws IOException {
        // Threads of one executor share the object: each reads a block that is complete.
        VectorBlock known = block;
        if (known == null || !known.holds(file, row)) {
            known = new VectorBlock(file, row, bitmapsOf(file, known));
            block = known;
        }
        return known.isNamed(row);
    }

    private Map<Integer, RoaringBitmap> bitmapsOf(long file, VectorBlock known)
            throws IOException {
        if (known != null && known.file == file) {
            return known.bitmaps;
        }
        return decode(((byte[][]) vectors.value())[(int) file]);
    }

    /** Decodes a bitmap of 64 bits: for each high half of the row numbers, a bitmap of 32 bits. */
    private static Map<Integer, RoaringBitmap> decode(byte[] vector) throws IOException {
        DataInputStream rest = new DataInputStream(new ByteArrayInputStream(vector));
        Map<Integer, RoaringBitmap> bitmaps = new HashMap<>();
        for (long left = Long.reverseBytes(rest.readLong()); left > 0; left--) {
            Integer high = Integer.valueOf(Integer.reverseBytes(rest.readInt()));
            RoaringBitmap bitmap = new RoaringBitmap();
            bitmap.deserialize(rest);
            bitmaps.put(high, bitmap);
        }
        return bitmaps;
    }

    @Override
    public String toString() {
        return "deletion vectors";
    }
}
