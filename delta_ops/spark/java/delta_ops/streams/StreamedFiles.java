package delta_ops.streams;

import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** Marks the relations of a plan as streaming. Nothing else differs from the plan of a batch. */
@SuppressWarnings({"rawtypes", "unchecked"}) // Janino makes no bridges to typed parameters
class StreamedFiles extends AbstractPartialFunction {
    @Override
    public boolean isDefinedAt(Object plan) {
        return plan instanceof LogicalRelation;
    }

    @Override
    public Object applyOrElse(Object plan, Function1 other) {
        if (!isDefinedAt(plan)) {
            return other.apply(plan);
        }
        return Relations.streaming((LogicalRelation) plan);
    }
}
