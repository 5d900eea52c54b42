package delta_ops.writes;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets tasks write files under their final names and report them with their results.
 *
 * <p>Spark makes one object for each job. An object for a place that nobody expects passes every
 * call to the protocol that Spark would have used instead.
 */
public class CommitProtocol extends FileCommitProtocol implements Serializable {
    private static final long serialVersionUID = 1L;

    private static final Map<String, List<List<List<Object>>>> reportsByPlace =
            new ConcurrentHashMap<>();

    /** The class of the protocol for all other writes. */
    static volatile String others;

    private final String place;
    /** The protocol that does the work instead; null for an expected place. */
    private final FileCommitProtocol other;
    private transient List<List<Object>> committed;
    private transient String attempt;
    private transient List<String> written;

    /** Expects a write; its files are added to the reports when its job commits. */
    static void expect(String place, List<List<List<Object>>> reports) {
        reportsByPlace.put(keyOf(place), reports);
    }

    static void forget(String place) {
        reportsByPlace.remove(keyOf(place));
    }

    private static String keyOf(String place) {
        return new Path(place).toUri().getPath();
    }

    /** Spark calls it by reflection. */
    public CommitProtocol(String job, String place, boolean replacesPartitions) {
        this.place = place;
        this.committed = new ArrayList<>();
        boolean isExpected = !replacesPartitions && reportsByPlace.containsKey(keyOf(place));
        this.other =
                isExpected
                        ? null
                        : FileCommitProtocol.instantiate(others, job, place, replacesPartitions);
    }

    @Override
    public void setupJob(JobContext job) {
        if (other != null) {
            other.setupJob(job);
        }
    }

    @Override
    public void setupTask(TaskAttemptContext task) {
        if (other != null) {
            other.setupTask(task);
            return;
        }
        attempt = UUID.randomUUID().toString();
        written = new ArrayList<>();
    }

    @SuppressWarnings("deprecation") // abstract in the base class
    @Override
    public String newTaskTempFile(
            TaskAttemptContext task, Option<String> directory, String suffix) {
        if (other != null) {
            return other.newTaskTempFile(task, directory, suffix);
        }
        return newFile(task, directory, "", suffix);
    }

    @Override
    public String newTaskTempFile(
            TaskAttemptContext task, Option<String> directory, FileNameSpec name) {
        if (other != null) {
            return other.newTaskTempFile(task, directory, name);
        }
        return newFile(task, directory, name.prefix(), name.suffix());
    }

    private String newFile(
            TaskAttemptContext task, Option<String> directory, String prefix, String suffix) {
        Integer split = Integer.valueOf(task.getTaskAttemptID().getTaskID().getId());
        String part = String.format(Locale.ROOT, "part-%05d-%s", split, attempt);
        String name = prefix + part + suffix;
        String path = directory.isDefined() ? directory.get() + "/" + name : name;
        written.add(path);
        return new Path(place, path).toString();
    }

    @SuppressWarnings("deprecation") // abstract in the base class
    @Override
    public String newTaskTempFileAbsPath(
            TaskAttemptContext task, String directory, String suffix) {
        if (other != null) {
            return other.newTaskTempFileAbsPath(task, directory, suffix);
        }
        throw new UnsupportedOperationException(directory);
    }

    @Override
    public String newTaskTempFileAbsPath(
            TaskAttemptContext task, String directory, FileNameSpec name) {
        if (other != null) {
            return other.newTaskTempFileAbsPath(task, directory, name);
        }
        throw new UnsupportedOperationException(directory);
    }

    @Override
    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext task) {
        if (other != null) {
            return other.commitTask(task);
        }
        TaskContext running = TaskContext.get();
        if (running != null && running.isInterrupted()) {
            // The job may have failed while the last bytes were on their way: it does not wait.
            throw new TaskKilledException("the write has ended");
        }
        try {
            return new FileCommitProtocol.TaskCommitMessage(filesOf(task));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private List<List<Object>> filesOf(TaskAttemptContext task) throws IOException {
        FileSystem store = new Path(place).getFileSystem(task.getConfiguration());
        List<List<Object>> files = new ArrayList<>();
        for (String path : written) {
            FileStatus status = store.getFileStatus(new Path(place, path));
            Object size = Long.valueOf(status.getLen());
            Object modified = Long.valueOf(status.getModificationTime());
            files.add(Arrays.asList(path, size, modified));
        }
        return files;
    }

    @Override
    public void onTaskCommit(FileCommitProtocol.TaskCommitMessage task) {
        if (other != null) {
            other.onTaskCommit(task);
            return;
        }
        synchronized (committed) {
            committed.addAll(filesIn(task));
        }
    }

    @Override
    public void commitJob(JobContext job, Seq<FileCommitProtocol.TaskCommitMessage> tasks) {
        if (other != null) {
            other.commitJob(job, tasks);
            return;
        }
        List<List<Object>> files = new ArrayList<>();
        for (FileCommitProtocol.TaskCommitMessage task : CollectionConverters.asJava(tasks)) {
            files.addAll(filesIn(task));
        }
        ((List<List<List<Object>>>) reportsByPlace.get(keyOf(place))).add(files);
    }

    @SuppressWarnings("unchecked")
    private static List<List<Object>> filesIn(FileCommitProtocol.TaskCommitMessage task) {
        return (List<List<Object>>) task.obj();
    }

    @Override
    public void abortTask(TaskAttemptContext task) {
        if (other != null) {
            other.abortTask(task);
            return;
        }
        boolean isInterrupted = Thread.interrupted(); // stores answer no interrupted thread
        delete(written, task);
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void abortJob(JobContext job) {
        if (other != null) {
            other.abortJob(job);
            return;
        }
        List<String> paths = new ArrayList<>();
        synchronized (committed) {
            for (List<Object> file : committed) {
                paths.add((String) file.get(0));
            }
        }
        delete(paths, job);
    }

    private void delete(List<String> paths, JobContext job) {
        for (String name : paths) {
            try {
                Path path = new Path(place, name);
                path.getFileSystem(job.getConfiguration()).delete(path, false);
            } catch (IOException error) {
                continue; // vacuum deletes it: no log names it
            }
        }
    }

    @Override
    public boolean deleteWithJob(FileSystem store, Path path, boolean isRecursive) {
        if (other != null) {
            return other.deleteWithJob(store, path, isRecursive);
        }
        throw new UnsupportedOperationException(path.toString());
    }
}
