"""The stream source: a table as a source of Spark's streams, planned here and read natively.

Spark asks a `Source` for offsets and for the rows between two of them. Ours is compiled in the
driver (`compiled`) and asks Python, which answers with the text of an offset, or with a DataFrame
over the project's own file index; its relations are marked as those of a stream. So rows go as they
go in a batch: pruned columns, filters that are pushed down, no Python worker. The source reaches
Spark inside a plan, without a name that a class loader would look up.

The classes depend on internals of Spark, as the file index does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import DeltaOpsError
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_of
from delta_ops.spark.session.session import is_connect

logger = logging.getLogger(__name__)

_CLASS = "LogStreams"
_JAVA = """
import java.util.ArrayList;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.JavaConverters;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

public class LogStreams {
  public Dataset stream(SparkSession session, String name, String schema, Function open) {
    StructType type = (StructType) DataType.fromJson(schema);
    LogDataSource source = new LogDataSource(session, name, type, open);
    return Dataset.ofRows(session, new StreamingRelation(
        source, name, DataTypeUtils.toAttributes(type),
        StreamingRelation.$lessinit$greater$default$4()));
  }
}

// Of Spark's own it has only the place in a plan: nothing is looked up by the name that it gives.
class LogDataSource extends DataSource {
  private final SparkSession session;
  private final String name;
  private final StructType type;
  private final Function open;

  LogDataSource(SparkSession session, String name, StructType type, Function open) {
    super(session, "rate", none(), Option.empty(), none(), Option.empty(),
        new scala.collection.mutable.LinkedHashMap().toMap(null), Option.empty(), Option.empty());
    this.session = session;
    this.name = name;
    this.type = type;
    this.open = open;
  }

  private static Seq none() { return JavaConverters.asScalaBuffer(new ArrayList()).toSeq(); }

  public Source createSource(String place) {
    return new LogSource(session, name, type, (Function) LogSource.ask(open, "open", null, null));
  }
}

class LogSource implements Source, SupportsTriggerAvailableNow {
  private final SparkSession session;
  private final String name;
  private final StructType type;
  private final Function stream;

  LogSource(SparkSession session, String name, StructType type, Function stream) {
    this.session = session;
    this.name = name;
    this.type = type;
    this.stream = stream;
  }

  static Object ask(Function python, String what, String start, String end) {
    // As one text: Py4J would ask for the parts of a list one by one.
    String asked = what + "\\n" + (start == null ? "" : start) + "\\n" + (end == null ? "" : end);
    Object answer = python.apply(asked);
    if (answer instanceof RuntimeException) throw (RuntimeException) answer;
    return answer;
  }

  private static String json(Object offset) {
    return offset == null
        ? null
        : ((org.apache.spark.sql.connector.read.streaming.Offset) offset).json();
  }

  public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
      org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    String what = limit instanceof ReadAllAvailable ? "end of all" : "end";
    return deserializeOffset((String) ask(stream, what, json(start), null));
  }

  public org.apache.spark.sql.Dataset getBatch(Option start, Offset end) {
    String from = start.isDefined() ? json(start.get()) : null;
    String to = json(end);
    // Spark asks so for a batch that was done, when a query starts again, and drops the rows.
    Object rows = to.equals(from) ? null : ask(stream, "rows", from, to);
    LogicalPlan plan = rows == null
        ? new LocalRelation(DataTypeUtils.toAttributes(type),
            JavaConverters.asScalaBuffer(new ArrayList()).toSeq(), true, Option.empty())
        : (LogicalPlan) ((Dataset) rows).queryExecution().analyzed().transformUp(new OfStream());
    return Dataset.ofRows(session, plan);
  }

  public org.apache.spark.sql.connector.read.streaming.Offset deserializeOffset(String json) {
    return json == null ? null : SerializedOffset.apply(json);
  }

  public void prepareForTriggerAvailableNow() { ask(stream, "stop at latest", null, null); }

  // As no limit: which the source was given, it applies by itself.
  public ReadLimit getDefaultReadLimit() { return ReadLimit.maxFiles(Integer.MAX_VALUE); }

  public StructType schema() { return type; }
  public Option getOffset() { throw new UnsupportedOperationException("latestOffset is asked"); }
  public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() { return null; }
  public org.apache.spark.sql.connector.read.streaming.Offset initialOffset() {
    throw new UnsupportedOperationException("of a source of this kind Spark asks none");
  }
  public void commit(Offset end) {}
  public void commit(org.apache.spark.sql.connector.read.streaming.Offset end) {}
  public void stop() {}
  public String toString() { return name; }
}

