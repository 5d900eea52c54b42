package delta_ops.streams;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The relations of streaming plans. */
class Relations {
    private static final boolean IS_STREAMING = true;

    private Relations() {}

    static LogicalPlan noRows(StructType type) {
        Seq<InternalRow> none =
                CollectionConverters.asScala(new ArrayList<InternalRow>()).toSeq();
        return new LocalRelation(attributes(type), none, IS_STREAMING, Option.empty());
    }

    static LogicalPlan streaming(LogicalRelation relation) {
        return relation.copy(
                relation.relation(),
                relation.output(),
                relation.catalogTable(),
                IS_STREAMING,
                relation.stream());
    }

    @SuppressWarnings("unchecked") // a Seq of a subclass: in Scala it is a Seq of the class, too
    static Seq<Attribute> attributes(StructType type) {
        return (Seq<Attribute>) (Seq<?>) DataTypeUtils.toAttributes(type);
    }
}
