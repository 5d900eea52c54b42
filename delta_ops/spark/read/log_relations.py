"""The Java class of the file index, see `file_index`.

Files come as columns, and become Spark's objects when Spark asks for them: a filter that chooses a
few of many partitions makes the paths of these alone.
"""

JAVA = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap;

public class LogRelations {
  private static final int FEW = 1000;

  public HadoopFsRelation relation(SparkSession session, String json, String files)
      throws Exception {
    return relation(session, json, java.nio.file.Files.readAllBytes(java.nio.file.Path.of(files)));
  }

  public HadoopFsRelation relation(SparkSession session, String json, byte[] files)
      throws Exception {
    Map given = (Map) new ObjectMapper().readValue(json, Map.class);
    StructType partitionSchema = (StructType) DataType.fromJson((String) given.get("partitions"));
    StructType dataSchema = (StructType) DataType.fromJson((String) given.get("data"));
    String row = (String) given.get("row");
    if (row != null) {
      if (!row.equals(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME())) {
        throw new IllegalStateException("Spark would tell the numbers of rows in another way");
      }
      dataSchema = dataSchema.add(row, DataTypes.LongType, true);
    }
    scala.collection.immutable.Map options =
        PythonUtils.toScalaMap((Map) given.get("options"));
    String root = (String) given.get("root");
    LogFiles all = new LogFiles((String) given.get("prefix"), partitionSchema, files);
    LogFileIndex index = new LogFileIndex(
        session, options, partitionSchema, root, all, all.numGroups());
    // Of many groups the first ones; the files of others when Spark lists them.
    (all.numGroups() <= FEW
        ? index
        : new LogFileIndex(session, options, partitionSchema, root, all, FEW)).verify();
    return new HadoopFsRelation(
        index, partitionSchema, dataSchema, Option.empty(), new ParquetFileFormat(), options,
        ((Boolean) given.get("folds_case")).booleanValue() ? foldingCase(session) : session);
  }

  private static SparkSession foldingCase(SparkSession session) {
    if (!session.sessionState().conf().caseSensitiveAnalysis()) return session;
    SparkSession folding = session.cloneSession();
    folding.sessionState().conf().setConfString("spark.sql.caseSensitive", "false");
    return folding;
  }
}

// The files as columns, group by group; what Spark asks for is made then.
class LogFiles {
  private final String prefix;
  private final int[] starts;
  private final Texts names;
  private final long[] sizes;
  private final long[] modified;
  private final InternalRow[] values;
  private final FileStatus[][] statuses;

  LogFiles(String prefix, StructType schema, byte[] sent) {
    ByteBuffer rest = ByteBuffer.wrap(sent).order(ByteOrder.LITTLE_ENDIAN);
    this.prefix = prefix;
    long[] counts = numbers(rest);
    names = new Texts(rest);
    sizes = numbers(rest);
    modified = numbers(rest);
    starts = new int[counts.length + 1];
    for (int i = 0; i < counts.length; i++) starts[i + 1] = starts[i] + (int) counts[i];
    Texts[] columns = new Texts[schema.length()];
    DataType[] types = new DataType[columns.length];
    for (int j = 0; j < columns.length; j++) {
      columns[j] = new Texts(rest);
      types[j] = schema.apply(j).dataType();
    }
    values = new InternalRow[counts.length];
    for (int i = 0; i < values.length; i++) {
      Object[] row = new Object[columns.length];
      for (int j = 0; j < row.length; j++) row[j] = value(columns[j].get(i), types[j]);
      values[i] = new GenericInternalRow(row);
    }
    statuses = new FileStatus[counts.length][];
  }

  private static long[] numbers(ByteBuffer rest) {
    long[] numbers = new long[rest.getInt()];
    for (int i = 0; i < numbers.length; i++) numbers[i] = rest.getLong();
    return numbers;
  }

  int numGroups() { return values.length; }
  int numFiles(int group) { return starts[group + 1] - starts[group]; }
  InternalRow values(int group) { return values[group]; }

  long size() {
    long size = 0;
    for (int i = 0; i < sizes.length; i++) size += sizes[i];
    return size;
  }

  FileStatus[] statuses(int group) {
    FileStatus[] known = statuses[group];
    if (known != null) return known;
    FileStatus[] made = new FileStatus[numFiles(group)];
    for (int i = 0; i < made.length; i++) {
      int file = starts[group] + i;
      Path path = new Path(prefix + names.get(file));
      made[i] = new FileStatus(sizes[file], false, 1, 128L << 20, modified[file], path);
    }
    statuses[group] = made;
    return made;
  }