// Relations of files as those of a stream, which is all that tells such a plan from a batch's.
class OfStream extends AbstractPartialFunction {
  public boolean isDefinedAt(Object plan) { return plan instanceof LogicalRelation; }

  public Object applyOrElse(Object plan, Function1 other) {
    if (!isDefinedAt(plan)) return other.apply(plan);
    LogicalRelation relation = (LogicalRelation) plan;
    return relation.copy(
        relation.relation(), relation.output(), relation.catalogTable(), true, relation.stream());
  }
}
"""


class SourceUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the source."""


class StreamedTable(Protocol):
    """A table as one query reads it; offsets are texts."""

    def stop_at_latest(self) -> None:
        """Read as far as what is there now."""

    def end_after(self, start: str | None, *, is_limited: bool) -> str | None:
        """The place up to which the next batch reads; None where there is nothing yet."""

    def rows_between(self, start: str | None, end: str) -> DataFrame | None:
        """The rows of a batch; None: none."""


def streaming_frame(
    spark: SparkSession, name: str, schema: StructType, open_table: Callable[[], StreamedTable]
) -> DataFrame:
    """The rows of a table as a stream.

    Args:
        spark: A classic session.
        name: What Spark shows of the source.
        schema: The columns of every batch.
        open_table: Called by each query that starts.

    Raises:
        SourceUnavailableError: It cannot be had here.
    """
    if is_connect(spark):
        raise SourceUnavailableError("it is a session of Spark Connect")
    try:
        context: Any = spark.sparkContext
        start_callbacks: Callable[[Any], None] = ensure_callback_server_started
        start_callbacks(context._gateway)
        streams = instance_of(spark, _CLASS, _JAVA)
        failure = context._jvm.java.lang.IllegalStateException
        opened = _Answers(lambda *_: _Answers(_answer(open_table()), failure), failure)
        made = streams.stream(spark._jsparkSession, name, schema.json(), opened)
        return DataFrame(made, spark)
    except OBSTACLES as error:
        raise SourceUnavailableError(first_line(error)) from error


_Answer = Callable[[str, str | None, str], Any]


def _answer(table: StreamedTable) -> _Answer:
    def answer(what: str, start: str | None, end: str) -> Any:
        match what:
            case "stop at latest":
                return table.stop_at_latest()
            case "end" | "end of all":
                return table.end_after(start, is_limited=what == "end")
        rows = table.rows_between(start, end)
        return None if rows is None else rows._jdf

    return answer


class _Answers:
    """What Spark's process calls; an error goes there as one of Java's, which the query raises."""

    def __init__(self, answer: _Answer, failure: Callable[[str], Any]) -> None:
        self._answer, self._failure = answer, failure

    def apply(self, asked: str) -> Any:
        """Answer one call, whose words stand in lines."""
        what, start, end = asked.split("\n")
        try:
            return self._answer(what, start or None, end)
        except DeltaOpsError as error:
            return self._failure(str(error))
        except Exception as error:
            logger.exception("A stream failed")
            return self._failure(f"{type(error).__name__}: {error}")

    class Java:
        """The Java interface, as Py4J wants to be told of it."""

        implements = ("java.util.function.Function",)
