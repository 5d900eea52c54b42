"""Versions of Spark: the differences between PySpark 3.5 and 4.3, each by a name.

No other module compares versions or imports what only some versions have. `java_sources` has the
differences of the Java sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession, types
from pyspark.sql import functions as sf
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DataType

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.installed_version import OLDEST, VERSION, Version, version_of, version_text
from delta_ops.spark.java_classes import java_class

_T = TypeVar("_T")
_E = TypeVar("_E", bound=PySparkException)
_P = ParamSpec("_P")

HAS_NODES = VERSION >= (4, 0)
"""Whether a column of a classic session is a node of PySpark's; else it is one of Catalyst."""
_ROWS_OF_BATCH = 10_000
_SETTINGS_SINCE: Mapping[str, Version] = {
    "spark.sql.variant.writeShredding.enabled": (4, 0),
    "spark.sql.variant.allowReadingShredded": (4, 0),
    "spark.sql.parquet.variant.annotateLogicalType.enabled": (4, 1),
}
"""The first version with a setting that not all versions have."""
CONSECUTIVE_LITERALS = "spark.sql.legacy.consecutiveStringLiterals.enabled"
"""Setting by which a doubled quote in a string literal is two literals side by side."""
_ON_BEFORE: Mapping[str, Version] = {CONSECUTIVE_LITERALS: (4, 0)}
"""Settings for the behavior of versions before this one, which lack the setting."""


OLDEST_JAVA = 17 if VERSION >= (4, 0) else 8
"""The oldest Java that this Spark runs on. Executors may run it, even if the driver is later."""
NEWEST_JAVA = None if VERSION >= (4, 2) else 23
"""The newest Java that Spark runs on; Java 24 removed a method that older Hadoop calls."""
CONNECT: Version = (4, 0)
"""First version whose Connect sessions are supported."""
HAS_CONNECT = VERSION >= CONNECT
OBSERVATIONS: Version = (4, 1)
"""First version whose Connect server reports all observations of a write."""
STREAM_LIMITS: Version = (4, 2)
"""First version whose Python sources of streams receive the start and the limits of a batch."""
HAS_STREAM_LIMITS = VERSION >= STREAM_LIMITS
VARIANTS: Version = (4, 0)
"""First version with variants."""
SQL_PATHS = "3.5.3"
"""First version whose SQL reads files of a catalog that is not Spark's own (SPARK-49211)."""


def require(spark: SparkSession, since: Version, what: str) -> None:
    """Reject a request that the session's Spark is too old for; on Connect, the server's Spark.

    Raises:
        InvalidRequestError: Names the first version that supports the request.
    """
    _require(spark.version, since, what)


def reads_paths(version: str) -> bool:
    """Whether SQL of a version of Spark can read tables by their paths."""
    found, needed = ([int(n) for n in re.findall(r"\d+", each)] for each in (version, SQL_PATHS))
    return found[:3] >= needed


def require_installed(since: Version, what: str) -> None:
    """Reject a request that the installed PySpark is too old for.

    Raises:
        InvalidRequestError: Names the first version that supports the request.
    """
    _require(pyspark.__version__, since, what)


def _require(found: str, since: Version, what: str) -> None:
    if version_of(found) < since:
        raise InvalidRequestError(
            f"{what} needs Spark {version_text(since)} or later, and this is Spark {found}; use a "
            "later version, or read and write the table with delta_ops.arrow"
        )


def known_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Leave out settings that this version lacks."""
    return {
        name: value
        for name, value in settings.items()
        if _SETTINGS_SINCE.get(name, OLDEST) <= VERSION
    }


def is_on(spark: SparkSession, setting: str) -> bool:
    """Whether a session behaves as if this setting is true."""
    if _ON_BEFORE.get(setting, OLDEST) > VERSION:
        return True
    return (spark.conf.get(setting, None) or "").lower() == "true"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Connect server, without its own JVM.

    Raises:
        InvalidRequestError: It is one of Spark 3.5, whose DataFrames and columns lack too much.
    """
    is_client = type(spark).__module__.startswith("pyspark.sql.connect.")
    if is_client:
        require_installed(CONNECT, "A session of Spark Connect")
    return is_client


def validate_session(spark: SparkSession) -> None:
    """Reject a session that this version does not support, before its server is called.

    Raises:
        InvalidRequestError: It is a session of Spark Connect, and Spark is too old for these.
    """
    is_connect(spark)


def arrow_of(rows: DataFrame) -> pa.Table:
    """Load rows; PySpark 3.5 lacks `DataFrame.toArrow`."""
    frame: Any = rows
    if VERSION >= (4, 0):
        return frame.toArrow()
    schema = to_arrow_schema(frame.schema)
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def arrow_schema_of(schema: types.StructType) -> pa.Schema:
    """The Arrow schema of rows; before Spark 4.2, PySpark takes no time zone and means UTC."""
    convert: Any = to_arrow_schema
    return convert(schema, timezone="UTC") if VERSION >= (4, 2) else convert(schema)


