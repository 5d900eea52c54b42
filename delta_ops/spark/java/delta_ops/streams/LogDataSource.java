package delta_ops.streams;

import java.util.function.Function;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;

/** The place of a table in a streaming plan, which makes a {@link LogSource} for each query. */
class LogDataSource extends NamedSource {
    private static final long serialVersionUID = 1L;

    private final SparkSession session;
    private final String name;
    private final StructType type;
    private final Function<Object, Object> open;

    LogDataSource(
            SparkSession session, String name, StructType type, Function<Object, Object> open) {
        super(session);
        this.session = session;
        this.name = name;
        this.type = type;
        this.open = open;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Source createSource(String checkpoint) {
        Object table = LogSource.ask(open, "open", null, null);
        return new LogSource(session, name, type, (Function<Object, Object>) table);
    }
}
