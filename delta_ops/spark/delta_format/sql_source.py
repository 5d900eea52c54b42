"""The SQL source: tables by the provider "delta" in Spark's own SQL, to be read.

`CREATE TABLE ... USING delta LOCATION`, temporary views, and paths in queries. Spark looks for the
class `delta.DefaultSource`; ours is compiled in the driver (`compiled`) and asks Python for the
table. A path comes from a catalog with the name `delta`, which makes of it a table of that
provider. Where there is no such catalog, the path comes to the class as to a format of files and is
refused with our sentence; every method of such a format refuses, for Spark reads the relation that
the class makes. That hands Spark the rows of the newest version when a query is planned, as a plan
over our own file index, to which it has given the query's columns and filters. So columns are
pruned, partitions and files left out, and no Python worker is used. All else that SQL might do with
a table is refused.

The classes depend on internals of Spark, as the file index does.
"""

from __future__ import annotations

import contextlib
import json
import logging
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors
from delta_ops.spark.delta_format.sql_statements import refusal_of
from delta_ops.spark.session.session import is_connect

logger = logging.getLogger(__name__)

_CLASS = "delta.DefaultSource"
_REGISTER = "org.apache.spark.sql.sources.DataSourceRegister"
_CATALOG, _CATALOG_CLASS = "spark.sql.catalog.delta", "delta.PathCatalog"
_JAVA = """
package delta;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.QueryContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.QualifiedTableName;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.AlterTableSetPropertiesCommand;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CatalystScan;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Function1;
import scala.Option;
import scala.collection.JavaConverters;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

public class DefaultSource implements RelationProvider, SchemaRelationProvider,
    CreatableRelationProvider, FileFormat, DataSourceRegister {
  private static final String UNREGISTERED =
      "the format \\"delta\\" is not registered; call delta_ops.spark.register(spark)";
  private static volatile Function python;

  public DefaultSource() {}

  // By which Spark finds the class, whatever the case of USING DELTA.
  public String shortName() { return "delta"; }

  public void use(Function answers) { python = answers; }

  static Function answers() { return python; }

  static boolean isUsed() { return python != null; }

  public void guard(org.apache.spark.sql.SparkSession session) { StatementGuard.watch(session); }

  static Object ask(Function asked, Object with) {
    if (asked == null) refuse(UNREGISTERED);
    Object answer = asked.apply(with);
    if (answer instanceof RuntimeException) refuse(((RuntimeException) answer).getMessage());
    return answer;
  }

  // As an error of analysis, the only one that Spark lets through with its text.
  static RuntimeException refuse(String reason) {
    Platform.throwException(new AnalysisException(
        reason, Option.empty(), Option.empty(), Option.empty(), Option.empty(),
        JavaConverters.mapAsScalaMap(new HashMap()).toMap(null), new QueryContext[0]));
    return null;
  }

  static RuntimeException refuseWrite() {
    return refuse(python == null ? UNREGISTERED :
        "SQL with delta_ops reads Delta tables, and does no more; write by "
        + "df.write.format(\\"delta\\").save(path) or DeltaTable of delta_ops.tables, and read "
        + "streams by readStream.format(\\"delta\\").load(path)");
  }

  public BaseRelation createRelation(SQLContext context, Map options) {
    return createRelation(context, options, null);
  }

  // The columns are those of the catalog, or of who creates a table there.
  public BaseRelation createRelation(SQLContext context, Map options, StructType known) {
    return new LogRelation(
        context, open(context.sparkSession(), JavaConverters.mapAsJavaMap(options), known));
  }

  static Function open(Object session, java.util.Map options, StructType known) {
    Object asked = new Object[] {session, options, known == null ? null : known.json()};
    return (Function) ask(python, asked);
  }

  // Before Spark would take a format of files at its word.
  public BaseRelation createRelation(SQLContext c, SaveMode mode, Map options, Dataset rows) {
    throw refuseWrite();
  }

  public Option inferSchema(org.apache.spark.sql.SparkSession s, Map options, Seq files) {
    throw refuseWrite();
  }

  public OutputWriterFactory prepareWrite(
      org.apache.spark.sql.SparkSession s, Job job, Map options, StructType schema) {
    throw refuseWrite();
  }

  public String toString() { return "delta"; }
}

// Makes of a path in a query a table of the provider, as a name of Spark's own catalog would be.
public class PathCatalog implements TableCatalog {
  public PathCatalog() {}

  public void initialize(String name, CaseInsensitiveStringMap options) {}

  public String name() { return "delta"; }

  public Identifier[] listTables(String[] namespace) { return new Identifier[0]; }

  // Who is about to write.
  public Table loadTable(Identifier table, Set privileges) { throw DefaultSource.refuseWrite(); }

  // Spark has no versions of tables of this kind.
  public Table loadTable(Identifier table, String version) { throw refuseVersion(); }

  public Table loadTable(Identifier table, long micros) { throw refuseVersion(); }

  private static RuntimeException refuseVersion() {
    return DefaultSource.refuse(
        "write the version or the time at the end of the path, delta.`/path@v3` or "
        + "delta.`/path@20260131120000000`, in the place of VERSION AS OF or TIMESTAMP AS OF");
  }

  public Table loadTable(Identifier table) {
    String path = table.name();
    if (table.namespace().length > 0 || path.indexOf('/') < 0) {
      Platform.throwException(new NoSuchTableException(table));
    }
    HashMap options = new HashMap();
    options.put("path", path);
    org.apache.spark.sql.classic.SparkSession session =
        org.apache.spark.sql.classic.SparkSession.active();
    Function opened = DefaultSource.open(session, options, null);
    StructType type = (StructType) DataType.fromJson((String) DefaultSource.ask(opened, "schema"));
    TableIdentifier name = new TableIdentifier(
        path, Option.apply("delta"), Option.apply("spark_catalog"));
    // Spark would keep the relation, with the columns of today, until somebody refreshes it.
    session.sessionState().catalog().invalidateCachedTable(
        new QualifiedTableName("spark_catalog", "delta", path));
    try {
      return new V1Table(tableOf(name, options, type));
    } catch (ReflectiveOperationException error) {
      throw new UnsupportedOperationException(error);
    }
  }

  // Versions of Spark differ in how many more there are, all of which have defaults.
  private static CatalogTable tableOf(TableIdentifier name, HashMap options, StructType type)
      throws ReflectiveOperationException {
    Constructor constructor = CatalogTable.class.getConstructors()[0];
    Object[] given = new Object[constructor.getParameterCount()];
    given[0] = name;
    given[1] = CatalogTableType.EXTERNAL();
    given[2] = storageOf(options);
    given[3] = type;
    given[4] = Option.apply("delta");
    Class companion = Class.forName(
        CatalogTable.class.getName() + "$", true, CatalogTable.class.getClassLoader());
    Object defaults = companion.getField("MODULE$").get(null);
    for (int i = 5; i < given.length; i++) {
      given[i] = companion.getMethod("apply$default$" + (i + 1), new Class[0])
          .invoke(defaults, new Object[0]);
    }
    return (CatalogTable) constructor.newInstance(given);
  }

  private static CatalogStorageFormat storageOf(HashMap options)
      throws ReflectiveOperationException {
    Constructor constructor = CatalogStorageFormat.class.getConstructors()[0];
    Class[] types = constructor.getParameterTypes();
    Object[] given = new Object[types.length];
    for (int i = 0; i < types.length; i++) {
      if (types[i] == Option.class) given[i] = Option.empty();
      else if (types[i] == boolean.class) given[i] = Boolean.FALSE;
      else given[i] = JavaConverters.mapAsScalaMap(options).toMap(null);
    }
    return (CatalogStorageFormat) constructor.newInstance(given);
  }

  public Table createTable(Identifier table, TableInfo info) { throw DefaultSource.refuseWrite(); }

  public Table alterTable(Identifier table, TableChange[] changes) {
    throw DefaultSource.refuseWrite();
  }

  public boolean dropTable(Identifier table) { throw DefaultSource.refuseWrite(); }

  public void renameTable(Identifier from, Identifier to) { throw DefaultSource.refuseWrite(); }
}

// Refuses statements that only the catalog would follow, and that it would answer wrongly.
class StatementGuard extends SparkStrategy {
  private final org.apache.spark.sql.classic.SparkSession session;

  StatementGuard(org.apache.spark.sql.classic.SparkSession session) { this.session = session; }

  static void watch(org.apache.spark.sql.SparkSession given) {
    org.apache.spark.sql.classic.SparkSession session =
        (org.apache.spark.sql.classic.SparkSession) given;
    Seq known = session.experimental().extraStrategies();
    for (int i = 0; i < known.size(); i++) if (known.apply(i) instanceof StatementGuard) return;
    session.experimental().extraStrategies_$eq(
        (Seq) known.prepended(new StatementGuard(session)));
    session.extensions().injectPlannerStrategy(new GuardBuilder());
  }

  public Seq apply(LogicalPlan plan) {
    if (plan instanceof Command && DefaultSource.isUsed()) {
      CatalogTable table = null;
      try {
        table = tableOf(plan);
      } catch (Exception error) {
        // Of a table that is gone, or a statement that this version of Spark has otherwise.
      }
      if (table != null && isDelta(table)) {
        String place = placeOf(table);
        Object answer = DefaultSource.ask(DefaultSource.answers(), new Object[] {
            plan.getClass().getSimpleName(), place, saysOf(plan, table)});
        if (answer != null) DefaultSource.refuse((String) answer);
      }
    }
    return JavaConverters.asScalaBuffer(new ArrayList()).toSeq();
  }

  private static boolean isDelta(CatalogTable table) {
    return table.provider().isDefined()
        && "delta".equalsIgnoreCase((String) table.provider().get());
  }

  private static String placeOf(CatalogTable table) {
    Option place = table.storage().locationUri();
    return place.isDefined() ? new Path((java.net.URI) place.get()).toString() : "";
  }

  // What else the statement, or a new name of a table, says of the table.
  private static String saysOf(LogicalPlan plan, CatalogTable table) {
    if (plan instanceof AlterTableSetPropertiesCommand
        && ((AlterTableSetPropertiesCommand) plan).properties().contains("clusteringColumns")) {
      return "clustering";
    }
    boolean hasMore = !table.properties().isEmpty() || table.comment().isDefined()
        || !table.partitionColumnNames().isEmpty();
    return hasMore ? "properties" : "";
  }

  private CatalogTable tableOf(LogicalPlan plan) throws Exception {
    Method[] methods = plan.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getParameterCount() > 0) continue;
      Class type = methods[i].getReturnType();
      if (type == CatalogTable.class) {
        return (CatalogTable) methods[i].invoke(plan, new Object[0]);
      }
      if (type == TableIdentifier.class) {
        TableIdentifier name = (TableIdentifier) methods[i].invoke(plan, new Object[0]);
        SessionCatalog catalog = session.sessionState().catalog();
        if (!catalog.isTempView(name) && catalog.tableExists(name)) {
          return catalog.getTableMetadata(name);
        }
      }
    }
    for (int i = 0; i < plan.children().size(); i++) {
      Object child = plan.children().apply(i);
      if (child instanceof ResolvedTable && ((ResolvedTable) child).table() instanceof V1Table) {
        return ((V1Table) ((ResolvedTable) child).table()).v1Table();
      }
    }
    return null;
  }
}

// Guards sessions that begin later.
class GuardBuilder extends AbstractFunction1 {
  public Object apply(Object session) {
    return new StatementGuard((org.apache.spark.sql.classic.SparkSession) session);
  }
}

class LogRelation extends BaseRelation implements CatalystScan, InsertableRelation {
  private final SQLContext context;
  private final Function table;
  private final StructType type;
  private final long size;

  LogRelation(SQLContext context, Function table) {
    this.context = context;
    this.table = table;
    this.type = (StructType) DataType.fromJson((String) DefaultSource.ask(table, "schema"));
    this.size = Long.parseLong((String) DefaultSource.ask(table, "size"));
  }

  public SQLContext sqlContext() { return context; }
  public StructType schema() { return type; }
  public long sizeInBytes() { return size; }
  public boolean needConversion() { return false; }
  public String toString() { return "delta"; }

  // Else Spark refuses with a sentence that names no way.
  public void insert(Dataset rows, boolean overwrite) { throw DefaultSource.refuseWrite(); }

  public RDD buildScan(Seq columns, Seq filters) {
    org.apache.spark.sql.classic.Dataset rows =
        (org.apache.spark.sql.classic.Dataset) DefaultSource.ask(table, "rows");
    LogicalPlan plan = rows.queryExecution().analyzed();
    ColumnsByName read = new ColumnsByName(type, plan.output());
    for (int i = 0; i < filters.size(); i++) {
      Expression filter = (Expression) filters.apply(i);
      if (filter.deterministic() && !SubqueryExpression.hasSubquery(filter)) {
        plan = new Filter((Expression) filter.transformUp(read), plan);
      }
    }
    ArrayList wanted = new ArrayList();
    for (int i = 0; i < columns.size(); i++) wanted.add(read.find((Attribute) columns.apply(i)));
    plan = new Project(JavaConverters.asScalaBuffer(wanted).toSeq(), plan);
    org.apache.spark.sql.classic.SparkSession session =
        (org.apache.spark.sql.classic.SparkSession) context.sparkSession();
    return org.apache.spark.sql.classic.Dataset.ofRows(session, plan).queryExecution().toRdd();
  }
}

// The columns of a query as those of the rows that are read, which have the same order.
class ColumnsByName extends AbstractPartialFunction {
  private final StructType type;
  private final Seq output;

  ColumnsByName(StructType type, Seq output) {
    this.type = type;
    this.output = output;
  }

  Object find(Attribute column) { return output.apply(type.fieldIndex(column.name())); }

  public boolean isDefinedAt(Object node) { return node instanceof AttributeReference; }

  public Object applyOrElse(Object node, Function1 other) {
    return isDefinedAt(node) ? find((Attribute) node) : other.apply(node);
  }
}
"""

