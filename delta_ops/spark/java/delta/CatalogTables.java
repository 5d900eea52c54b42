package delta;

import java.lang.reflect.Constructor;
import java.net.URI;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.QualifiedTableName;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes entries of the catalog by reflection.
 *
 * <p>Versions of Spark differ in how many parameters the constructors have; the last ones have
 * defaults.
 */
class CatalogTables {
    private static final int WITHOUT_DEFAULTS = 5;

    private CatalogTables() {}

    /** Makes the entry of an external table of the provider "delta". */
    static CatalogTable external(
            TableIdentifier name, Map<String, String> options, StructType type)
            throws ReflectiveOperationException {
        return entry(name, CatalogTableType.EXTERNAL(), storage(options, null), type);
    }

    /**
     * Makes the entry of a table of the provider "delta".
     *
     * @param place the location of an external table; null for a table whose files Spark owns
     */
    static CatalogTable named(TableIdentifier name, URI place, StructType type)
            throws ReflectiveOperationException {
        CatalogTableType kind =
                place == null ? CatalogTableType.MANAGED() : CatalogTableType.EXTERNAL();
        return entry(name, kind, storage(new HashMap<String, String>(), place), type);
    }

    private static CatalogTable entry(
            TableIdentifier name,
            CatalogTableType kind,
            CatalogStorageFormat storage,
            StructType type)
            throws ReflectiveOperationException {
        Constructor<?> constructor = CatalogTable.class.getConstructors()[0];
        Object[] arguments = new Object[constructor.getParameterCount()];
        arguments[0] = name;
        arguments[1] = kind;
        arguments[2] = storage;
        arguments[3] = type;
        arguments[4] = Option.apply("delta");
        for (int i = WITHOUT_DEFAULTS; i < arguments.length; i++) {
            arguments[i] = defaultOf(CatalogTable.class, i);
        }
        return (CatalogTable) constructor.newInstance(arguments);
    }

    /** Makes the name of a table in Spark's own catalog, which Spark 3.5.0 leaves out. */
    static QualifiedTableName qualifiedName(String database, String table)
            throws ReflectiveOperationException {
        Constructor<?> constructor = QualifiedTableName.class.getConstructors()[0];
        Object[] names = {"spark_catalog", database, table};
        int omitted = names.length - constructor.getParameterCount();
        return (QualifiedTableName)
                constructor.newInstance(Arrays.copyOfRange(names, omitted, names.length));
    }

    /** Makes the storage of an entry; the location is its first parameter. */
    private static CatalogStorageFormat storage(Map<String, String> options, URI place)
            throws ReflectiveOperationException {
        Constructor<?> constructor = CatalogStorageFormat.class.getConstructors()[0];
        Class<?>[] types = constructor.getParameterTypes();
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            if (types[i] == Option.class) {
                arguments[i] = i == 0 ? Option.apply(place) : Option.empty();
            } else if (types[i] == boolean.class) {
                arguments[i] = Boolean.FALSE;
            } else {
                arguments[i] = CollectionConverters.asScala(options).toMap(null);
            }
        }
        return (CatalogStorageFormat) constructor.newInstance(arguments);
    }

    private static Object defaultOf(Class<?> type, int parameter)
            throws ReflectiveOperationException {
        Class<?> companion = Class.forName(type.getName() + "$", true, type.getClassLoader());
        Object defaults = companion.getField("MODULE$").get(null);
        return companion.getMethod("apply$default$" + (parameter + 1)).invoke(defaults);
    }
}
