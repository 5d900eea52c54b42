"""Dispatch: runs the final method of a reader or writer if the format is "delta".

Each function here replaces a method of a Spark class. Its first arguments are Spark's own method,
the reader or writer, and the storage options; then come the arguments of the method.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.delta_format import readers as format_readers
from delta_ops.spark.delta_format import writers as format_writers
from delta_ops.spark.delta_format.calls import (
    calls_of,
    frame_of,
    remember,
    session_of,
)
from delta_ops.spark.delta_format.catalog_entries import find_location
from delta_ops.spark.delta_format.named_writes import (
    change_table_of,
    create_for_stream,
    create_table_of,
    insert_by_position,
    known_place,
    save_as_named,
    visible_place,
)
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


def _find_in_catalog(target: Any, name: str) -> str | None:
    """Location of a Delta table in the catalog; None if the name is not a Delta table there."""
    with contextlib.suppress(InvalidRequestError):
        return _location(session_of(target), name)
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
    is_ours = _is_ours(writer, format)
    if path is None and not is_ours and _has_other_format(writer, format, mode, name):
        original(name, format, mode, partitionBy, **options)
        return
    _set_arguments(writer, mode=mode, partitionBy=partitionBy, options=options)
    if path is not None:
        _write(writer, storage_options, path)
        return
    save_as_named(frame_of(writer), calls_of(writer), name, storage_options)


def _has_other_format(writer: Any, named: str | None, mode: str | None, name: str) -> bool:
    """Whether Spark runs `saveAsTable` of a writer that does not name our format.

    Raises:
        InvalidRequestError: Spark would replace a Delta table by another table.
    """
    calls = calls_of(writer)
    place = known_place(session_of(writer), name)
    if place is None:
        return True
    found = (mode or calls.mode or "error").lower()
    if named is None and calls.format is None and found == "append":
        return False  # as in the reference: the existing table decides
    if found == "overwrite":
        raise InvalidRequestError(
            f"saveAsTable({name!r}): the catalog has a Delta table of this name, which another "
            'format would delete; add format("delta"), or DROP TABLE first'
        )
    return True


def _location(spark: SparkSession, name: str) -> str | None:
    """Location of a table in the catalog; None if unknown, or if SQL is not supported."""
    return find_location(spark, name) if is_provided(spark) else None


def _insert_into(
    original: Callable[..., Any],
    writer: Any,
    storage_options: StorageOptions,
    tableName: str,  # noqa: N803  (Spark's name)
    overwrite: bool | None = None,
) -> None:
    calls, spark = calls_of(writer), session_of(writer)
    path = _path_in(tableName)
    place = None if path is not None else visible_place(spark, tableName)
    if path is None and place is None:
        if calls.format is None or not _is_ours(writer, None):
            original(tableName, overwrite)
            return
        raise InvalidRequestError(
            f"insertInto({tableName!r}): the catalog has no Delta table of this name; create it "
            'with saveAsTable, or write by path, df.write.format("delta").mode("append").save(path)'
        )
    if overwrite is not None:
        calls = replace(calls, mode="overwrite" if overwrite else "append")
    found = path if place is None else place.path
    insert_by_position(frame_of(writer), calls, found or "", storage_options)
    if place is not None:
        forget_columns(spark)


def _write_to(
    method: str,
    original: Callable[..., Any],
    writer: Any,
    storage_options: StorageOptions,
    *args: Any,
    **named: Any,
) -> Any:
    calls, spark = calls_of(writer), session_of(writer)
    table = calls.table or ""
    path = _path_in(table)
    creates = method in ("create", "replace", "createOrReplace")
    find = known_place if creates else visible_place
    place = None if path is not None else find(spark, table)
    is_ours = path is not None or (_is_ours(writer, None) if creates else place is not None)
    if not is_ours:
        if creates and method != "create" and place is not None:
            raise InvalidRequestError(
                f"writeTo({table!r}).{method}(): the catalog has a Delta table of this name, "
                'which another format would delete; add using("delta"), or DROP TABLE first'
            )
        return original(*args, **named)
    if creates:
        create_table_of(frame_of(writer), calls, method, table, path, storage_options)
        return None
    found = path if place is None else place.path
    change_table_of(frame_of(writer), calls, method, found or "", storage_options, *args, **named)
    if place is not None:
        forget_columns(spark)
    return None


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
    path = path or _find_in_catalog(writer, tableName)
    if path is None:
        _set_arguments(writer, outputMode=outputMode, partitionBy=partitionBy, options=options)
        calls = calls_of(writer)
        path = create_for_stream(frame_of(writer), calls, tableName, storage_options)
        kept = {name: pair for name, pair in calls.options.items() if name != "path"}
        remember(writer, replace(calls, options=kept))
        options = {}
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


def _path_in(name: Any) -> str | None:
    found = _BY_PATH.fullmatch(name.strip()) if isinstance(name, str) else None
    return None if found is None else found[1].replace("``", "`")


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
    "DataFrameWriterV2": {method: partial(_write_to, method) for method in _OF_WRITE_TO},
    "DataStreamReader": {
        "load": _load_by(format_readers.load_stream),
        "table": _table_as_stream,
    },
    "DataStreamWriter": {"start": _start, "toTable": _to_table},
}
"""Replacements by class name (the same on classic sessions and Connect) and method name."""