Open = Callable[[SparkSession, Mapping[str, str]], DataFrame]
"""Reads a table by the options of SQL, at the version that is the newest then."""


_provided: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The class of ours, by the application of which SQL knows the provider."""


class SqlUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the source."""


def provide(spark: SparkSession, open_table: Open) -> None:
    """Let SQL of all sessions of this process read tables by the provider "delta".

    Args:
        spark: A classic session.

    Raises:
        SqlUnavailableError: The source cannot be had here.
    """
    try:
        context: Any = spark.sparkContext
        start_callbacks: Callable[[Any], None] = ensure_callback_server_started
        start_callbacks(context._gateway)
        source = instance_on_executors(spark, _CLASS, _JAVA, {_REGISTER: _CLASS})
        source.use(_Answers(_Opened(context, open_table).answer, context))
        source.guard(spark._jsparkSession)
        _provided[context] = source
        _name_catalog(spark)
    except OBSTACLES as error:
        raise SqlUnavailableError(first_line(error)) from error


def _name_catalog(spark: SparkSession) -> None:
    """Let this session, and those that begin later, find paths in queries.

    A catalog comes before a database of its name, and before what somebody else calls so.
    """
    named = spark.conf.get(_CATALOG, None)
    if named == _CATALOG_CLASS or (named is None and not spark.catalog.databaseExists("delta")):
        context: Any = spark.sparkContext
        context._jsc.sc().conf().set(_CATALOG, _CATALOG_CLASS)
        spark.conf.set(_CATALOG, _CATALOG_CLASS)


