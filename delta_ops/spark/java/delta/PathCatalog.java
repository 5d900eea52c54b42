package delta;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Option;

/** The catalog "delta": a path in a query becomes a table of the provider "delta". */
public class PathCatalog implements TableCatalog {
    private static final String VERSION_IN_PATH =
            "write the version or the time at the end of the path, delta.`/path@v3` or "
                    + "delta.`/path@20260131120000000`, in the place of VERSION AS OF or "
                    + "TIMESTAMP AS OF";

    /** Spark calls it by reflection. */
    public PathCatalog() {}

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {}

    @Override
    public String name() {
        return "delta";
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public Table loadTable(Identifier table) {
        String path = table.name();
        if (table.namespace().length > 0 || path.indexOf('/') < 0) {
            Platform.throwException(new NoSuchTableException(table));
        }
        Map<String, String> options = new HashMap<>();
        options.put("path", path);
        SparkSession session = SparkSession.active();
        Function<Object, Object> opened = Python.open(session, options, null);
        StructType type = (StructType) DataType.fromJson((String) Python.ask(opened, "schema"));
        forgetColumns(session, path);
        TableIdentifier name =
                new TableIdentifier(path, Option.apply("delta"), Option.apply("spark_catalog"));
        try {
            return new V1Table(CatalogTables.external(name, options, type));
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException(error);
        }
    }

    /** Spark would keep the relation with its columns of today until somebody refreshes it. */
    private static void forgetColumns(SparkSession session, String path) {
        try {
            session.sessionState()
                    .catalog()
                    .invalidateCachedTable(CatalogTables.qualifiedName("delta", path));
        } catch (ReflectiveOperationException error) {
            throw new UnsupportedOperationException(error);
        }
    }

    /** Spark calls it before a write. Versions before 3.5.3 lack this method. */
    @SuppressWarnings("rawtypes")
    public Table loadTable(Identifier table, Set privileges) {
        throw Python.refuseWrite();
    }

    @Override
    public Table loadTable(Identifier table, String version) {
        throw Python.refuse(VERSION_IN_PATH);
    }

    @Override
    public Table loadTable(Identifier table, long micros) {
        throw Python.refuse(VERSION_IN_PATH);
    }

    @SuppressWarnings("deprecation") // the only one that all versions have, and call
    @Override
    public Table createTable(
            Identifier table,
            StructType type,
            Transform[] partitions,
            Map<String, String> properties) {
        throw Python.refuseWrite();
    }

    @Override
    public Table alterTable(Identifier table, TableChange... changes) {
        throw Python.refuseWrite();
    }

    @Override
    public boolean dropTable(Identifier table) {
        throw Python.refuseWrite();
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw Python.refuseWrite();
    }
}
