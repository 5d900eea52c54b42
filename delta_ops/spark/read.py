"""Read a table's rows as a lazy DataFrame.

The log says which files there are, what they hold and what their partition values are; Spark lists
nothing. On a classic session the files become a `file_index`; elsewhere, and where that cannot be
had, their paths are given to Spark's reader and partition values looked up by path. Both ways give
the same rows: of partition columns the log's values, also where a file holds others, and times that
name no zone in the session's; of columns that a file lacks, null. Files with a deletion vector are
a scan of their own, see `live_rows`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial, reduce
from typing import NamedTuple

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DataFileError, InvalidRequestError, UnsupportedFeatureError
from delta_ops.log import Snapshot, Source, snapshot_of
from delta_ops.log.deletion_vector_read import load_deletion_vector
from delta_ops.planning.scan import plan_columnar_scan
from delta_ops.protocol.actions import AddFile, DeletionVector
from delta_ops.protocol.arrow_schemas import deletion_vectors
from delta_ops.protocol.char_types import char_lengths
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.protocol.partition_values import parse
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructField, find_field
from delta_ops.protocol.table_definition import validate
from delta_ops.spark import file_index, file_list
from delta_ops.spark.expressions import named_column, pad, physical_text, to_column
from delta_ops.spark.file_index import FileGroup, IndexUnavailableError
from delta_ops.spark.live_rows import FILE, keep_live
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.stored_columns import scan_options, stored_schema, table_column
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.paths import redact

logger = logging.getLogger(__name__)

READ_OPTIONS: Mapping[str, str] = {
    # A session may say otherwise, and rows would be missing or shifted without a word.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    # Of files by other programs than Spark; Spark's own say what they are.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def read(
    spark: SparkSession,
    source: Source,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    *,
    version: int | None = None,
    timestamp: str | datetime | None = None,
) -> DataFrame:
    """The rows of a version of the table, or of a snapshot; of the latest one if none is named.

    Args:
        columns: Names, in the order wanted; all of them if None.
        predicate: Keeps the rows for which it is true; files without any are not opened.
        version: The version, if not the latest one; or
        timestamp: the version at a time, in UTC unless it has a zone.

    Raises:
        InvalidRequestError: A column is not there or named twice, the predicate does not fit the
            table, or Spark cannot reach the storage of a file.
        OutsideFileError: A file lies outside of the table and may not be read there.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    validate_arguments(read, locals())
    snapshot = snapshot_of(source, version, timestamp)
    validate(snapshot.definition, "read", table=snapshot.uri, engine="spark")
    wanted = _resolved_columns(snapshot, columns)
    groups, deleted = _groups_of_snapshot(snapshot, predicate, session_time_zone(spark))
    rows = read_groups(spark, snapshot, groups, deleted)
    if predicate is not None:
        rows = rows.filter(to_column(predicate, snapshot.schema))
    return rows.select(*(_shown_column(find_field(snapshot.schema, name)) for name in wanted))


def read_files(spark: SparkSession, snapshot: Snapshot, adds: Iterable[AddFile]) -> DataFrame:
    """All rows and columns of these live files."""
    time_zone = session_time_zone(spark)
    types = {each.name: each.data_type for each in snapshot.definition.partition_fields}
    by_values: dict[tuple[str | None, ...], list[tuple[str, int, int]]] = {}
    for add in adds:
        if add.deletion_vector is not None:
            raise UnsupportedFeatureError(snapshot.uri, ("deletionVectors",), "read")
        path = _spark_file(snapshot, canonical_path(add.path, snapshot.uri))
        names = snapshot.definition.partition_names.values()
        texts = tuple(add.partition_values.get(name) for name in names)
        by_values.setdefault(texts, []).append((path, add.size, add.modification_time))
    groups = [
        FileGroup(
            values=tuple(
                physical_text(parse(text, data_type, time_zone=time_zone))
                for text, data_type in zip(texts, types.values(), strict=True)
            ),
            files=files,
        )
        for texts, files in by_values.items()
    ]
    return read_groups(spark, snapshot, groups)


