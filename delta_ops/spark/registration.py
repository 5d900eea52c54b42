"""Registration: makes delta_ops handle `format("delta")` of Spark's readers and writers.

The methods of PySpark's readers and writers are wrapped, in every session of the process, and
`SparkSession.sql`. Arguments
of methods such as `option` go to Spark as usual and are also recorded. Final methods such as `load`
or `save` run in delta_ops if the format is "delta", and in Spark otherwise.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.option_words import Surface, speaking
from delta_ops.spark.delta_format.calls import NOTES, NOTES_OF_WRITE_TO, Calls, calls_of, remember
from delta_ops.spark.delta_format.catalog_tables import plain_path
from delta_ops.spark.delta_format.change_paths import options_of_changes
from delta_ops.spark.delta_format.dispatch import ACTS, Act
from delta_ops.spark.delta_format.readers import load, open_version
from delta_ops.spark.delta_format.sql_source import (
    SqlUnavailableError,
    names_paths,
    provide,
    withdraw,
)
from delta_ops.spark.delta_format.sql_statements import Tables
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.statements.routing import sql_with_delta
from delta_ops.spark.versions import SQL_PATHS, is_connect, reads_paths, validate_session

logger = logging.getLogger(__name__)

_PROVIDER = "org.apache.spark.sql.delta.sources.DeltaDataSource"
_SETTINGS = {
    "spark.sql.extensions": "io.delta.",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.",
}
"""Settings that enable delta-spark in a session, and the prefix of their values."""
_CURE = (
    "Leave delta-spark out of the session (its jar in spark.jars or spark.jars.packages, "
    "spark.sql.extensions and spark.sql.catalog.spark_catalog), or do not register delta_ops"
)


_OF_CATALOG = frozenset({"serialization.format"})
"""Options that a Hive catalog adds to the options of a table."""


class _Replaced(NamedTuple):
    """A method of a Spark class, and our wrapper."""

    owner: type
    name: str
    original: Callable[..., Any]
    ours: Callable[..., Any]


@dataclass(slots=True)
class _Registration:
    """Wrapped methods and storage options of this process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    storage_options: Mapping[str, Any] | None = None
    replaced: dict[bool, list[_Replaced]] = field(default_factory=dict)
    """Wrapped methods; the key is true for the classes of Connect."""

    @property
    def is_on(self) -> bool:
        """Whether delta_ops handles the format."""
        return bool(self.replaced)


_registration = _Registration()


def _free_lock() -> None:
    """Recreate the lock in a forked child, because a thread of the parent may have held it."""
    _registration.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_lock)


def register(spark: SparkSession, storage_options: Mapping[str, Any] | None = None) -> None:
    """Make delta_ops handle `format("delta")`, and Delta's statements in `spark.sql`.

    This applies to all sessions of the process until `unregister`. A second call changes only the
    storage options. Other formats and statements still use Spark. `spark.sql` of Connect sessions
    knows tables by their paths.

    Args:
        spark: A classic or Connect session.
        storage_options: fsspec options for all tables that are opened this way.

    Raises:
        InvalidRequestError: The session has delta-spark, which already provides the format.

    Examples:
        >>> ds.register(spark)
        >>> spark.read.format("delta").load("lake/orders").count()
        3
        >>> ds.unregister(spark)
    """
    validate_arguments(register, locals())
    validate_session(spark)
    _refuse_delta_spark(spark)
    with _registration.lock:
        _registration.storage_options = storage_options
        if is_connect(spark) not in _registration.replaced:
            wrapped = list(_wrap_all(is_connect(spark)))
            wrapped += _wrap_sql(type(spark))
            _registration.replaced[is_connect(spark)] = wrapped
    if not is_connect(spark):
        _provide_sql(spark)


def unregister(spark: SparkSession) -> None:
    """Make Spark handle `format("delta")` and all statements again, for the whole process.

    Examples:
        >>> ds.register(spark)
        >>> ds.unregister(spark)  # format("delta") is Spark's own again
    """
    validate_arguments(unregister, locals())
    with _registration.lock:
        for each in chain(*_registration.replaced.values()):
            if getattr(each.owner, each.name) is each.ours:  # otherwise another library wrapped it
                setattr(each.owner, each.name, each.original)
        _registration.replaced = {}
        _registration.storage_options = None
        withdraw(spark)


def _provide_sql(spark: SparkSession) -> None:
    try:
        provide(spark, Tables(_read_for_sql, _open_for_sql))
    except SqlUnavailableError as error:
        logger.warning("SQL of this session does not read Delta tables: %s", error)


