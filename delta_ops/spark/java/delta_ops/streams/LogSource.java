package delta_ops.streams;

import java.util.function.Function;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** A table as the source of one query. Python answers which rows a batch has. */
class LogSource implements Source, SupportsTriggerAvailableNow {
    private final SparkSession session;
    private final String name;
    private final StructType type;
    private final Function<Object, Object> table;

    LogSource(
            SparkSession session, String name, StructType type, Function<Object, Object> table) {
        this.session = session;
        this.name = name;
        this.type = type;
        this.table = table;
    }

    /**
     * Calls Python. The question is one text of three lines, since Py4J would fetch the parts of a
     * list one by one.
     *
     * @throws RuntimeException the one that Python returns
     */
    static Object ask(Function<Object, Object> python, String what, String start, String end) {
        String question = what + "\n" + orEmpty(start) + "\n" + orEmpty(end);
        Object answer = python.apply(question);
        if (answer instanceof RuntimeException) {
            throw (RuntimeException) answer;
        }
        return answer;
    }

    private static String orEmpty(String text) {
        return text == null ? "" : text;
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        String what = limit instanceof ReadAllAvailable ? "end of all" : "end";
        String from = start == null ? null : start.json();
        return deserializeOffset((String) ask(table, what, from, null));
    }

    @Override
    @SuppressWarnings("unchecked")
    public org.apache.spark.sql.Dataset<Row> getBatch(
            Option<org.apache.spark.sql.execution.streaming.Offset> start,
            org.apache.spark.sql.execution.streaming.Offset end) {
        String from = start.isDefined() ? ((Offset) start.get()).json() : null;
        String to = end.json();
        // A query that starts again requests its last batch, which is done, and drops the rows.
        Object rows = to.equals(from) ? null : ask(table, "rows", from, to);
        LogicalPlan plan = rows == null ? Relations.noRows(type) : streamed((Dataset<Row>) rows);
        return Dataset.ofRows(session, plan);
    }

    @SuppressWarnings("unchecked")
    private static LogicalPlan streamed(Dataset<Row> rows) {
        return (LogicalPlan) rows.queryExecution().analyzed().transformUp(new StreamedFiles());
    }

    @Override
    public Offset deserializeOffset(String json) {
        return json == null ? null : SerializedOffset.apply(json);
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        ask(table, "stop at latest", null, null);
    }

    /** No limit: the table applies the limits of the reader's options itself. */
    @Override
    public ReadLimit getDefaultReadLimit() {
        return ReadLimit.maxFiles(Integer.MAX_VALUE);
    }

    @Override
    public StructType schema() {
        return type;
    }

    @Override
    public Option<org.apache.spark.sql.execution.streaming.Offset> getOffset() {
        throw new UnsupportedOperationException("Spark calls latestOffset instead");
    }

    @Override
    public Offset reportLatestOffset() {
        return null;
    }

    @Override
    public Offset initialOffset() {
        throw new UnsupportedOperationException("Spark calls latestOffset instead");
    }

    @Override
    public void commit(org.apache.spark.sql.execution.streaming.Offset end) {}

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}

    @Override
    public String toString() {
        return name;
    }
}
