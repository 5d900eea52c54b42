package delta_ops.curves;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * Finds places on a Z-order or Hilbert curve. The code that Spark generates for a stage calls it.
 *
 * <p>Source of the Hilbert curve: J. Skilling, "Programming the Hilbert curve", 2004.
 */
public class CurvePlaces implements Serializable {
    private static final long serialVersionUID = 1L;

    private final boolean isHilbert;
    private final int bits;

    CurvePlaces(boolean isHilbert, int bits) {
        this.isHilbert = isHilbert;
        this.bits = bits;
    }

    public long place(ArrayData ranks) {
        int[] axes = new int[ranks.numElements()];
        for (int i = 0; i < axes.length; i++) {
            axes[i] = ranks.getInt(i);
        }
        if (isHilbert && axes.length > 1) {
            turn(axes);
        }
        return interleave(axes) ^ Long.MIN_VALUE; // unsigned order becomes signed order
    }

    private long interleave(int[] axes) {
        long place = 0;
        for (int bit = bits - 1; bit >= 0; bit--) {
            for (int axis : axes) {
                place = place << 1 | axis >>> bit & 1;
            }
        }
        return place;
    }

    /** Turns ranks so that their interleaved bits are a place on the Hilbert curve. */
    private void turn(int[] axes) {
        for (int bit = bits - 1; bit > 0; bit--) {
            turnBelow(axes, bit);
        }
        for (int i = 1; i < axes.length; i++) {
            axes[i] ^= axes[i - 1];
        }
        int turned = 0;
        for (int bit = bits - 1; bit > 0; bit--) {
            if ((axes[axes.length - 1] >>> bit & 1) != 0) {
                turned ^= (1 << bit) - 1;
            }
        }
        for (int i = 0; i < axes.length; i++) {
            axes[i] ^= turned;
        }
    }

    private static void turnBelow(int[] axes, int bit) {
        int lower = (1 << bit) - 1;
        for (int i = 0; i < axes.length; i++) {
            if ((axes[i] >>> bit & 1) != 0) {
                axes[0] ^= lower;
            } else {
                int swapped = (axes[0] ^ axes[i]) & lower;
                axes[0] ^= swapped;
                axes[i] ^= swapped;
            }
        }
    }

    @Override
    public String toString() {
        return "places";
    }
}
