package delta;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/** Replaces the columns of a query by those of the rows that are read, in the same order. */
@SuppressWarnings({"rawtypes", "unchecked"}) // Janino makes no bridges to typed parameters
class ColumnsByName extends AbstractPartialFunction {
    private final StructType type;
    private final Seq<Attribute> output;

    ColumnsByName(StructType type, Seq<Attribute> output) {
        this.type = type;
        this.output = output;
    }

    Attribute find(Attribute column) {
        return (Attribute) output.apply(type.fieldIndex(column.name()));
    }

    @Override
    public boolean isDefinedAt(Object node) {
        return node instanceof AttributeReference;
    }

    @Override
    public Object applyOrElse(Object node, Function1 other) {
        return isDefinedAt(node) ? find((Attribute) node) : other.apply(node);
    }
}
