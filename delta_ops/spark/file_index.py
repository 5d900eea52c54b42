"""The file index: files of the log as a Spark relation, without a listing and without a job.

Spark asks a `FileIndex` which files a scan opens. Ours is the base class of Spark's own, given the
statuses and typed partition values of the log instead of a listing; Spark prunes partitions, splits
files and pushes down filters as for any other. The class is compiled in the driver (`compiled`):
calls through Py4J take about half a millisecond, and a table has many files. It depends on
internals of Spark. Where they differ, the caller reads in a slower way by the public API.

Each distinct tuple of partition values is a partition under a made-up path, so files lie where they
like. `relation` refuses to return if Spark would scan other files than were given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.spark.compiled import instance_of

_SOURCE = """
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import com.fasterxml.jackson.databind.ObjectMapper;
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
  public HadoopFsRelation relation(SparkSession session, String json) throws Exception {
    Map given = (Map) new ObjectMapper().readValue(json, Map.class);
    StructType partitionSchema = (StructType) DataType.fromJson((String) given.get("partitions"));
    StructType dataSchema = (StructType) DataType.fromJson((String) given.get("data"));
    scala.collection.immutable.Map options =
        PythonUtils.toScalaMap((Map) given.get("options"));
    LogFileIndex index = new LogFileIndex(
        session, options, partitionSchema, (String) given.get("root"), (List) given.get("groups"));
    index.verify();
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

class LogFileIndex extends PartitioningAwareFileIndex {
  private final LinkedHashMap files = new LinkedHashMap();
  private final scala.collection.immutable.Map byPartition;
  private final IdentityHashMap hiddenByValues = new IdentityHashMap();
  private int numFiles = 0;
  private final PartitionSpec spec;
  private final Seq roots;

  LogFileIndex(SparkSession session, scala.collection.immutable.Map options,
      StructType partitionSchema, String root, List groups) {
    super(session, options, Option.empty(), NoopCache$.MODULE$);
    List partitions = new ArrayList();
    LinkedHashMap filesByPartition = new LinkedHashMap();
    for (int i = 0; i < groups.size(); i++) {
      List group = (List) groups.get(i);
      FileStatus[] statuses = statuses((List) group.get(1));
      Path key = new Path(root + "/delta_ops-partition-" + i);
      InternalRow values = row((List) group.get(0), partitionSchema);
      filesByPartition.put(key, statuses);
      hiddenByValues.put(values, hidden(statuses));
      partitions.add(new PartitionPath(values, key));
      numFiles += statuses.length;
    }
    byPartition = filesByPartition.toMap(null);  // Spark asks for it once for each partition
    spec = new PartitionSpec(partitionSchema, JavaConverters.asScalaBuffer(partitions).toSeq());
    List paths = new ArrayList();
    paths.add(new Path(root));
    roots = JavaConverters.asScalaBuffer(paths).toSeq();
  }

  private FileStatus[] statuses(List given) {
    FileStatus[] statuses = new FileStatus[given.size()];
    for (int i = 0; i < statuses.length; i++) {
      List file = (List) given.get(i);
      long size = ((Number) file.get(1)).longValue();
      long modified = ((Number) file.get(2)).longValue();
      Path path = new Path((String) file.get(0));
      statuses[i] = new FileStatus(size, false, 1, 128L << 20, modified, path);
      files.put(path, statuses[i]);
    }
    return statuses;
  }

  private static InternalRow row(List texts, StructType schema) {
    Object[] values = new Object[texts.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = value((String) texts.get(i), schema.apply(i).dataType());
    }
    return new GenericInternalRow(values);
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

  private static List hidden(FileStatus[] statuses) {
    List hidden = new ArrayList();
    for (int i = 0; i < statuses.length; i++) {
      String name = statuses[i].getPath().getName();
      if (name.startsWith("_") || name.startsWith(".")) hidden.add(statuses[i]);
    }
    return hidden;
  }

  // The base class leaves out files whose names begin with _ or a point; the log names them.
  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    Iterator selected = super.listFiles(partitionFilters, dataFilters).iterator();
    boolean isPartitioned = !spec.partitionColumns().isEmpty();
    List all = new ArrayList();
    while (selected.hasNext()) {
      PartitionDirectory directory = (PartitionDirectory) selected.next();
      Object key = isPartitioned ? directory.values() : hiddenByValues.keySet().iterator().next();
      all.add(withHidden(directory, (List) hiddenByValues.get(key)));
    }
    return JavaConverters.asScalaBuffer(all).toSeq();
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

  void verify() {
    int scanned = 0;
    Seq none = JavaConverters.asScalaBuffer(new ArrayList()).toSeq();
    Iterator directories = listFiles(none, none).iterator();
    while (directories.hasNext()) {
      scanned += ((PartitionDirectory) directories.next()).files().size();
    }
    if (scanned != numFiles) {
      throw new IllegalStateException(
          "Spark would scan " + scanned + " of " + numFiles + " files");
    }
  }

  public Seq allFiles() { return files.values().toSeq(); }
  public LinkedHashMap leafFiles() { return files; }
  public scala.collection.immutable.Map leafDirToChildrenFiles() {
    return byPartition;
  }
  public PartitionSpec partitionSpec() { return spec; }
  public Seq rootPaths() { return roots; }
  public void refresh() {}
}
"""


class IndexUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the index; read in another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files with the same partition values."""

    values: tuple[str | None, ...]
    """In the order of the partition columns, as `expressions.physical_text` writes them."""
    files: Sequence[tuple[str, int, int]]
    """Path as Spark takes it, size in bytes, modification time in milliseconds."""


def groups_of(
    files_by_values: Mapping[tuple[str | None, ...], Sequence[tuple[str, int, int]]],
) -> list[FileGroup]:
    """The groups of files by their values, without files of 0 bytes: these have no rows."""
    groups = (
        FileGroup(values=values, files=[file for file in files if file[1] > 0])
        for values, files in files_by_values.items()
    )
    return [group for group in groups if group.files]


def relation(
    spark: SparkSession,
    root: str,
    groups: Sequence[FileGroup],
    data_schema: StructType,
    partition_schema: StructType,
    options: Mapping[str, str],
    *,
    folds_case: bool,
) -> DataFrame:
    """A scan of exactly these files; columns of `data_schema`, then of `partition_schema`.

    Args:
        spark: A classic session.
        root: The table's root as Spark takes it; nothing is looked up there.
        groups: The files; one may be in several groups.
        data_schema: Columns that files have.
        partition_schema: Columns of which groups have the values.
        options: Passed to Spark's Parquet reader.
        folds_case: Find columns whatever the case of their names, also in a session that tells
            names by their case.

    Raises:
        IndexUnavailableError: It cannot be had here.
    """
    given = json.dumps(
        {
            "root": root,
            "data": data_schema.json(),
            "partitions": partition_schema.json(),
            "options": dict(options),
            "folds_case": folds_case,
            "groups": [[group.values, group.files] for group in groups],
        }
    )
    try:
        session = spark._jsparkSession
        relations = instance_of(spark, "LogRelations", _SOURCE)
        return DataFrame(session.baseRelationToDataFrame(relations.relation(session, given)), spark)
    except (Py4JError, PySparkException, AttributeError, TypeError) as error:
        raise IndexUnavailableError(str(error).strip().split("\n")[0]) from error
