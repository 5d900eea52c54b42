package delta_ops.files;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** A column of texts as their bytes; a text is made when it is needed. */
class PackedTexts {
    private final byte[] bytes;
    private final int[] ends;
    private final boolean[] isNull;

    /** Reads the number of texts, the length of each or -1 for null, and the bytes of all. */
    PackedTexts(ByteBuffer rest) {
        ends = new int[rest.getInt()];
        isNull = new boolean[ends.length];
        int end = 0;
        for (int i = 0; i < ends.length; i++) {
            int length = rest.getInt();
            isNull[i] = length < 0;
            end += Math.max(length, 0);
            ends[i] = end;
        }
        bytes = new byte[end];
        rest.get(bytes);
    }

    String get(int i) {
        if (isNull[i]) {
            return null;
        }
        int start = i == 0 ? 0 : ends[i - 1];
        return new String(bytes, start, ends[i] - start, StandardCharsets.UTF_8);
    }
}