  private static Object value(String text, DataType type) {
    if (text == null) return null;
    if (type.equals(DataTypes.StringType)) return UTF8String.fromString(text);
    if (type.equals(DataTypes.BinaryType)) return java.util.HexFormat.of().parseHex(text);
    if (type.equals(DataTypes.BooleanType)) return Boolean.valueOf(text);
    if (type.equals(DataTypes.ByteType)) return Byte.valueOf(text);
    if (type.equals(DataTypes.ShortType)) return Short.valueOf(text);
    if (type.equals(DataTypes.IntegerType)) return Integer.valueOf(text);
    if (type.equals(DataTypes.DateType)) return Integer.valueOf(text);
    if (type.equals(DataTypes.LongType)) return Long.valueOf(text);
    if (type.equals(DataTypes.TimestampType)) return Long.valueOf(text);
    if (type.equals(DataTypes.TimestampNTZType)) return Long.valueOf(text);
    if (type.equals(DataTypes.FloatType)) return Float.valueOf(text);
    if (type.equals(DataTypes.DoubleType)) return Double.valueOf(text);
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return Decimal.apply(
          new java.math.BigDecimal(text), decimal.precision(), decimal.scale());
    }
    throw new IllegalArgumentException("no partition values of type " + type.catalogString());
  }

}

class Texts {
  private final byte[] bytes;
  private final int[] ends;
  private final boolean[] isNull;

  Texts(ByteBuffer rest) {
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
    if (isNull[i]) return null;
    int start = i == 0 ? 0 : ends[i - 1];
    return new String(bytes, start, ends[i] - start, StandardCharsets.UTF_8);
  }
}

// A made-up path of a group: one place is enough, since keys are told apart by their numbers.
class GroupPath extends Path {
  private final int group;

  GroupPath(URI root, int group) {
    super(root);
    this.group = group;
  }

  public boolean equals(Object other) {
    return other instanceof GroupPath && ((GroupPath) other).group == group;
  }

  public int hashCode() { return group; }
}

// The base class chooses partitions here, and files in them by what Spark's metadata tells of them.
class LogFileIndex extends PartitioningAwareFileIndex {
  private final SparkSession session;
  private final scala.collection.immutable.Map options;
  private final LogFiles files;
  private final IdentityHashMap groupsByValues = new IdentityHashMap();
  private final scala.collection.immutable.Map noFiles = new LinkedHashMap().toMap(null);
  private final Path root;
  private final int numGroups;
  private final PartitionSpec spec;

  LogFileIndex(SparkSession session, scala.collection.immutable.Map options,
      StructType partitionSchema, String root, LogFiles files, int numGroups) {
    super(session, options, Option.empty(), NoopCache$.MODULE$);
    this.session = session;
    this.options = options;
    this.files = files;
    this.root = new Path(root);
    this.numGroups = numGroups;
    List partitions = new ArrayList();
    for (int i = 0; i < numGroups; i++) {
      groupsByValues.put(files.values(i), Integer.valueOf(i));
      partitions.add(new PartitionPath(files.values(i), this.root));
    }
    spec = new PartitionSpec(partitionSchema, JavaConverters.asScalaBuffer(partitions).toSeq());
  }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    return listGroups(choose(partitionFilters), dataFilters);
  }

  private List choose(Seq partitionFilters) {
    List groups = new ArrayList();
    if (spec.partitionColumns().isEmpty()) {
      for (int i = 0; i < numGroups; i++) groups.add(Integer.valueOf(i));
      return groups;
    }
    Iterator chosen = super.listFiles(partitionFilters, none()).iterator();
    while (chosen.hasNext()) {
      groups.add(groupsByValues.get(((PartitionDirectory) chosen.next()).values()));
    }
    return groups;
  }

  private Seq listGroups(List groups, Seq dataFilters) {
    ChosenFiles chosen =
        new ChosenFiles(session, options, spec.partitionColumns(), root, files, groups);
    return chosen.listFiles(none(), dataFilters);
  }

  void verify() {
    List groups = choose(none());
    if (groups.size() != numGroups) {
      throw new IllegalStateException("Spark would leave partitions out");
    }
    listGroups(groups, none());
  }

  private static Seq none() { return JavaConverters.asScalaBuffer(new ArrayList()).toSeq(); }

  public LinkedHashMap leafFiles() {
    LinkedHashMap byPath = new LinkedHashMap();
    for (int group = 0; group < numGroups; group++) {
      FileStatus[] statuses = files.statuses(group);
      for (int i = 0; i < statuses.length; i++) byPath.put(statuses[i].getPath(), statuses[i]);
    }
    return byPath;
  }

  public Seq allFiles() { return leafFiles().values().toSeq(); }
  public long sizeInBytes() { return files.size(); }
  public scala.collection.immutable.Map leafDirToChildrenFiles() { return noFiles; }
  public PartitionSpec partitionSpec() { return spec; }
  public Seq rootPaths() {
    return JavaConverters.asScalaBuffer(java.util.List.of(root)).toSeq();
  }
  public void refresh() {}
}

