package delta_ops.curves;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.jdk.javaapi.CollectionConverters;

/** Makes columns that rank values and find the places of rows on a curve. */
public class CurveOrders {
    /**
     * Returns the rank of a value among bounds.
     *
     * @param kind the method of {@link CurveAxis} that ranks the value
     * @param bounds ascending values, as {@link CurveAxis} reads them, little endian
     * @param ranks the rank below the first bound, then from each bound on, ints, little endian
     */
    public Column rank(String kind, byte[] bounds, byte[] ranks, Column value) {
        CurveAxis axis = new CurveAxis(kind, littleEndian(bounds), ints(ranks));
        return invoke(axis, kind, DataTypes.IntegerType, value);
    }

    /**
     * Returns the place of a row on the curve. Places compare as signed numbers.
     *
     * @param bits the bits of each rank
     * @param ranks the ranks of the row's values, an array of ints
     */
    public Column place(boolean isHilbert, int bits, Column ranks) {
        return invoke(new CurvePlaces(isHilbert, bits), "place", DataTypes.LongType, ranks);
    }

    private static Column invoke(Object target, String method, DataType type, Column argument) {
        List<Expression> arguments = new ArrayList<>();
        arguments.add(ExpressionUtils.expression(argument));
        boolean propagatesNull = true;
        boolean returnsNull = true;
        boolean isDeterministic = true;
        return ExpressionUtils.column(
                new Invoke(
                        Literal.fromObject(target, new ObjectType(target.getClass())),
                        method,
                        type,
                        CollectionConverters.asScala(arguments).toSeq(),
                        CollectionConverters.asScala(new ArrayList<AbstractDataType>()).toSeq(),
                        propagatesNull,
                        returnsNull,
                        isDeterministic));
    }

    private static int[] ints(byte[] bytes) {
        int[] numbers = new int[bytes.length / Integer.BYTES];
        littleEndian(bytes).asIntBuffer().get(numbers);
        return numbers;
    }

    private static ByteBuffer littleEndian(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
