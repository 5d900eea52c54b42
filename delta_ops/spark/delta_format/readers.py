"""Readers: reads tables as the calls of a `format("delta")` reader specify."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.options import Options, Use, instant_of, options_for
from delta_ops.spark.read.changes import read_changes
from delta_ops.spark.read.read import read
from delta_ops.spark.read.stale_reads import read_latest
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.streaming.read import read_stream
from delta_ops.spark.versions import type_of_ddl

_RANGE = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_TRAVEL = ("versionAsOf", "timestampAsOf", "ref")
_VERSION_IN_PATH = re.compile(r"(.+)@[vV](\d+)", re.DOTALL)
_TIME_IN_PATH = re.compile(r"(.+)@(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})(\d{3})", re.DOTALL)


def load(
    spark: SparkSession,
    calls: Calls,
    path: str | Sequence[str] | None,
    storage_options: Mapping[str, Any] | None,
) -> DataFrame:
    """Read the rows of a table, or their changes, as the reader's calls specify.

    Raises:
        InvalidRequestError: An option is not supported, or contradicts another option.
        TableNotFoundError: The table does not exist.
        VersionNotFoundError: The version does not exist.
    """
    options = options_for(Use.READ, calls.options)
    place = place_of(options, path, "load")
    if _reads_changes(options):
        rows = _read_changes(spark, log_at(place, options, storage_options), options)
    else:
        rows = _read_version(spark, place, options, storage_options)
    _validate_schema(calls.schema, rows, place)
    return rows


def open_version(
    spark: SparkSession, calls: Calls, storage_options: Mapping[str, Any] | None
) -> Snapshot:
    """Open the version that `load` reads; the latest version for changes.

    Raises:
        InvalidRequestError: An option is not supported.
        TableNotFoundError: The table does not exist.
        VersionNotFoundError: The version does not exist.
    """
    options = options_for(Use.READ, calls.options)
    place = place_of(options, None, "load")
    if _reads_changes(options):
        return log_at(place, options, storage_options).snapshot()
    log, version, timestamp, ref = _chosen_version(spark, place, options, storage_options)
    return log.snapshot(version, timestamp, ref=ref)


def load_stream(
    spark: SparkSession,
    calls: Calls,
    path: str | None,
    storage_options: Mapping[str, Any] | None,
) -> DataFrame:
    """Read the rows of a table, or their changes, as a stream, as the reader's calls specify.

    Raises:
        InvalidRequestError: An option is not supported, or contradicts another option.
        TableNotFoundError: The table does not exist.
    """
    options = options_for(Use.STREAM_READ, calls.options)
    place = place_of(options, path, "load")
    if options.flag("failOnDataLoss") is False:
        raise InvalidRequestError(
            "failOnDataLoss=false is not supported, because versions that were cleaned up are "
            "never skipped; start a new query, with startingVersion if you do not need all rows"
        )
    starting = options.text("startingVersion")
    is_latest = starting is not None and starting.strip().lower() == "latest"
    rows = read_stream(
        spark,
        log_at(place, options, storage_options),
        starting_version="latest" if is_latest else options.version("startingVersion"),
        starting_timestamp=options.instant("startingTimestamp", session_time_zone(spark)),
        max_files_per_trigger=options.count("maxFilesPerTrigger"),
        max_bytes_per_trigger=options.size("maxBytesPerTrigger"),
        ignore_deletes=options.flag("ignoreDeletes") or False,
        ignore_changes=options.flag("ignoreChanges") or False,
        skip_change_commits=options.flag("skipChangeCommits") or False,
        exclude_regex=options.text("excludeRegex"),
        read_change_feed=_reads_changes(options),
    )
    _validate_schema(calls.schema, rows, place)
    return rows


def place_of(options: Options, path: str | Sequence[str] | None, method: str) -> str:
    """The location of the table, from the method's argument or the option `path`.

    Raises:
        InvalidRequestError: There is no location, or more than one.
    """
    option = options.text("path")
    if path is not None and option is not None:
        raise InvalidRequestError(
            f"the option path is {option!r}, and {method}() is given a path too; leave one out"
        )
    found = option if path is None else path
    if isinstance(found, list | tuple):
        if len(found) != 1:
            raise InvalidRequestError(
                f"{method}() got {len(found)} paths, but a Delta table has one; read each path "
                "and combine the DataFrames with union"
            )
        found = found[0]
    if not found:
        raise InvalidRequestError(f'{method}() with format("delta") needs a path; give one')
    return str(found)


def log_at(place: str, options: Options, storage_options: Mapping[str, Any] | None) -> DeltaLog:
    """Open the table with the registered storage options and the Hadoop options of the call."""
    return DeltaLog(place, {**(storage_options or {}), **options.hadoop_settings()})


def _reads_changes(options: Options) -> bool:
    return bool(options.flag("readChangeFeed") or options.flag("readChangeData"))


def _read_version(
    spark: SparkSession, place: str, options: Options, storage_options: Mapping[str, Any] | None
) -> DataFrame:
    chosen = [name for name in _RANGE if options.text(name) is not None]
    if chosen:
        raise InvalidRequestError(
            f"{chosen[0]} chooses the changes to read, so it needs readChangeFeed=true; to read a "
            "version of the table, use versionAsOf or timestampAsOf"
        )
    log, version, timestamp, ref = _chosen_version(spark, place, options, storage_options)
    if version is None and timestamp is None and ref is None:
        return read_latest(spark, log.snapshot())
    return read(spark, log, version=version, timestamp=timestamp, ref=ref)


def _chosen_version(
    spark: SparkSession, place: str, options: Options, storage_options: Mapping[str, Any] | None
) -> tuple[DeltaLog, int | None, datetime | None, str | None]:
    """The table, and the version, time or ref that the options or the path choose."""
    version = options.version("versionAsOf")
    time_zone = session_time_zone(spark)
    timestamp = options.instant("timestampAsOf", time_zone)
    ref = options.text("ref")
    if version is None and timestamp is None and ref is None:
        log = log_at(place, options, storage_options)
        place, version, timestamp = _travel_in_path(place, time_zone, log)
    return log_at(place, options, storage_options), version, timestamp, ref


def _travel_in_path(
    place: str, time_zone: str, log: DeltaLog
) -> tuple[str, int | None, datetime | None]:
    """Split a version or time off a path, such as `@v5` or `@20260131120000000`."""
    of_version, of_time = _VERSION_IN_PATH.fullmatch(place), _TIME_IN_PATH.fullmatch(place)
    if (of_version or of_time) and log.exists():
        return place, None, None  # the table name itself may end like this
    if of_version:
        return of_version[1], int(of_version[2]), None
    if of_time:
        root, year, month, day, hour, minute, second, milli = of_time.groups()
        text = f"{year}-{month}-{day} {hour}:{minute}:{second}.{milli}"
        return root, None, instant_of("the time in the path", text, time_zone)
    return place, None, None


def _read_changes(spark: SparkSession, log: DeltaLog, options: Options) -> DataFrame:
    chosen = [name for name in _TRAVEL if options.text(name) is not None]
    if chosen:
        raise InvalidRequestError(
            f"{chosen[0]} reads a version of the table, but readChangeFeed reads the changes "
            "between versions; leave one of them out"
        )
    time_zone = session_time_zone(spark)
    return read_changes(
        spark,
        log,
        options.version("startingVersion"),
        options.version("endingVersion"),
        start_timestamp=options.instant("startingTimestamp", time_zone),
        end_timestamp=options.instant("endingTimestamp", time_zone),
        schema="end" if log.snapshot().definition.is_mapped else "latest",
    )


def _validate_schema(requested: Any, rows: DataFrame, place: str) -> None:
    """Require that a schema given to the reader equals the table's schema."""
    if requested is None:
        return
    wanted = requested if isinstance(requested, StructType) else type_of_ddl(requested)
    if wanted.simpleString() != rows.schema.simpleString():
        raise InvalidRequestError(
            f"{place}: the schema given to the reader, {wanted.simpleString()}, is not the "
            f"table's schema, {rows.schema.simpleString()}; leave it out, because the log "
            "contains the schema"
        )
