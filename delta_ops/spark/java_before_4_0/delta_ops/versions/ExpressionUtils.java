package delta_ops.versions;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** Converts between columns and expressions, as the class of this name in Spark 4 does. */
public class ExpressionUtils {
    private ExpressionUtils() {}

    public static Expression expression(Column column) {
        return column.expr();
    }

    public static Column column(Expression expression) {
        return new Column(expression);
    }
}
