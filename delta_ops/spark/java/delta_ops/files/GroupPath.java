package delta_ops.files;

import java.net.URI;
import org.apache.hadoop.fs.Path;

/** A made-up path of a group. Groups share one place, and differ by their numbers. */
class GroupPath extends Path {
    private static final long serialVersionUID = 1L;

    private final int group;

    GroupPath(URI root, int group) {
        super(root);
        this.group = group;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof GroupPath && ((GroupPath) other).group == group;
    }

    @Override
    public int hashCode() {
        return group;
    }
}
