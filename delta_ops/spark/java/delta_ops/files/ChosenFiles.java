package delta_ops.files;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of some groups. The base class applies the filters of Spark's metadata of files.
 *
 * <p>Every listing checks that nothing else leaves a file out.
 */
class ChosenFiles extends PartitioningAwareFileIndex {
    private final LogFiles files;
    private final List<Integer> groups;
    private final LinkedHashMap<Path, FileStatus> byPath = new LinkedHashMap<>();
    private final scala.collection.immutable.Map<Path, FileStatus[]> byPartition;
    private final PartitionSpec spec;
    private final Path root;

    ChosenFiles(
            SparkSession session,
            scala.collection.immutable.Map<String, String> options,
            StructType partitionSchema,
            Path root,
            LogFiles files,
            List<Integer> groups) {
        super(session, options, Option.empty(), NoopCache$.MODULE$);
        this.files = files;
        this.groups = groups;
        this.root = root;
        List<PartitionPath> partitions = new ArrayList<>();
        LinkedHashMap<Path, FileStatus[]> statusesByPartition = new LinkedHashMap<>();
        for (int group : groups) {
            FileStatus[] statuses = files.statuses(group);
            if (partitionSchema.isEmpty()) {
                for (FileStatus status : statuses) {
                    byPath.put(status.getPath(), status);
                }
            } else {
                Path key = new GroupPath(root.toUri(), group);
                statusesByPartition.put(key, statuses);
                partitions.add(new PartitionPath(files.values(group), key));
            }
        }
        byPartition = statusesByPartition.toMap(null); // Spark reads it once for each partition
        spec = new PartitionSpec(partitionSchema, LogFileIndex.scalaSeq(partitions));
    }

    @Override
    public Seq<PartitionDirectory> listFiles(
            Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<PartitionDirectory> listed = list(partitionFilters, dataFilters);
        boolean isWhole = dataFilters.isEmpty() || numFiles(listed) == numFiles();
        requireAll(isWhole ? listed : list(partitionFilters, LogFileIndex.noFilters()));
        return LogFileIndex.scalaSeq(listed);
    }

    private List<PartitionDirectory> list(
            Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<PartitionDirectory> listed = new ArrayList<>();
        Seq<PartitionDirectory> visible = super.listFiles(partitionFilters, dataFilters);
        int i = 0;
        for (PartitionDirectory directory : CollectionConverters.asJava(visible)) {
            int group = (Integer) groups.get(i++);
            if (!spec.partitionColumns().isEmpty() && directory.values() != files.values(group)) {
                throw new IllegalStateException("Spark would list partitions in another order");
            }
            listed.add(withHidden(directory, hiddenFiles(group)));
        }
        return listed;
    }

    /** Returns the files that the base class leaves out because of their names. */
    private List<FileStatus> hiddenFiles(int group) {
        List<FileStatus> hidden = new ArrayList<>();
        for (FileStatus status : files.statuses(group)) {
            String name = status.getPath().getName();
            if (name.startsWith("_") || name.startsWith(".")) {
                hidden.add(status);
            }
        }
        return hidden;
    }

    private static PartitionDirectory withHidden(
            PartitionDirectory directory, List<FileStatus> hidden) {
        if (hidden.isEmpty()) {
            return directory;
        }
        List<FileStatusWithMetadata> listed = new ArrayList<>();
        Set<Path> paths = new HashSet<>();
        for (FileStatusWithMetadata file : CollectionConverters.asJava(directory.files())) {
            listed.add(file);
            paths.add(file.getPath());
        }
        for (FileStatus file : hidden) {
            if (!paths.contains(file.getPath())) {
                listed.add(
                        new FileStatusWithMetadata(
                                file, FileStatusWithMetadata.apply$default$2()));
            }
        }
        return new PartitionDirectory(directory.values(), LogFileIndex.scalaSeq(listed));
    }

    private void requireAll(List<PartitionDirectory> listed) {
        if (numFiles(listed) != numFiles()) {
            throw new IllegalStateException(
                    "Spark would scan " + numFiles(listed) + " of " + numFiles() + " files");
        }
    }

    private static int numFiles(List<PartitionDirectory> listed) {
        int found = 0;
        for (PartitionDirectory directory : listed) {
            found += directory.files().size();
        }
        return found;
    }

    private int numFiles() {
        int all = 0;
        for (int group : groups) {
            all += files.numFiles(group);
        }
        return all;
    }

    @Override
    public Seq<FileStatus> allFiles() {
        return (Seq<FileStatus>) byPath.values().toSeq();
    }

    @Override
    public LinkedHashMap<Path, FileStatus> leafFiles() {
        return byPath;
    }

    @Override
    public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
        return byPartition;
    }

    @Override
    public PartitionSpec partitionSpec() {
        return spec;
    }

    @Override
    public Seq<Path> rootPaths() {
        return LogFileIndex.scalaSeq(Collections.singletonList(root));
    }

    @Override
    public void refresh() {}
}
