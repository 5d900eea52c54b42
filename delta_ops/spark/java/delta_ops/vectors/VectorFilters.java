package delta_ops.vectors;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.jdk.javaapi.CollectionConverters;

/** Makes a column that is true for the rows that deletion vectors name. */
public class VectorFilters {
    /**
     * Returns whether the vector of a row's file names the row.
     *
     * @param serialized the vectors by file number; before each its length, little endian
     * @param file the number of the row's file, a long
     * @param row the number of the row in its file, a long
     */
    public Column isNamed(JavaSparkContext context, byte[] serialized, Column file, Column row) {
        Vectors vectors = new Vectors(broadcast(context, serialized));
        List<Expression> arguments = new ArrayList<>();
        arguments.add(ExpressionUtils.expression(file));
        arguments.add(ExpressionUtils.expression(row));
        boolean propagatesNull = true;
        boolean returnsNull = false;
        boolean isDeterministic = true;
        return ExpressionUtils.column(
                new Invoke(
                        Literal.fromObject(vectors, new ObjectType(Vectors.class)),
                        "isNamed",
                        DataTypes.BooleanType,
                        CollectionConverters.asScala(arguments).toSeq(),
                        CollectionConverters.asScala(new ArrayList<AbstractDataType>()).toSeq(),
                        propagatesNull,
                        returnsNull,
                        isDeterministic));
    }

    private static Broadcast<byte[][]> broadcast(JavaSparkContext context, byte[] serialized) {
        List<byte[]> vectors = new ArrayList<>();
        ByteBuffer rest = ByteBuffer.wrap(serialized).order(ByteOrder.LITTLE_ENDIAN);
        while (rest.hasRemaining()) {
            byte[] vector = new byte[rest.getInt()];
            rest.get(vector);
            vectors.add(vector);
        }
        return context.broadcast(vectors.toArray(new byte[0][]));
    }
}
