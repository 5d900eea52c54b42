"""Named writes: `saveAsTable`, `insertInto`, `writeTo` and `toTable` on Delta tables.

Spark's own rules apply: `insertInto` takes columns by position, the other methods by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.log import DeltaLog
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from delta_ops.protocol.schema.widening import is_number
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.catalog_entries import (
    Place,
    add_entry,
    copy_columns,
    find_place,
    is_hidden,
    parts_of_name,
    require_place,
)
from delta_ops.spark.delta_format.creation import NewTable, create_empty, create_from_rows
from delta_ops.spark.delta_format.named_tables import Claims, CreateMode, create_named
from delta_ops.spark.delta_format.options import Options, Use, options_for
from delta_ops.spark.delta_format.readers import log_at
from delta_ops.spark.delta_format.store_assignment import assign_value, name_by_position
from delta_ops.spark.delta_format.writers import file_settings, mode_of, save, validate_stream
from delta_ops.spark.expressions.column_text import sql_of
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.read import read
from delta_ops.spark.schema import data_schema_from_spark, spark_schema_from_schema
from delta_ops.spark.session.settings import session_settings
from delta_ops.spark.versions import is_connect

StorageOptions = Mapping[str, Any] | None

_PATH = "path"
_MODES: Mapping[str, CreateMode] = {
    "create": "create",
    "replace": "replace",
    "createOrReplace": "create or replace",
}
_OF_CREATION = frozenset({_PATH, "compression", "maxrecordsperfile", "usermetadata"})
"""Options of `writeTo(...).create()`, in lower case, apart from properties and stores."""
_PREFIXES_OF_CREATION = ("delta.", "fs.", "dfs.")


def known_place(spark: SparkSession, name: str) -> Place | None:
    """The place of an existing Delta table; None for other names."""
    parts = None if is_connect(spark) else parts_of_name(spark, name)
    if parts is None:
        return None
    try:
        place = find_place(spark, parts)
    except PySparkException:  # no such database
        return None
    return place if place is not None and place.is_known else None


def visible_place(spark: SparkSession, name: str) -> Place | None:
    """The place of an existing Delta table that no temporary view hides; None for other names."""
    place = known_place(spark, name)
    return None if place is None or is_hidden(spark, name) else place


def save_as_named(df: DataFrame, calls: Calls, name: str, storage_options: StorageOptions) -> None:
    """Write rows to a table by its name, or create the table.

    Raises:
        InvalidRequestError: The catalog cannot have this table, or has it at another location.
        TableExistsError: The table exists, and the mode does not allow that.
    """
    spark, option = df.sparkSession, calls.options.get(_PATH)
    location = None if option is None else DeltaLog(option[1]).uri
    place = require_place(
        spark,
        name,
        location,
        method="saveAsTable",
        cure='write by path, df.write.format("delta").save(path)',
    )
    log = _log_of(place, calls, storage_options)
    if place.is_known and option is not None and location != log.uri:
        raise InvalidRequestError(
            f"saveAsTable({name!r}): the catalog has this table at {place.path}, and the option "
            f"path is {option[1]}; leave the option out"
        )
    calls = _drop_path(calls)
    if place.is_known:
        save(df, calls, place.path, storage_options)
        copy_columns(spark, place, read(spark, log).schema)
    elif place.is_managed:
        replaces = mode_of(calls.mode) == "overwrite"
        if replaces and log.exists():  # files of a name that this catalog has lost
            options = {**calls.options, "overwriteschema": ("overwriteSchema", "true")}
            calls = replace(calls, options=options)
        create_named(
            spark,
            place,
            log,
            "create or replace" if replaces else "create",
            Claims(has_rows=True),
            lambda: save(df, calls, place.path, storage_options),
        )
    else:
        save(df, calls, place.path, storage_options)
        add_entry(spark, place, read(spark, log).schema)


def insert_by_position(
    df: DataFrame, calls: Calls, path: str, storage_options: StorageOptions
) -> None:
    """Add rows to a table, or replace its rows, with columns in the order of the table.

    Raises:
        InvalidRequestError: The rows have another number of columns, or do not fit the table.
    """
    if calls.partition_by:
        raise InvalidRequestError(
            "insertInto takes no partitionBy, because the table defines its partitions; leave "
            "partitionBy out"
        )
    mode = "overwrite" if (calls.mode or "").lower() == "overwrite" else "append"
    options = options_for(Use.WRITE, calls.options)
    log = log_at(path, options, storage_options)
    schema = log.snapshot().schema
    names = [each.name for each in schema.fields]
    named = name_columns(df, names, log.uri)
    rows = assign_columns(named, schema, log.uri, is_by_name=False)
    save(rows, replace(calls, mode=mode), path, storage_options)


def name_columns(rows: DataFrame, names: Sequence[str], table: str) -> DataFrame:
    """Name the columns of rows by their position.

    Raises:
        InvalidRequestError: The rows have another number of columns, or a name is repeated.
    """
    if len(rows.columns) != len(names):
        raise InvalidRequestError(
            f"{table}: the query has {len(rows.columns)} columns, and the statement needs "
            f"{len(names)} ({', '.join(names)}); name the columns after the table, or use BY NAME",
            "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
            if len(rows.columns) < len(names)
            else "DELTA_METADATA_MISMATCH",
        )
    if len({each.lower() for each in names}) < len(names):
        raise InvalidRequestError(
            f"{table}: a column is named twice; name it once", "COLUMN_ALREADY_EXISTS"
        )
    return rows.toDF(*names)


def assign_columns(
    rows: DataFrame, schema: StructType, table: str, *, is_by_name: bool
) -> DataFrame:
    """Cast columns to the types of a table as INSERT does; see `store_assignment`.

    Numbers stay for the write, which may widen the type of their column. A session that adds
    columns and fields by itself leaves nested values to the write, too.

    Args:
        is_by_name: Whether the fields of all structs are matched by their names; see
            `name_by_position`.

    Raises:
        InvalidRequestError: There is no cast between the types of a column.
    """
    spark, values = rows.sparkSession, {}
    for given in data_schema_from_spark(rows.schema).fields:
        found = schema.fields_by_lower_name.get(given.name.lower())
        if not found or (is_number(given.data_type) and is_number(found[0].data_type)):
            continue
        is_nested = isinstance(given.data_type, ArrayType | MapType | StructType)
        if is_nested and session_settings(spark).merge_schema:
            continue
        column = value = named_column(given.name)
        source = given.data_type
        if is_nested and not is_by_name:
            source = _name_fields(given, found[0], table)
            if source != given.data_type:
                only = StructType((StructField(given.name, source),))
                value = column.cast(spark_schema_from_schema(only)[0].dataType)
        assigned, misfit = assign_value(value, source, found[0], table)
        if misfit is not None:
            text = f"[{misfit.error_class}] {table}: {misfit.message}"  # see `failures`
            error = sf.raise_error(sf.lit(text))
            assigned = sf.when(misfit.is_broken, error).otherwise(assigned)
        if assigned is not column:
            values[given.name] = assigned
    return rows.withColumns(values) if values else rows


def _name_fields(given: StructField, wanted: StructField, table: str) -> DataType:
    """The type of a column with the field names of the table.

    Raises:
        InvalidRequestError: A struct has another number of fields.
    """
    found = name_by_position(given.data_type, wanted.data_type)
    if found is None:
        raise InvalidRequestError(
            f"{table}: column {given.name} has a struct with other fields in the table; give all "
            "fields in the order of the table, or name them as the table does"
        )
    return found


def create_table_of(
    df: DataFrame,
    calls: Calls,
    method: str,
    name: str,
    path: str | None,
    storage_options: StorageOptions,
) -> None:
    """Create or replace a table, as the calls of `writeTo` specify.

    Args:
        method: "create", "replace" or "createOrReplace".
        path: The path in a name such as delta.`/path`.

    Raises:
        InvalidRequestError: The definition is invalid, or an option has no effect here.
        TableExistsError: The table exists, and the method does not replace it.
        TableNotFoundError: The table does not exist, and the method only replaces.
    """
    spark, mode = df.sparkSession, _MODES[method]
    options = options_for(Use.WRITE, calls.options)
    _validate_creation(options, calls, method)
    place, found = None, path
    if found is None:
        option = options.text(_PATH)
        place = require_place(
            spark,
            name,
            None if option is None else DeltaLog(option).uri,
            method="writeTo",
            cure='write by path, df.write.format("delta").save(path)',
        )
        found = place.path
    log = log_at(found, options, storage_options)
    new = NewTable(
        partition_by=calls.partition_by or (),
        cluster_by=calls.cluster_by or (),
        properties={**options.properties(), **dict(calls.table_properties)},
        is_managed=place is not None and place.is_managed,
    )

    def create() -> None:
        create_from_rows(
            df,
            log,
            new,
            replaces=mode != "create",
            settings=file_settings(options),
            user_metadata=options.text("userMetadata"),
        )

    if place is not None:
        create_named(spark, place, log, mode, Claims(has_rows=True), create)
        return
    if mode == "replace" and not log.exists():
        raise TableNotFoundError(log.uri)
    create()


def change_table_of(
    df: DataFrame,
    calls: Calls,
    method: str,
    path: str,
    storage_options: StorageOptions,
    condition: Column | None = None,
) -> None:
    """Write rows to an existing table, as the calls of `writeTo` specify.

    Args:
        method: "append", "overwrite" or "overwritePartitions".
        condition: The rows that `overwrite` replaces.

    Raises:
        InvalidRequestError: The rows do not fit the table, or the condition has no SQL text.
        TableNotFoundError: The table does not exist.
    """
    log = log_at(path, options_for(Use.WRITE, calls.options), storage_options)
    if not log.exists():
        raise TableNotFoundError(log.uri)
    options = dict(_drop_path(calls).options)
    if method == "overwritePartitions":
        options["partitionoverwritemode"] = ("partitionOverwriteMode", "dynamic")
    elif method == "overwrite":
        options["replacewhere"] = ("replaceWhere", _text_of(condition))
    mode = "append" if method == "append" else "overwrite"
    save(df, replace(calls, mode=mode, options=options), path, storage_options)


def create_for_stream(
    df: DataFrame, calls: Calls, name: str, storage_options: StorageOptions
) -> str:
    """Create an empty table for a stream that writes to a new name.

    Returns:
        The path of the table.

    Raises:
        InvalidRequestError: The catalog cannot have this table, or the definition is invalid.
    """
    spark, options = df.sparkSession, options_for(Use.STREAM_WRITE, calls.options)
    option = options.text(_PATH)
    place = require_place(
        spark,
        name,
        None if option is None else DeltaLog(option).uri,
        method="toTable",
        cure='write by path, df.writeStream.format("delta").start(path)',
    )
    validate_stream(spark, calls, options)  # before there is a table
    log = log_at(place.path, options, storage_options)
    new = NewTable(
        partition_by=calls.partition_by or (),
        properties=options.properties(),
        is_managed=place.is_managed,
    )
    create_named(
        spark, place, log, "create if not exists", Claims(), lambda: create_empty(df, log, new)
    )
    return place.path


def _log_of(place: Place, calls: Calls, storage_options: StorageOptions) -> DeltaLog:
    return log_at(place.path, options_for(Use.WRITE, calls.options), storage_options)


def _drop_path(calls: Calls) -> Calls:
    return replace(calls, options={n: pair for n, pair in calls.options.items() if n != _PATH})


def _validate_creation(options: Options, calls: Calls, method: str) -> None:
    if calls.has_transforms:
        raise InvalidRequestError(
            "partitionedBy takes columns only; for an expression such as years(time), add a "
            "generated column and partition by it"
        )
    for lower, (name, _) in options.texts.items():
        if lower not in _OF_CREATION and not lower.startswith(_PREFIXES_OF_CREATION):
            raise InvalidRequestError(
                f"writeTo(...).{method}() does not take the option {name}; leave it out, or write "
                'with df.write.format("delta")'
            )


def _text_of(condition: Column | None) -> str:
    text = None if condition is None else sql_of(condition)
    if text is None:
        raise InvalidRequestError(
            "writeTo(...).overwrite needs a condition that compares columns with values; give "
            "one, such as col('day') == '2026-01-31', or use the option replaceWhere of df.write"
        )
    return text