// The files of some groups, with the base class's own look at them.
class ChosenFiles extends PartitioningAwareFileIndex {
  private final LogFiles files;
  private final List groups;
  private final LinkedHashMap byPath = new LinkedHashMap();
  private final scala.collection.immutable.Map byPartition;
  private final PartitionSpec spec;
  private final Path root;

  ChosenFiles(SparkSession session, scala.collection.immutable.Map options,
      StructType partitionSchema, Path root, LogFiles files, List groups) {
    super(session, options, Option.empty(), NoopCache$.MODULE$);
    this.files = files;
    this.groups = groups;
    this.root = root;
    List partitions = new ArrayList();
    LinkedHashMap filesByPartition = new LinkedHashMap();
    boolean isPartitioned = !partitionSchema.isEmpty();
    for (int i = 0; i < groups.size(); i++) {
      int group = ((Integer) groups.get(i)).intValue();
      FileStatus[] statuses = files.statuses(group);
      if (isPartitioned) {
        Path key = new GroupPath(root.toUri(), group);
        filesByPartition.put(key, statuses);
        partitions.add(new PartitionPath(files.values(group), key));
      } else {
        for (int j = 0; j < statuses.length; j++) byPath.put(statuses[j].getPath(), statuses[j]);
      }
    }
    byPartition = filesByPartition.toMap(null);  // Spark asks for it once for each partition
    spec = new PartitionSpec(partitionSchema, JavaConverters.asScalaBuffer(partitions).toSeq());
  }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    List listed = list(partitionFilters, dataFilters);
    // Filters of Spark's metadata of files leave files out; nothing else may.
    requireAll(
        dataFilters.isEmpty() || numFiles(listed) == numFiles()
            ? listed
            : list(partitionFilters, JavaConverters.asScalaBuffer(new ArrayList()).toSeq()));
    return JavaConverters.asScalaBuffer(listed).toSeq();
  }

  // The base class leaves out files whose names begin with _ or a point; the log names them.
  private List list(Seq partitionFilters, Seq dataFilters) {
    Iterator directories = super.listFiles(partitionFilters, dataFilters).iterator();
    List all = new ArrayList();
    for (int i = 0; directories.hasNext(); i++) {
      PartitionDirectory directory = (PartitionDirectory) directories.next();
      int group = ((Integer) groups.get(i)).intValue();
      if (!spec.partitionColumns().isEmpty() && directory.values() != files.values(group)) {
        throw new IllegalStateException("Spark would list partitions in another order");
      }
      all.add(withHidden(directory, hidden(group)));
    }
    return all;
  }

  private List hidden(int group) {
    FileStatus[] statuses = files.statuses(group);
    List hidden = new ArrayList();
    for (int i = 0; i < statuses.length; i++) {
      String name = statuses[i].getPath().getName();
      if (name.startsWith("_") || name.startsWith(".")) hidden.add(statuses[i]);
    }
    return hidden;
  }

  private static PartitionDirectory withHidden(PartitionDirectory directory, List hidden) {
    if (hidden.isEmpty()) return directory;
    List files = new ArrayList();
    Collection paths = new HashSet();
    Iterator visible = directory.files().iterator();
    while (visible.hasNext()) {
      FileStatusWithMetadata file = (FileStatusWithMetadata) visible.next();
      files.add(file);
      paths.add(file.getPath());
    }
    for (int i = 0; i < hidden.size(); i++) {
      FileStatus file = (FileStatus) hidden.get(i);
      if (!paths.contains(file.getPath())) {
        files.add(new FileStatusWithMetadata(file, FileStatusWithMetadata.apply$default$2()));
      }
    }
    return new PartitionDirectory(
        directory.values(), JavaConverters.asScalaBuffer(files).toSeq());
  }

  private static int numFiles(List listed) {
    int found = 0;
    for (int i = 0; i < listed.size(); i++) {
      found += ((PartitionDirectory) listed.get(i)).files().size();
    }
    return found;
  }

  private int numFiles() {
    int given = 0;
    for (int i = 0; i < groups.size(); i++) {
      given += files.numFiles(((Integer) groups.get(i)).intValue());
    }
    return given;
  }

  private void requireAll(List listed) {
    if (numFiles(listed) != numFiles()) {
      throw new IllegalStateException(
          "Spark would scan " + numFiles(listed) + " of " + numFiles() + " files");
    }
  }

  public Seq allFiles() { return byPath.values().toSeq(); }
  public LinkedHashMap leafFiles() { return byPath; }
  public scala.collection.immutable.Map leafDirToChildrenFiles() { return byPartition; }
  public PartitionSpec partitionSpec() { return spec; }
  public Seq rootPaths() {
    return JavaConverters.asScalaBuffer(java.util.List.of(root)).toSeq();
  }
  public void refresh() {}
}
"""
