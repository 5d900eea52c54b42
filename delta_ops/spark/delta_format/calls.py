"""Calls of a reader or writer: records the arguments of its methods for delta_ops.

A classic reader keeps its state in the JVM, and a Connect writer in a message. Neither state is
read. The arguments are stored on the Python object instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import to_str

from delta_ops.spark.expressions.column_text import sql_of
from delta_ops.spark.versions import is_connect

_CALLS = "_delta_ops_calls"
"""The attribute of a reader or writer that holds its `Calls`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Recorded arguments of one reader or writer; a later call replaces an earlier one."""

    format: str | None = None
    options: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name and value, by the name in lower case."""
    table: str | None = None
    """The table in the call of `writeTo`."""
    table_properties: tuple[tuple[str, str], ...] = ()
    """Properties of a new table, from `writeTo(...).tableProperty`."""
    schema: Any = None
    """A DDL string or a Spark type."""
    mode: str | None = None
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    has_transforms: bool = False
    """Whether `partitionedBy` got an expression such as years(time)."""
    has_buckets: bool = False
    """Whether `bucketBy` or `sortBy` was called."""
    output_mode: str | None = None
    query_name: str | None = None
    trigger: Mapping[str, Any] | None = None


def calls_of(target: object) -> Calls:
    """The recorded calls of a reader or writer."""
    return getattr(target, _CALLS, None) or Calls()


def remember(target: object, calls: Calls) -> None:
    """Store the recorded calls on a reader or writer."""
    setattr(target, _CALLS, calls)


def session_of(target: Any) -> SparkSession:
    """The session of a reader or writer, batch or streaming, classic or Connect."""
    for name in ("_spark", "_client", "_session"):
        found = getattr(target, name, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise AttributeError(f"{type(target).__name__} has no attribute with its session")


def frame_of(writer: Any) -> DataFrame:
    """The DataFrame of a writer."""
    session = session_of(writer)
    if not is_connect(session):
        return writer._df  # type: ignore[no-any-return]
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

    stream = getattr(writer, "_write_stream", None)
    plan = writer._df if stream is None else stream._child
    return ConnectDataFrame(plan, session)  # type: ignore[arg-type]


def _format(calls: Calls, source: str) -> Calls:
    return replace(calls, format=source)


def _using(calls: Calls, provider: str) -> Calls:
    return replace(calls, format=provider)


def _write_to(calls: Calls, *made_of: Any, table: str | None = None, **_: Any) -> Calls:
    texts = [each for each in made_of if isinstance(each, str)]
    return replace(calls, table=texts[0] if texts else table)


def _foreach(calls: Calls, *_: Any, **__: Any) -> Calls:
    return replace(calls, format="foreach")


def _schema(calls: Calls, schema: Any) -> Calls:
    return replace(calls, schema=schema)


def _option(calls: Calls, key: str, value: Any) -> Calls:
    return _options(calls, **{key: value})


def _options(calls: Calls, **options: Any) -> Calls:
    known = dict(calls.options)
    for name, value in options.items():
        if value is None:
            continue
        known[name.lower()] = (name, to_str(value) or "")
    return replace(calls, options=known)


def _mode(calls: Calls, saveMode: str | None) -> Calls:  # noqa: N803  (Spark's name)
    return calls if saveMode is None else replace(calls, mode=saveMode)


def _partition_by(calls: Calls, *cols: Any) -> Calls:
    return replace(calls, partition_by=_names(cols))


def _note_partitioning(calls: Calls, *cols: Any, **named: Any) -> Calls:
    texts = [each if isinstance(each, str) else sql_of(each) for each in (*cols, *named.values())]
    names = tuple(text for text in texts if text is not None and not text.startswith("("))
    return replace(calls, partition_by=names, has_transforms=len(names) < len(texts))


def _table_property(calls: Calls, property: str, value: str) -> Calls:  # noqa: A002  (Spark's name)
    return replace(calls, table_properties=(*calls.table_properties, (property, value)))


def _cluster_by(calls: Calls, *cols: Any) -> Calls:
    return replace(calls, cluster_by=_names(cols))


def _bucket_by(calls: Calls, *_: Any, **__: Any) -> Calls:
    return replace(calls, has_buckets=True)


def _output_mode(calls: Calls, outputMode: str) -> Calls:  # noqa: N803  (Spark's name)
    return replace(calls, output_mode=outputMode)


def _query_name(calls: Calls, queryName: str) -> Calls:  # noqa: N803  (Spark's name)
    return replace(calls, query_name=queryName)


def _trigger(calls: Calls, **trigger: Any) -> Calls:
    return replace(calls, trigger=trigger)


def _names(columns: tuple[Any, ...]) -> tuple[str, ...]:
    nested = len(columns) == 1 and isinstance(columns[0], list | tuple)
    return tuple(columns[0]) if nested else columns


NOTES: Mapping[str, Callable[..., Calls]] = {
    "format": _format,
    "using": _using,
    "foreach": _foreach,
    "foreachBatch": _foreach,
    "schema": _schema,
    "option": _option,
    "options": _options,
    "mode": _mode,
    "partitionBy": _partition_by,
    "clusterBy": _cluster_by,
    "bucketBy": _bucket_by,
    "sortBy": _bucket_by,
    "outputMode": _output_mode,
    "queryName": _query_name,
    "trigger": _trigger,
}
"""Functions that add a method's arguments to the calls, by method name."""
NOTES_OF_WRITE_TO = {
    **NOTES,
    "__init__": _write_to,
    "partitionedBy": _note_partitioning,
    "tableProperty": _table_property,
}
"""As `NOTES`, for `DataFrameWriterV2`."""