def names_paths(spark: SparkSession) -> bool:
    """Whether queries of a session may name paths."""
    return spark.conf.get(_CATALOG, None) == _CATALOG_CLASS


def _forget_catalog(context: Any) -> None:
    settings = context._jsc.sc().conf()
    if settings.get(_CATALOG, "") == _CATALOG_CLASS:
        settings.remove(_CATALOG)


def is_provided(spark: SparkSession) -> bool:
    """Whether SQL of a session knows the provider."""
    return not is_connect(spark) and spark.sparkContext in _provided


def withdraw(spark: SparkSession) -> None:
    """Let SQL know the provider no longer; the classes stay, and say so.

    Args:
        spark: A session that shall forget the catalog; others that know it find it, and are told.
    """
    for context, source in _provided.items():
        with contextlib.suppress(*OBSTACLES):  # an application that has ended
            source.use(None)
            _forget_catalog(context)
    _provided.clear()
    with contextlib.suppress(*OBSTACLES):
        if not is_connect(spark) and spark.conf.get(_CATALOG, None) == _CATALOG_CLASS:
            spark.conf.unset(_CATALOG)


class _Opened(NamedTuple):
    """What opens tables."""

    context: Any
    open_table: Open

    def answer(self, asked: Any) -> Any:
        """The answers of the table that SQL asks for, or why a statement is refused."""
        if isinstance(asked[0], str):
            return refusal_of(*asked)
        session, options, known = asked
        table = _Table(SparkSession(self.context, session), dict(options), self.open_table)
        if known is not None:
            table.validate_known(StructType.fromJson(json.loads(known)))
        return _Answers(table.answer, self.context)


