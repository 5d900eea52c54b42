package delta_ops.files;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The filters of a query as a JSON tree of comparisons between columns and literals.
 *
 * <p>A filter that is no such comparison is left out: the tree is true for every row that all
 * filters select, and may be true for more rows.
 */
class FilterTree {
    /** In the metadata of Spark's own columns, such as file_name, which a table may have too. */
    private static final String OF_METADATA = "metadata_col";

    private FilterTree() {}

    /** Returns the filters, all of which select a row; null if no filter is a comparison. */
    static String json(Seq<Expression> filters) throws JsonProcessingException {
        List<Object> found = new ArrayList<>();
        for (Expression filter : CollectionConverters.asJava(filters)) {
            Object node = node(filter);
            if (node != null) {
                found.add(node);
            }
        }
        if (found.isEmpty()) {
            return null;
        }
        return new ObjectMapper().writeValueAsString(Arrays.asList("and", found));
    }

    private static Object node(Expression filter) {
        if (filter instanceof And) {
            return both(node(child(filter, 0)), node(child(filter, 1)));
        } else if (filter instanceof Or) {
            Object left = node(child(filter, 0));
            Object right = node(child(filter, 1));
            boolean isKnown = left != null && right != null;
            return isKnown ? Arrays.asList("or", Arrays.asList(left, right)) : null;
        } else if (filter instanceof IsNull) {
            List<String> column = column(child(filter, 0));
            return column == null ? null : Arrays.asList("null", column);
        } else if (filter instanceof IsNotNull) {
            List<String> column = column(child(filter, 0));
            return column == null ? null : Arrays.asList("not null", column);
        } else if (filter instanceof In) {
            return listedValues(filter);
        } else if (filter instanceof InSet) {
            return listed(child(filter, 0), ((InSet) filter).hset().iterator());
        } else if (filter instanceof BinaryComparison) {
            Expression left = child(filter, 0);
            Expression right = child(filter, 1);
            if (left instanceof Literal) {
                return comparison(right, mirrored(filter), (Literal) left);
            } else if (right instanceof Literal) {
                return comparison(left, operator(filter), (Literal) right);
            }
        }
        return null;
    }

    private static Expression child(Expression expression, int number) {
        return (Expression) expression.children().apply(number);
    }

    private static Object both(Object left, Object right) {
        if (left == null || right == null) {
            return left == null ? right : left;
        }
        return Arrays.asList("and", Arrays.asList(left, right));
    }

    private static String operator(Expression filter) {
        if (filter instanceof EqualTo || filter instanceof EqualNullSafe) {
            return "==";
        } else if (filter instanceof LessThan) {
            return "<";
        } else if (filter instanceof LessThanOrEqual) {
            return "<=";
        } else if (filter instanceof GreaterThan) {
            return ">";
        }
        return filter instanceof GreaterThanOrEqual ? ">=" : null;
    }

    private static String mirrored(Expression filter) {
        String operator = operator(filter);
        if (operator == null || operator.equals("==")) {
            return operator;
        }
        return (operator.startsWith("<") ? ">" : "<") + operator.substring(1);
    }

    private static Object comparison(Expression compared, String operator, Literal literal) {
        List<String> column = column(compared);
        if (column == null || operator == null || literal.value() == null) {
            return null;
        }
        DataType type = compared.dataType();
        if (!isComparable(type) || !type.equals(literal.dataType())) {
            return null;
        }
        String text = text(literal.value());
        return text == null ? null : Arrays.asList(operator, column, type.typeName(), text);
    }

    private static Object listedValues(Expression in) {
        Expression compared = child(in, 0);
        List<Object> values = new ArrayList<>();
        for (int i = 1; i < in.children().size(); i++) {
            Expression each = child(in, i);
            if (!(each instanceof Literal) || !each.dataType().equals(compared.dataType())) {
                return null;
            }
            values.add(((Literal) each).value());
        }
        return listed(compared, CollectionConverters.asScala(values).iterator());
    }

    /** Leaves nulls out, because no value equals null. */
    private static Object listed(Expression compared, Iterator<Object> values) {
        List<String> column = column(compared);
        if (column == null || !isComparable(compared.dataType())) {
            return null;
        }
        List<String> texts = new ArrayList<>();
        while (values.hasNext()) {
            Object value = values.next();
            if (value == null) {
                continue;
            }
            String text = text(value);
            if (text == null) {
                return null;
            }
            texts.add(text);
        }
        return Arrays.asList("in", column, compared.dataType().typeName(), texts);
    }

    /** Returns the names from the column to a field; null if the expression is no such path. */
    private static List<String> column(Expression expression) {
        List<String> names = new ArrayList<>();
        Expression inner = expression;
        while (inner instanceof GetStructField) {
            GetStructField field = (GetStructField) inner;
            names.add(0, field.childSchema().apply(field.ordinal()).name());
            inner = child(field, 0);
        }
        if (!(inner instanceof AttributeReference)) {
            return null;
        }
        AttributeReference attribute = (AttributeReference) inner;
        if (attribute.metadata().json().contains(OF_METADATA)) {
            return null;
        }
        names.add(0, attribute.name());
        return names;
    }

    /** Whether literals of the type have a text that is read back exactly. */
    private static boolean isComparable(DataType type) {
        return type.equals(DataTypes.StringType) // a collation would make another type
                || type.equals(DataTypes.BooleanType)
                || type.equals(DataTypes.ByteType)
                || type.equals(DataTypes.ShortType)
                || type.equals(DataTypes.IntegerType)
                || type.equals(DataTypes.LongType)
                || type.equals(DataTypes.FloatType)
                || type.equals(DataTypes.DoubleType)
                || type.equals(DataTypes.DateType)
                || type.equals(DataTypes.TimestampType)
                || type.equals(DataTypes.TimestampNTZType)
                || type.typeName().startsWith("decimal");
    }

    /** Returns the text of a value in Spark's internal form; null if no text is read back as it. */
    private static String text(Object value) {
        if (value instanceof Float) {
            return Double.toString(((Float) value).doubleValue());
        }
        String text = value.toString();
        if (value instanceof UTF8String && !UTF8String.fromString(text).equals(value)) {
            return null; // bytes that are not UTF-8
        }
        return text;
    }
}
