"""The commit protocol: Spark's tasks write files under their final names and report them.

Spark asks a `FileCommitProtocol` where a task writes, and tells it which tasks succeeded. Hadoop's
writes into `_temporary` and renames, which copies every byte in an object store, and leaves it to a
listing to find out what was written. Ours names a file once, by the split and by an id of the
attempt, so that no two attempts share a name; a task sends back path, size and time of its files
with its result. Of a split the driver takes one result, whatever was retried or speculated: what
those results name is what was written. All else has no name in a log.

1. An attempt that fails deletes its files, and a job that fails those of its tasks; what a killed
   process leaves is garbage for vacuum.
2. A file's name is in the commit only if its attempt's result reached the driver.
3. Other writes of the same session, which see the setting meanwhile, get the protocol that they
   would have got without it.

The class is compiled in the driver and reaches executors as a jar (`compiled`), so that they need
nothing of ours. It depends on internals of Spark. Where they differ, or there is no JVM at hand,
`ProtocolUnavailableError` says so, and the caller writes in a slower way by the public API.
"""

from __future__ import annotations

import json
import logging
import re
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriter, SparkSession

from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors
from delta_ops.spark.session.session import overriding

logger = logging.getLogger(__name__)

_CLASS = "DeltaOpsCommitProtocol"
_SETTING = "spark.sql.sources.commitProtocolClass"
_CLASS_IS_MISSING = re.compile(rf"(ClassNotFoundException|NoClassDefFoundError):\s+{_CLASS}")
_DIFFERS_INSIDE = re.compile(r"java\.lang\.(\w*LinkageError|\w+MethodError|IncompatibleClass\w+)")
_WAS_NOT_ASKED = "Spark asked another commit protocol"

_SOURCE = """
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileCommitProtocol$;
import org.apache.spark.internal.io.FileCommitProtocol$TaskCommitMessage;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.DataFrameWriter;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

public class DeltaOpsWrites {
  public void leaveOthersTo(String name) {
    if (!name.equals("DeltaOpsCommitProtocol")) DeltaOpsCommitProtocol.others = name;
  }

  public String write(DataFrameWriter writer, String place) throws IOException {
    List files = new ArrayList();
    DeltaOpsCommitProtocol.expect(place, files);
    try {
      writer.parquet(place);
    } finally {
      DeltaOpsCommitProtocol.forget(place);
    }
    if (files.isEmpty()) throw new IllegalStateException("WAS_NOT_ASKED");
    return new ObjectMapper().writeValueAsString(files.get(0));
  }
}

public class DeltaOpsCommitProtocol extends FileCommitProtocol implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Map expected = new ConcurrentHashMap();
  static volatile String others;

  private final String place;
  private final FileCommitProtocol other;
  private transient List committed;
  private transient String attempt;
  private transient List written;

  static void expect(String place, List files) { expected.put(key(place), files); }

  static void forget(String place) { expected.remove(key(place)); }

  private static String key(String place) { return new Path(place).toUri().getPath(); }

  public DeltaOpsCommitProtocol(String job, String place, boolean replacesPartitions) {
    this.place = place;
    this.committed = new ArrayList();
    boolean isOurs = !replacesPartitions && expected.containsKey(key(place));
    this.other = isOurs ? null
        : FileCommitProtocol$.MODULE$.instantiate(others, job, place, replacesPartitions);
  }

  public void setupJob(JobContext job) {
    if (other != null) other.setupJob(job);
  }

  public void setupTask(TaskAttemptContext task) {
    if (other != null) {
      other.setupTask(task);
      return;
    }
    attempt = UUID.randomUUID().toString();
    written = new ArrayList();
  }

  public String newTaskTempFile(TaskAttemptContext task, Option directory, String suffix) {
    if (other != null) return other.newTaskTempFile(task, directory, suffix);
    return newFile(task, directory, "", suffix);
  }

  public String newTaskTempFile(TaskAttemptContext task, Option directory, FileNameSpec name) {
    if (other != null) return other.newTaskTempFile(task, directory, name);
    return newFile(task, directory, name.prefix(), name.suffix());
  }

  private String newFile(TaskAttemptContext task, Option directory, String prefix, String suffix) {
    int split = task.getTaskAttemptID().getTaskID().getId();
    String name = prefix + "part-" + String.format(Locale.ROOT, "%05d", new Object[] {split})
        + "-" + attempt + suffix;
    String path = directory.isDefined() ? directory.get() + "/" + name : name;
    written.add(path);
    return new Path(place, path).toString();
  }

  public String newTaskTempFileAbsPath(TaskAttemptContext task, String directory, String suffix) {
    if (other != null) return other.newTaskTempFileAbsPath(task, directory, suffix);
    throw new UnsupportedOperationException(directory);
  }

  public String newTaskTempFileAbsPath(
      TaskAttemptContext task, String directory, FileNameSpec name) {
    if (other != null) return other.newTaskTempFileAbsPath(task, directory, name);
    throw new UnsupportedOperationException(directory);
  }

  public FileCommitProtocol$TaskCommitMessage commitTask(TaskAttemptContext task) {
    if (other != null) return other.commitTask(task);
    List files = new ArrayList();
    try {
      FileSystem store = new Path(place).getFileSystem(task.getConfiguration());
      for (int i = 0; i < written.size(); i++) {
        String path = (String) written.get(i);
        FileStatus status = store.getFileStatus(new Path(place, path));
        Object[] file = new Object[] {path, status.getLen(), status.getModificationTime()};
        files.add(new ArrayList(Arrays.asList(file)));
      }
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
    return new FileCommitProtocol$TaskCommitMessage(files);
  }

  public void onTaskCommit(FileCommitProtocol$TaskCommitMessage task) {
    if (other != null) other.onTaskCommit(task);
    else synchronized (committed) { committed.addAll((List) task.obj()); }
  }

  public void commitJob(JobContext job, Seq tasks) {
    if (other != null) {
      other.commitJob(job, tasks);
      return;
    }
    List files = new ArrayList();
    Iterator each = tasks.iterator();
    while (each.hasNext()) {
      Object task = each.next();
      files.addAll((List) ((FileCommitProtocol$TaskCommitMessage) task).obj());
    }
    ((List) expected.get(key(place))).add(files);
  }

  public void abortTask(TaskAttemptContext task) {
    if (other != null) other.abortTask(task);
    else delete(written, task);
  }

  public void abortJob(JobContext job) {
    if (other != null) {
      other.abortJob(job);
      return;
    }
    List paths = new ArrayList();
    synchronized (committed) {
      for (int i = 0; i < committed.size(); i++) paths.add(((List) committed.get(i)).get(0));
    }
    delete(paths, job);
  }

  private void delete(List paths, JobContext job) {
    for (int i = 0; i < paths.size(); i++) {
      try {
        Path path = new Path(place, (String) paths.get(i));
        path.getFileSystem(job.getConfiguration()).delete(path, false);
      } catch (IOException error) {
        continue;  // no log names it
      }
    }
  }

  public boolean deleteWithJob(FileSystem store, Path path, boolean recursive) {
    if (other != null) return other.deleteWithJob(store, path, recursive);
    throw new UnsupportedOperationException(path.toString());
  }
}
""".replace("WAS_NOT_ASKED", _WAS_NOT_ASKED)


class ProtocolUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the protocol; write in another way."""


class WrittenFile(NamedTuple):
    """A file that a task wrote."""

    path: str
    """Below the place that was written to, as the file system has it."""
    size: int
    """Bytes."""
    modified_ms: int
    """Milliseconds since the Unix epoch, by the store's clock."""


_without: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Why sessions cannot use it that were found so."""


def write_parquet(spark: SparkSession, writer: DataFrameWriter, place: str) -> list[WrittenFile]:
    """Write the writer's rows; the files that hold each row once, in the order of the splits.

    Args:
        spark: The session of the writer's rows.
        writer: With its options and partitioning set.
        place: A directory that holds nothing, and need not exist, as Spark takes it.

    Raises:
        ProtocolUnavailableError: It cannot be had here. Nothing was written, or what was written
            lies in `place` and belongs to no table.
    """
    reason = _without.get(spark)
    if reason is not None:
        raise ProtocolUnavailableError(reason)
    try:
        return _write(spark, writer, place)
    except ProtocolUnavailableError as error:
        _without[spark] = str(error)
        logger.warning(
            "This session writes by Hadoop's committer, which renames files and in an object store "
            "copies them: %s",
            error,
        )
        raise


def _write(spark: SparkSession, writer: DataFrameWriter, place: str) -> list[WrittenFile]:
    writes = _prepare(spark)
    try:
        with overriding(spark, {_SETTING: _CLASS}):
            manifest: Sequence[list[Any]] = json.loads(
                writes.write(writer.mode("append")._jwrite, place)
            )
    except (PySparkException, Py4JError) as error:
        text = f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
        found = _CLASS_IS_MISSING.search(text) or (
            _DIFFERS_INSIDE.search(text) if _CLASS in text else None
        )
        if found is None and _WAS_NOT_ASKED not in text:
            raise
        raise ProtocolUnavailableError(found[0] if found else _WAS_NOT_ASKED) from error
    return [WrittenFile(*file) for file in manifest]


def _prepare(spark: SparkSession) -> Any:
    try:
        writes = instance_on_executors(spark, "DeltaOpsWrites", _SOURCE)
        writes.leaveOthersTo(spark.conf.get(_SETTING))
        return writes
    except OBSTACLES as error:
        raise ProtocolUnavailableError(first_line(error)) from error