def frame_of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame with the rows of a table; PySpark 3.5 takes only pandas for this."""
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    if is_connect(spark):
        table = table.combine_chunks()  # Spark 4.0.0 ignores later batches (SPARK-53342)
    if VERSION >= (4, 0):
        return spark.createDataFrame(table, schema)
    session: Any = spark
    jvm = session._jvm
    batches = table.cast(to_arrow_schema(schema)).to_batches(max_chunksize=_ROWS_OF_BATCH)
    sent = session._sc._serialize_to_jvm(
        batches,
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(
        jvm.PythonSQLUtils.toDataFrame(sent, schema.json(), session._jsparkSession), spark
    )


def reports_one_observation(spark: SparkSession) -> bool:
    """Whether a server loses all observations of a write but the last; Spark Connect 4.0 does."""
    return is_connect(spark) and version_of(spark.version) < OBSERVATIONS


def figures_of(observed: Observation, table: str) -> Mapping[str, Any]:
    """The observed figures of a write; Spark Connect before 4.2 may lose them (SPARK-54279).

    Raises:
        InvalidRequestError: They are lost, so it is unknown whether rows break a rule.
    """
    found: Mapping[str, Any] = observed.get
    if not found:
        raise InvalidRequestError(
            f"{table}: the server of Spark Connect lost the figures of the write, so the rows "
            "could not be checked, and nothing was committed; write again, or use a server of "
            "Spark 4.2 or later"
        )
    return found


def thread_target(spark: SparkSession, call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a call for another thread; it runs there with the job properties of this thread."""
    wrap: Any = pyspark.inheritable_thread_target
    wrapped: Callable[_P, _T] = wrap(spark)(call) if VERSION >= (4, 0) else wrap(call)
    return wrapped


def setting_names(spark: SparkSession) -> Iterable[str]:
    """Names of all settings of a session that have a value; PySpark 3.5 has no call for them."""
    if is_connect(spark):
        return spark.conf.getAll
    jvm: Any = spark._jvm
    settings: Any = spark.conf._jconf
    if VERSION >= (4, 0):
        by_name = settings.getAllAsJava()
    else:
        converters = java_class(jvm, "scala.collection.JavaConverters")
        by_name = converters.mapAsJavaMap(settings.getAll())
    # One call for all names; iterating over a Java map takes several calls per entry.
    names: str = java_class(jvm, "java.lang.String").join("\n", by_name.keySet())
    return names.splitlines()


def metadata_column(rows: DataFrame, name: str) -> Column:
    """A column of Spark's metadata, even if a column of the rows has its name."""
    if VERSION >= (4, 0):
        return rows.metadataColumn(name)
    frame: Any = rows
    return Column(frame._jdf.metadataColumn(name))


def is_valid_utf8(text: Column) -> Column:
    """Whether the bytes of a string are valid UTF-8; Spark 3.5 has no function for it."""
    if VERSION >= (4, 0):
        return sf.is_valid_utf8(text)
    return sf.encode(sf.decode(text.cast("binary"), "UTF-8"), "UTF-8") == text.cast("binary")


def try_cast(value: Column, data_type: str) -> Column:
    """Convert a value; null if it cannot be converted. PySpark 3.5 has this in SQL only."""
    if VERSION >= (4, 0):
        return value.try_cast(data_type)
    column: Any = value
    context: Any = SparkContext._active_spark_context
    find = partial(java_class, context._jvm)
    wanted = find("org.apache.spark.sql.types.DataType").fromDDL(data_type)
    no_zone = find("scala.Option").empty()
    mode = find("org.apache.spark.sql.catalyst.expressions.EvalMode").TRY()
    make_cast = find("org.apache.spark.sql.catalyst.expressions.Cast")
    cast = make_cast(column._jc.expr(), wanted, no_zone, mode)
    return Column(find("org.apache.spark.sql.Column")(cast))


def type_of_ddl(text: str) -> DataType:
    """Parse a DDL string: a type, or the columns of a struct."""
    if VERSION >= (4, 0):
        return DataType.fromDDL(text)
    return types._parse_datatype_string(text)


def error_condition(error: PySparkException) -> str | None:
    """Name of an error's condition."""
    found: Any = error
    name: str | None = found.getCondition() if VERSION >= (4, 0) else found.getErrorClass()
    return name


def error_with_condition(kind: type[_E], message: str, condition: str | None) -> _E:
    """An error of PySpark with the name of its condition.

    PySpark 3.5 takes a message or a condition of its own list, but not both.
    """
    made: Any = kind
    if condition is not None and VERSION >= (4, 0):
        return cast(_E, made(message, errorClass=condition, messageParameters={}))
    error = made(message)
    if condition is not None:
        error.error_class, error.message_parameters = condition, {}
    return cast(_E, error)


def repartition_by_id(rows: DataFrame, num_partitions: int, number: Column) -> DataFrame:
    """Put each row into the partition with the row's number, an int from 0.

    Before Spark 4.1, each number is replaced by a number that Spark hashes to this partition.
    """
    if VERSION >= (4, 1):
        return rows.repartitionById(num_partitions, number)
    texts = sf.lit(json.dumps(numbers_by_hash(num_partitions).tolist()))
    return rows.repartition(num_partitions, sf.get(sf.from_json(texts, "array<int>"), number))


_CANDIDATES_OF_PARTITION = 64
"""Candidates tried at once, for each partition; a missing partition gets further candidates."""


def numbers_by_hash(num_partitions: int) -> npt.NDArray[np.int32]:
    """For each partition, an int that Spark's hash partitioning sends there."""
    chosen = np.full(num_partitions, -1, np.int32)
    first, step = 0, _CANDIDATES_OF_PARTITION * num_partitions
    while (chosen < 0).any():
        candidates = np.arange(first, first + step, dtype=np.int32)
        chosen[np.mod(hash_of(candidates), num_partitions)] = candidates
        first += step
    return chosen


def hash_of(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Spark's hash of ints, as the SQL function `hash` returns it.

    Source: `HashPartitioning` of Spark, the hash `Murmur3Hash` with the seed 42.
    """
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotate(mixed, 15) * np.uint32(0x1B873593)
        found = _rotate(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        found ^= np.uint32(4)  # the length of an int in bytes
        found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (found ^ (found >> np.uint32(16))).view(np.int32)


def _rotate(numbers: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
