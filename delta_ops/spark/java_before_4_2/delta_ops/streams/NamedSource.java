package delta_ops.streams;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.LinkedHashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A source in a streaming plan.
 *
 * <p>Spark requires the name of a provider here, and looks nothing up by it.
 */
class NamedSource extends DataSource {
    private static final long serialVersionUID = 1L;
    private static final String ANY_PROVIDER = "rate";

    NamedSource(SparkSession session) {
        super(
                session,
                ANY_PROVIDER,
                NamedSource.<String>none(),
                Option.empty(),
                NamedSource.<String>none(),
                Option.empty(),
                new LinkedHashMap<String, String>().toMap(null),
                Option.empty());
    }

    private static <T> Seq<T> none() {
        return CollectionConverters.asScala(new ArrayList<T>()).toSeq();
    }

    StreamingRelation relation(String name, Seq<Attribute> output) {
        return new StreamingRelation(this, name, output);
    }
}
