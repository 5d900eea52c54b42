"""Dispatch: runs the final method of a reader or writer if the format is "delta".

Each function here replaces a method of a Spark class. Its first arguments are Spark's own method,
the reader or writer, and the storage options; then come the arguments of the method.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.spark.delta_format import readers as format_readers
from delta_ops.spark.delta_format import writers as format_writers
from delta_ops.spark.delta_format.calls import calls_of, frame_of, session_of
from delta_ops.spark.delta_format.catalog_tables import create_external, find_location
from delta_ops.spark.delta_format.sql_source import forget_columns, is_provided

StorageOptions = Mapping[str, Any] | None
Act = Callable[..., Any]

DELTA = "delta"
_DEFAULT_FORMAT = "spark.sql.sources.default"
_BY_PATH = re.compile(r"delta\.`((?:[^`]|``)+)`", re.IGNORECASE)


def _is_ours(target: Any, named: str | None) -> bool:
    found = named or calls_of(target).format
    if found is None:
        found = session_of(target).conf.get(_DEFAULT_FORMAT, None)
    return (found or "").strip().lower() == DELTA


def _set_arguments(target: Any, **arguments: Any) -> None:
    """Set the arguments of a call such as `load` by methods such as `format` and `options`."""
    options = arguments.pop("options")
    for name, value in arguments.items():
        if value is not None:
            getattr(target, name)(value)
    target.options(**options)


def _load_by(load: Act) -> Act:
    def act(
        original: Callable[..., Any],
        reader: Any,
        storage_options: StorageOptions,
        path: Any = None,
        format: str | None = None,  # noqa: A002  (Spark's name)
        schema: Any = None,
        **options: Any,
    ) -> Any:
        if not _is_ours(reader, format):
            return original(path, format, schema, **options)
        _set_arguments(reader, format=format, schema=schema, options=options)
        return load(session_of(reader), calls_of(reader), path, storage_options)

    return act


def _table(
    original: Callable[..., Any],
    reader: Any,
    storage_options: StorageOptions,
    tableName: str,  # noqa: N803  (Spark's name)
) -> Any:
    # For a table name, Spark would ignore options such as versionAsOf.
    path = _path_in(tableName) or (calls_of(reader).options and _find_in_catalog(reader, tableName))
    if not path:
        return original(tableName)
    return format_readers.load(session_of(reader), calls_of(reader), path, storage_options)


def _table_as_stream(
    original: Callable[..., Any],
    reader: Any,
    storage_options: StorageOptions,
    tableName: str,  # noqa: N803  (Spark's name)
) -> Any:
    path = _path_in(tableName) or _find_in_catalog(reader, tableName)
    if not path:
        return original(tableName)
    return format_readers.load_stream(session_of(reader), calls_of(reader), path, storage_options)


def _find_in_catalog(reader: Any, name: str) -> str | None:
    """Location of a Delta table in the catalog; None if the name is not a Delta table there."""
    with contextlib.suppress(InvalidRequestError):
        return _location(session_of(reader), name)
    return None


def _save(
    original: Callable[..., Any],
    writer: Any,
    storage_options: StorageOptions,
    path: str | None = None,
    format: str | None = None,  # noqa: A002  (Spark's name)
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803  (Spark's name)
    **options: Any,
) -> None:
    if not _is_ours(writer, format):
        original(path, format, mode, partitionBy, **options)
        return
    _set_arguments(writer, format=format, mode=mode, partitionBy=partitionBy, options=options)
    _write(writer, storage_options, path)


def _write(writer: Any, storage_options: StorageOptions, path: str | None) -> None:
    format_writers.save(frame_of(writer), calls_of(writer), path, storage_options)


def _save_as_table(
    original: Callable[..., Any],
    writer: Any,
    storage_options: StorageOptions,
    name: str,
    format: str | None = None,  # noqa: A002  (Spark's name)
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803  (Spark's name)
    **options: Any,
) -> None:
    path = _path_in(name)
    if path is None and not _is_ours(writer, format):
        original(name, format, mode, partitionBy, **options)
        return
    _set_arguments(writer, mode=mode, partitionBy=partitionBy, options=options)
    if path is not None:
        _write(writer, storage_options, path)
        return
    spark, option = session_of(writer), calls_of(writer).options.get("path")
    known = _location(spark, name)
    if known is None and (option is None or not is_provided(spark)):
        cure = 'df.write.format("delta").save(path)'
        if is_provided(spark):
            cure += ', or give option("path", path) beside the name'
        raise _no_catalog("saveAsTable", name, cure)
    if known is not None and option is not None and DeltaLog(option[1]).uri != DeltaLog(known).uri:
        raise InvalidRequestError(
            f"saveAsTable({name!r}): the catalog has this table at {known}, and the option path is "
            f"{option[1]}; leave the option out"
        )
    _write(writer, storage_options, known if option is None else None)
    if known is not None:
        forget_columns(spark)  # the write may have changed them
    elif option is not None:
        create_external(spark, name, DeltaLog(option[1]).uri)


def _location(spark: SparkSession, name: str) -> str | None:
    """Location of a table in the catalog; None if unknown, or if SQL is not supported."""
    return find_location(spark, name) if is_provided(spark) else None


def _insert_into(
    original: Callable[..., Any],
    writer: Any,
    _storage_options: StorageOptions,
    tableName: str,  # noqa: N803  (Spark's name)
    overwrite: bool | None = None,
) -> None:
    is_ours = calls_of(writer).format is not None and _is_ours(writer, None)
    if _path_in(tableName) is None and not is_ours:
        original(tableName, overwrite)
        return
    raise _no_catalog(
        "insertInto", tableName, 'df.write.format("delta").mode("append").save(path), by name'
    )


def _write_to(
    original: Callable[..., Any],
    writer: Any,
    _storage_options: StorageOptions,
    *args: Any,
    **named: Any,
) -> Any:
    calls = calls_of(writer)
    table = calls.table or ""
    if _path_in(table) is None and (calls.format or "").strip().lower() != DELTA:
        return original(*args, **named)
    raise _no_catalog("writeTo", table, 'df.write.format("delta").mode(...).save(path)')


def _start(
    original: Callable[..., Any],
    writer: Any,
    storage_options: StorageOptions,
    path: str | None = None,
    format: str | None = None,  # noqa: A002  (Spark's name)
    outputMode: str | None = None,  # noqa: N803  (Spark's name)
    partitionBy: Any = None,  # noqa: N803  (Spark's name)
    queryName: str | None = None,  # noqa: N803  (Spark's name)
    **options: Any,
) -> Any:
    if not _is_ours(writer, format):
        return original(path, format, outputMode, partitionBy, queryName, **options)
    _set_arguments(
        writer,
        format=format,
        outputMode=outputMode,
        partitionBy=partitionBy,
        queryName=queryName,
        options=options,
    )
    return format_writers.start(frame_of(writer), calls_of(writer), path, storage_options)


def _to_table(
    original: Callable[..., Any],
    writer: Any,
    storage_options: StorageOptions,
    tableName: str,  # noqa: N803  (Spark's name)
    format: str | None = None,  # noqa: A002  (Spark's name)
    outputMode: str | None = None,  # noqa: N803  (Spark's name)
    partitionBy: Any = None,  # noqa: N803  (Spark's name)
    queryName: str | None = None,  # noqa: N803  (Spark's name)
    **options: Any,
) -> Any:
    path = _path_in(tableName)
    if path is None and not _is_ours(writer, format):
        return original(tableName, format, outputMode, partitionBy, queryName, **options)
    path = path or _location(session_of(writer), tableName)
    if path is not None:
        return _start(
            original,
            writer,
            storage_options,
            path,
            DELTA,
            outputMode,
            partitionBy,
            queryName,
            **options,
        )
    raise _no_catalog("toTable", tableName, 'df.writeStream.format("delta").start(path)')


def _path_in(name: Any) -> str | None:
    found = _BY_PATH.fullmatch(name.strip()) if isinstance(name, str) else None
    return None if found is None else found[1].replace("``", "`")


def _no_catalog(method: str, name: str, cure: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{method}({name!r}): delta_ops creates and writes tables by path, not by name in Spark's "
        f"catalog; use {cure}"
    )


_OF_WRITE_TO = (
    "create",
    "replace",
    "createOrReplace",
    "append",
    "overwrite",
    "overwritePartitions",
)
ACTS: Mapping[str, Mapping[str, Act]] = {
    "DataFrameReader": {"load": _load_by(format_readers.load), "table": _table},
    "DataFrameWriter": {
        "save": _save,
        "saveAsTable": _save_as_table,
        "insertInto": _insert_into,
    },
    "DataFrameWriterV2": dict.fromkeys(_OF_WRITE_TO, _write_to),
    "DataStreamReader": {
        "load": _load_by(format_readers.load_stream),
        "table": _table_as_stream,
    },
    "DataStreamWriter": {"start": _start, "toTable": _to_table},
}
"""Replacements by class name (the same on classic sessions and Connect) and method name."""
