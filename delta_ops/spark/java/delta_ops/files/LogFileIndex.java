package delta_ops.files;

import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import py4j.Py4JException;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of a snapshot as Spark's file index.
 *
 * <p>The base class chooses partitions here, where no partition has files. The files of the chosen
 * groups come from {@link ChosenFiles}. A planner leaves out files without a row that passes the
 * filters of a query.
 */
class LogFileIndex extends PartitioningAwareFileIndex {
    private final SparkSession session;
    private final scala.collection.immutable.Map<String, String> options;
    private final LogFiles files;
    private final Map<InternalRow, Integer> groupByValues;
    private final Function<Object, Object> planner;
    private final scala.collection.immutable.Map<Path, FileStatus[]> noFiles =
            new LinkedHashMap<Path, FileStatus[]>().toMap(null);
    private final Path root;
    private final int numGroups;
    private final PartitionSpec spec;

    /**
     * Makes the index.
     *
     * @param numGroups the groups that it has, the first ones
     */
    LogFileIndex(
            SparkSession session,
            scala.collection.immutable.Map<String, String> options,
            StructType partitionSchema,
            String root,
            LogFiles files,
            int numGroups) {
        super(session, options, Option.empty(), NoopCache$.MODULE$);
        this.session = session;
        this.options = options;
        this.files = files;
        this.root = new Path(root);
        this.numGroups = numGroups;
        planner = null;
        groupByValues = new IdentityHashMap<>();
        List<PartitionPath> partitions = new ArrayList<>();
        for (int i = 0; i < numGroups; i++) {
            groupByValues.put(files.values(i), Integer.valueOf(i));
            partitions.add(new PartitionPath(files.values(i), this.root));
        }
        spec = new PartitionSpec(partitionSchema, scalaSeq(partitions));
    }

    /**
     * Makes an index of the same files for one query.
     *
     * @param planner returns the numbers of the files to read as the bytes of a bit set, for
     *     filters in the form of {@link FilterTree}; null for all files
     */
    LogFileIndex(LogFileIndex all, Function<Object, Object> planner) {
        super(all.session, all.options, Option.empty(), NoopCache$.MODULE$);
        session = all.session;
        options = all.options;
        files = all.files;
        root = all.root;
        numGroups = all.numGroups;
        groupByValues = all.groupByValues;
        spec = all.spec;
        this.planner = planner;
    }

    @Override
    public Seq<PartitionDirectory> listFiles(
            Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<Integer> groups = groupsFor(partitionFilters);
        if (planner == null || dataFilters.isEmpty()) {
            return listGroups(files, groups, dataFilters);
        }
        BitSet planned = plan(partitionFilters, dataFilters);
        if (planned == null) {
            return listGroups(files, groups, dataFilters);
        }
        LogFiles some = new LogFiles(files, planned);
        List<Integer> left = new ArrayList<>();
        boolean isPartitioned = !spec.partitionColumns().isEmpty();
        for (Integer group : groups) { // Spark lists the group of an unpartitioned table if empty
            if (!isPartitioned || some.numFiles(group.intValue()) > 0) {
                left.add(group);
            }
        }
        return listGroups(some, left, dataFilters);
    }

    /** Calls the planner; returns null for all files. */
    private BitSet plan(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        Object answer;
        try {
            if (FilterTree.json(dataFilters) == null) {
                return null;
            }
            List<Expression> filters = new ArrayList<>();
            filters.addAll(CollectionConverters.asJava(partitionFilters));
            filters.addAll(CollectionConverters.asJava(dataFilters));
            answer = planner.apply(FilterTree.json(scalaSeq(filters)));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        } catch (Py4JException error) { // Python has ended, or does not accept calls
            return null;
        }
        if (answer instanceof RuntimeException) {
            throw (RuntimeException) answer;
        }
        return answer == null ? null : BitSet.valueOf((byte[]) answer);
    }

    private List<Integer> groupsFor(Seq<Expression> partitionFilters) {
        List<Integer> groups = new ArrayList<>();
        if (spec.partitionColumns().isEmpty()) {
            for (int i = 0; i < numGroups; i++) {
                groups.add(Integer.valueOf(i));
            }
            return groups;
        }
        Seq<PartitionDirectory> chosen = super.listFiles(partitionFilters, noFilters());
        for (PartitionDirectory directory : CollectionConverters.asJava(chosen)) {
            groups.add((Integer) groupByValues.get(directory.values()));
        }
        return groups;
    }

    private Seq<PartitionDirectory> listGroups(
            LogFiles listed, List<Integer> groups, Seq<Expression> dataFilters) {
        ChosenFiles chosen =
                new ChosenFiles(session, options, spec.partitionColumns(), root, listed, groups);
        return chosen.listFiles(noFilters(), dataFilters);
    }

    /** Checks that a scan without filters would open all files of all groups. */
    void verify() {
        List<Integer> groups = groupsFor(noFilters());
        if (groups.size() != numGroups) {
            throw new IllegalStateException("Spark would leave partitions out");
        }
        listGroups(files, groups, noFilters());
    }

    static Seq<Expression> noFilters() {
        return scalaSeq(new ArrayList<Expression>());
    }

    static <T> Seq<T> scalaSeq(List<T> list) {
        return (Seq<T>) CollectionConverters.asScala(list).toSeq();
    }

    @Override
    public LinkedHashMap<Path, FileStatus> leafFiles() {
        LinkedHashMap<Path, FileStatus> byPath = new LinkedHashMap<>();
        for (int group = 0; group < numGroups; group++) {
            for (FileStatus status : files.statuses(group)) {
                byPath.put(status.getPath(), status);
            }
        }
        return byPath;
    }

    @Override
    public Seq<FileStatus> allFiles() {
        return (Seq<FileStatus>) leafFiles().values().toSeq();
    }

    @Override
    public long sizeInBytes() {
        return files.sizeInBytes();
    }

    @Override
    public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
        return noFiles;
    }

    @Override
    public PartitionSpec partitionSpec() {
        return spec;
    }

    @Override
    public Seq<Path> rootPaths() {
        return scalaSeq(Collections.singletonList(root));
    }

    @Override
    public void refresh() {}

    /** Indexes of the same files are equal, so that Spark finds rows in memory. */
    @Override
    public boolean equals(Object other) {
        return other instanceof LogFileIndex && ((LogFileIndex) other).spec == spec;
    }

    @Override
    public int hashCode() {
        return System.identityHashCode(spec);
    }
}