class _Table:
    """A table that queries of SQL name, with the columns that they were told."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], open_table: Open) -> None:
        self._spark, self._open = spark, partial(open_table, spark, options)
        first = self._open()
        self._columns, self._schema = first.schema, _json_of(first)
        plan: Any = first._jdf.queryExecution().optimizedPlan()
        self._size = str(min(int(str(plan.stats().sizeInBytes())), 2**62))

    def validate_known(self, known: StructType) -> None:
        """Refuse columns that the table does not have; a catalog may know less than all.

        Raises:
            InvalidRequestError: With their names.
        """
        types = {each.name.lower(): each.dataType.simpleString() for each in self._columns.fields}
        others = [
            f"{each.name} {each.dataType.simpleString()}"
            for each in known.fields
            if types.get(each.name.lower()) != each.dataType.simpleString()
        ]
        if others:
            raise InvalidRequestError(
                f"the table has no column {', '.join(others)}; create it in the catalog without "
                "columns, which the table has itself. If they have changed since, DROP TABLE, "
                "which leaves the files, and create it there again"
            )

    def answer(self, asked: str) -> Any:
        """The columns, the size, or the rows of the newest version."""
        match asked:
            case "schema":
                return self._schema
            case "size":
                return self._size
        rows = self._open()
        if _json_of(rows) != self._schema:
            # Spark keeps the columns of a table that it knows by name; a new query asks for them.
            forget_columns(self._spark)
            raise InvalidRequestError(
                "the table's columns have changed since the query, or the session, knows them; "
                "REFRESH TABLE it, or run the query again"
            )
        return rows._jdf


def forget_columns(spark: SparkSession) -> None:
    """Let a session ask tables that it knows by name for their columns when it plans a query."""
    session: Any = spark
    session._jsparkSession.sessionState().catalog().invalidateAllCachedTables()


def _json_of(rows: DataFrame) -> str:
    return json.dumps(rows.schema.jsonValue())


class _Answers:
    """What Spark's process calls; an error goes there as one of Java's, which SQL raises."""

    def __init__(self, answer: Callable[[Any], Any], context: Any) -> None:
        self._answer, self._context = answer, context

    def apply(self, asked: Any) -> Any:
        """Answer one call."""
        try:
            return self._answer(asked)
        except DeltaOpsError as error:
            return self._failure(str(error))
        except Exception as error:
            logger.exception("A query failed")
            return self._failure(f"{type(error).__name__}: {error}")

    def _failure(self, text: str) -> Any:
        return self._context._jvm.java.lang.UnsupportedOperationException(text)

    class Java:
        """The interfaces, as Py4J asks for them."""

        implements = ("java.util.function.Function",)
