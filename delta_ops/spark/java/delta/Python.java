package delta;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** What Python answers to SQL, and the refusals of both. */
class Python {
    private static final String UNREGISTERED =
            "the format \"delta\" is not registered; call delta_ops.spark.register(spark)";
    private static final String READS_ONLY =
            "Spark itself only reads Delta tables; run the statement with spark.sql of Python "
                    + "after delta_ops.spark.register(spark), write by "
                    + "df.write.format(\"delta\").save(path) or DeltaTable of delta_ops.tables, "
                    + "and read streams by readStream.format(\"delta\").load(path)";

    /** Opens tables and judges statements; null where the format is not registered. */
    static volatile Function<Object, Object> answers;

    private Python() {}

    /**
     * Opens a table.
     *
     * @param known the columns that the catalog or a statement gives it; null for none
     * @return answers "schema", "size" and "rows" of the table
     */
    @SuppressWarnings("unchecked")
    static Function<Object, Object> open(
            SparkSession session, Map<String, String> options, StructType known) {
        String columns = known == null ? null : known.json();
        return (Function<Object, Object>)
                ask(answers, new Object[] {session, options, columns});
    }

    /** Calls Python, which returns an exception for a question that it refuses. */
    static Object ask(Function<Object, Object> python, Object question) {
        if (python == null) {
            throw refuse(UNREGISTERED);
        }
        Object answer = python.apply(question);
        if (answer instanceof RuntimeException) {
            Throwable condition = ((RuntimeException) answer).getCause();
            throw refuse(
                    ((RuntimeException) answer).getMessage(),
                    condition == null ? null : condition.getMessage());
        }
        return answer;
    }

    static RuntimeException refuseWrite() {
        return refuse(answers == null ? UNREGISTERED : READS_ONLY);
    }

    static RuntimeException refuse(String reason) {
        return refuse(reason, null);
    }

    /**
     * Throws an AnalysisException, the only error that Spark passes on with its text.
     *
     * @param condition the error class; null for none
     * @return nothing; callers can throw it, so that the compiler knows that they end
     */
    private static RuntimeException refuse(String reason, String condition) {
        Platform.throwException(
                new AnalysisException(
                        condition == null ? reason : "[" + condition + "] " + reason,
                        Option.empty(),
                        Option.empty(),
                        Option.empty(),
                        Option.apply(condition),
                        CollectionConverters.asScala(new HashMap<String, String>()).toMap(null),
                        new QueryContext[0]));
        return new IllegalStateException(reason);
    }
}