def _read_for_sql(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Read a table that a SQL statement names, with the options of its catalog entry."""
    return load(spark, _calls_for_sql(spark, options), None, _registration.storage_options)


def _open_for_sql(spark: SparkSession, options: Mapping[str, str]) -> Snapshot:
    """Open the version that `_read_for_sql` reads."""
    return open_version(spark, _calls_for_sql(spark, options), _registration.storage_options)


def _calls_for_sql(spark: SparkSession, options: Mapping[str, str]) -> Calls:
    known = {
        name.lower(): (name, plain_path(value) if name.lower() == "path" else value)
        for name, value in options.items()
        if name.lower() not in _OF_CATALOG
    }
    if "path" in known:
        known |= options_of_changes(known["path"][1])
    else:
        by_path = "" if names_paths(spark) else ", not by paths in a query"
        if not reads_paths(spark.version):
            by_path += f" before Spark {SQL_PATHS}"
        raise InvalidRequestError(
            f"Spark itself only reads existing Delta tables{by_path}; run the statement with "
            "spark.sql of Python, with clauses that delta_ops knows, or give the location of an "
            "existing table, CREATE TABLE name USING delta LOCATION '/path'"
        )
    return Calls(options=known)


def _refuse_delta_spark(spark: SparkSession) -> None:
    for name, package in _SETTINGS.items():
        value = spark.conf.get(name, None) or ""
        if package in value:
            raise InvalidRequestError(
                f"this session is set up for delta-spark: {name} is {value}. {_CURE}"
            )
    if _has_provider(spark):
        raise InvalidRequestError(
            f'this session has delta-spark on its class path, which has format("delta"). {_CURE}'
        )


def _has_provider(spark: SparkSession) -> bool:
    if is_connect(spark):
        return _server_has_provider(spark)
    context: Any = spark.sparkContext
    thread = java_class(context._jvm, "java.lang.Thread").currentThread()
    loader = thread.getContextClassLoader()
    # This looks for the file, because loading a missing class is an error with a Java stack trace.
    return loader.getResource(f"{_PROVIDER.replace('.', '/')}.class") is not None


def _server_has_provider(spark: SparkSession) -> bool:
    """Whether a Connect server can load the class; its class path cannot be read directly."""
    try:
        _ = spark.table(f"`{_PROVIDER}`.`/`").schema
    except PySparkException as error:
        return "TABLE_OR_VIEW_NOT_FOUND" not in str(error)
    return True


def _wrap_all(is_remote: bool) -> Iterator[_Replaced]:
    for owner in _classes(is_remote):
        acts = ACTS[owner.__name__]
        notes = NOTES_OF_WRITE_TO if owner.__name__ == "DataFrameWriterV2" else NOTES
        for name in (*notes, *acts):
            original = getattr(owner, name, None)
            if original is None:
                continue
            act = acts.get(name)
            ours = _noting(original, notes[name]) if act is None else _acting(original, act)
            setattr(owner, name, ours)
            yield _Replaced(owner, name, original, ours)


def _wrap_sql(owner: Any) -> Iterator[_Replaced]:
    """Route Delta's statements; see `statements.routing`.

    Args:
        owner: The class of sessions.
    """
    original = owner.sql

    @functools.wraps(original)
    def sql(self: SparkSession, *args: Any, **named: Any) -> DataFrame:
        plain: Callable[..., DataFrame] = functools.partial(original, self)
        if not _registration.is_on:
            return plain(*args, **named)
        return sql_with_delta(plain, self, _registration.storage_options, *args, **named)

    owner.sql = sql
    yield _Replaced(owner, "sql", original, sql)


def _classes(is_remote: bool) -> tuple[type, ...]:
    if is_remote:
        from pyspark.sql.connect import readwriter
        from pyspark.sql.connect.streaming import readwriter as streams
    else:
        from pyspark.sql import readwriter  # type: ignore[no-redef]
        from pyspark.sql.streaming import readwriter as streams  # type: ignore[no-redef]
    return (
        readwriter.DataFrameReader,
        readwriter.DataFrameWriter,
        readwriter.DataFrameWriterV2,
        streams.DataStreamReader,
        streams.DataStreamWriter,
    )


def _noting(original: Callable[..., Any], note: Callable[..., Calls]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        result = original(self, *args, **named)  # first: Spark rejects invalid arguments
        if _registration.is_on:
            remember(self, note(calls_of(self), *args, **named))
        return result

    return method


def _acting(original: Callable[..., Any], act: Act) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **named: Any) -> Any:
        if not _registration.is_on:
            return original(self, *args, **named)
        options = _registration.storage_options
        with speaking(Surface.DATAFRAME):
            return act(functools.partial(original, self), self, options, *args, **named)

    return method
