package delta_ops.vectors;

import java.util.Map;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/** 65,536 successive rows of a file, with a bit for each row that the vector names. */
class VectorBlock {
    private static final int ROW_BITS = 16;
    private static final int ROWS = 1 << ROW_BITS;
    private static final int WORDS = ROWS / Long.SIZE;

    final long file;
    final Map<Integer, RoaringBitmap> bitmaps;
    private final long number;
    private final long[] words = new long[WORDS];

    /** Makes the block of a file that holds a row. */
    VectorBlock(long file, long row, Map<Integer, RoaringBitmap> bitmaps) {
        this.file = file;
        this.number = row >>> ROW_BITS;
        this.bitmaps = bitmaps;
        Integer high = Integer.valueOf((int) (row >>> Integer.SIZE));
        RoaringBitmap bitmap = (RoaringBitmap) bitmaps.get(high);
        if (bitmap != null) {
            spread(bitmap);
        }
    }

    private void spread(RoaringBitmap bitmap) {
        int first = (int) number << ROW_BITS;
        PeekableIntIterator rows = bitmap.getIntIterator();
        rows.advanceIfNeeded(first);
        while (rows.hasNext()) {
            int row = rows.next();
            if ((row & -ROWS) != first) {
                return;
            }
            words[wordOf(row)] |= 1L << row;
        }
    }

    boolean holds(long file, long row) {
        return this.file == file && number == row >>> ROW_BITS;
    }

    boolean isNamed(long row) {
        return (words[wordOf(row)] >>> row & 1L) != 0;
    }

    private static int wordOf(long row) {
        return (int) (row >>> 6) & WORDS - 1;
    }
}