def read_groups(
    spark: SparkSession,
    snapshot: Snapshot,
    groups: Sequence[FileGroup],
    deleted: Sequence[_Deleted] = (),
) -> DataFrame:
    """All rows and columns of these files, in the table's order of columns.

    Args:
        deleted: Files with deletion vectors.

    Raises:
        DataFileError: Spark would leave a file out, or a deletion vector cannot be read.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    definition = snapshot.definition
    validate(definition, "read", table=snapshot.uri, engine="spark")
    _refuse_invisible(snapshot, [*groups, *(each.group for each in deleted)])
    parts = []
    if groups:
        parts.append(_scan(spark, snapshot, groups, definition.partition_fields))
    if deleted:
        vectors = run_parallel(partial(_load_vector, snapshot), deleted)
        numbered = [
            replace(each.group, values=(*each.group.values, str(number)))
            for number, each in enumerate(deleted)
        ]
        rows = _scan(spark, snapshot, numbered, (*definition.partition_fields, FILE))
        parts.append(keep_live(rows, vectors))
    if not parts:
        return spark.createDataFrame([], spark_schema_from_schema(snapshot.schema))
    columns = [table_column(definition, field) for field in snapshot.schema.fields]
    return reduce(DataFrame.unionAll, (part.select(*columns) for part in parts))


def _scan(
    spark: SparkSession,
    snapshot: Snapshot,
    groups: Sequence[FileGroup],
    of_log: Sequence[StructField],
) -> DataFrame:
    """All rows of these files, with the names of `stored_schema`.

    Args:
        of_log: The columns of which groups have values.
    """
    definition = snapshot.definition
    data = stored_schema(definition, definition.data_schema.fields)
    partitions = stored_schema(definition, of_log)
    options = {**READ_OPTIONS, **scan_options(definition)}
    try:
        return file_index.relation(
            spark, spark_path(snapshot.storage, ""), groups, data, partitions, options
        )
    except IndexUnavailableError as error:
        logger.info("%s is read without a file index: %s", snapshot.uri, error)
        _require_settings(spark, snapshot)
        return file_list.scan(spark, groups, data, partitions, options)


def _require_settings(spark: SparkSession, snapshot: Snapshot) -> None:
    # What a reader is told by its options, Spark turns to lower case, where settings are not found.
    for name, value in scan_options(snapshot.definition).items():
        if str(spark.conf.get(name, "false")).lower() != value:
            raise InvalidRequestError(
                f"{snapshot.uri} maps its columns by id, and this session has no file index; set "
                f"{name} to {value} in it, and read again"
            )


def _load_vector(snapshot: Snapshot, deleted: _Deleted) -> BitMap64:
    files, path = snapshot.table_files, deleted.path
    return load_deletion_vector(files, snapshot.version, path, deleted.vector)


def _shown_column(field: StructField) -> Column:
    lengths, column = char_lengths(field), named_column(field.name)
    return column if lengths is None else pad(column, field.data_type, lengths).alias(field.name)


def session_time_zone(spark: SparkSession) -> str:
    """In which partition values of type timestamp are read that name no zone."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def spark_path(storage: Storage, path: str) -> str:
    """A file of the table as Spark takes it.

    Args:
        path: Canonical, inside the table; "" is its root.

    Raises:
        InvalidRequestError: It is not on a local disk.
    """
    place = storage.locate(path)
    place = place.removeprefix("file://") if place.startswith("file:///") else place
    place = place.removeprefix("file:")
    if not place.startswith("/") or place.startswith("//"):
        raise InvalidRequestError(
            f"{storage.uri} is not on a local disk, and this version of delta_ops.spark reaches no "
            "other storage; use delta_ops.arrow"
        )
    return f"file:{place}"


def _spark_file(snapshot: Snapshot, path: str) -> str:
    """A file that the log names, as Spark takes it, by its canonical path."""
    if not is_absolute(path):
        return spark_path(snapshot.storage, path)
    snapshot.outside.validate(path, snapshot.uri)
    if not path.startswith("/"):
        raise InvalidRequestError(
            f"{snapshot.uri}: file {redact(path)} is not on a local disk, and this version of "
            "delta_ops.spark reaches no other storage; use delta_ops.arrow"
        )
    return f"file:{path}"


def _resolved_columns(snapshot: Snapshot, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return [field.name for field in snapshot.schema.fields]
    if isinstance(columns, str):
        raise InvalidRequestError(f"columns is a list of names; write columns=[{columns!r}]")
    found = [find_field(snapshot.schema, name).name for name in columns]
    for name, n in Counter(found).items():
        if n > 1:
            raise InvalidRequestError(f"Column {name} is asked for twice; name it once.")
    return found


class _Deleted(NamedTuple):
    """A file of which some rows are deleted."""

    group: FileGroup
    """The file alone."""
    path: str
    """Canonical."""
    vector: DeletionVector


def _groups_of_snapshot(
    snapshot: Snapshot, predicate: Predicate | None, time_zone: str
) -> tuple[list[FileGroup], list[_Deleted]]:
    files = plan_columnar_scan(
        snapshot,
        ["path", "size", "modification_time", "partition_values", "deletion_vector"],
        predicate,
        partition_time_zone=time_zone,
    )
    root = spark_path(snapshot.storage, "")
    by_values: dict[tuple[str | None, ...], list[tuple[str, int, int]]] = {}
    deleted: list[_Deleted] = []
    columns = ("path", "size", "modification_time", "partition_values")
    for path, size, modified_ms, values, vector in zip(
        *(files[name].to_pylist() for name in columns),
        deletion_vectors(files["deletion_vector"]),
        strict=True,
    ):
        texts = tuple(physical_text(values[name]) for name in snapshot.partition_columns)
        # Joined here: there are many, and `locate` takes ten times as long.
        place = _spark_file(snapshot, path) if is_absolute(path) else f"{root}/{path}"
        file = (place, size, modified_ms or 0)
        if vector is None:
            by_values.setdefault(texts, []).append(file)
        else:
            deleted.append(_Deleted(FileGroup(values=texts, files=[file]), path, vector))
    return [FileGroup(values=texts, files=of_one) for texts, of_one in by_values.items()], deleted


def _refuse_invisible(snapshot: Snapshot, groups: Sequence[FileGroup]) -> None:
    """Refuse files that Spark leaves out of a scan without a word."""
    for group in groups:
        for path, size, _ in group.files:
            name = path.rpartition("/")[2]
            if name[0] in "_." and "=" not in name:
                reason = (
                    "has a hidden name, so Spark would leave it out; rewrite it with the Arrow "
                    "engine"
                )
            elif size <= 0:
                reason = f"has {size} bytes by the log, so Spark would leave it out; restore it"
            else:
                continue
            raise DataFileError(snapshot.uri, snapshot.version, path, reason)
