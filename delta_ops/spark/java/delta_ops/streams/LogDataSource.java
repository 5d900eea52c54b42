package delta_ops.streams;

import java.util.ArrayList;
import java.util.function.Function;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The place of a table in a streaming plan, which makes a {@link LogSource} for each query.
 *
 * <p>Spark requires the name of a provider here, and looks nothing up by it.
 */
class LogDataSource extends DataSource {
    private static final long serialVersionUID = 1L;
    private static final String ANY_PROVIDER = "rate";

    private final SparkSession session;
    private final String name;
    private final StructType type;
    private final Function<Object, Object> open;

    LogDataSource(
            SparkSession session, String name, StructType type, Function<Object, Object> open) {
        super(
                session,
                ANY_PROVIDER,
                LogDataSource.<String>none(),
                Option.empty(),
                LogDataSource.<String>none(),
                Option.empty(),
                new LinkedHashMap<String, String>().toMap(null),
                Option.empty(),
                Option.empty());
        this.session = session;
        this.name = name;
        this.type = type;
        this.open = open;
    }

    private static <T> Seq<T> none() {
        return CollectionConverters.asScala(new ArrayList<T>()).toSeq();
    }

    @Override
    @SuppressWarnings("unchecked")
    public Source createSource(String checkpoint) {
        Object table = LogSource.ask(open, "open", null, null);
        return new LogSource(session, name, type, (Function<Object, Object>) table);
    }
}
