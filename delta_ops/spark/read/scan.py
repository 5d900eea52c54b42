"""Scan: reads the files of the log in the fastest way that the session supports.

On a classic session the files become a relation over a `file_index`. On other sessions, and where
the index is unavailable, Spark's reader gets the paths, and the values from the log are looked up
by path. Both ways give the same rows. Files that need only some of their rows get a separate scan,
see `live_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import NamedTuple

from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from delta_ops.errors import DataFileError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import load_deletion_vector
from delta_ops.planning.commit_changes import Deleted, Difference
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.schema import (
    VARIANT,
    StructField,
    StructType,
    schema_from_json,
    walk,
)
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.file_columns import (
    log_schema,
    scan_options,
    select_table_columns,
    stored_schema,
)
from delta_ops.spark.file_uris import reach, spark_path
from delta_ops.spark.read import file_index, file_list
from delta_ops.spark.read.file_index import (
    ROW,
    ROW_NUMBER,
    FileGroup,
    IndexUnavailableError,
)
from delta_ops.spark.read.file_list import is_hidden
from delta_ops.spark.read.filter_plan import KeepFiles
from delta_ops.spark.read.live_rows import FILE, keep_live, keep_named
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.session.session import warn_once
from delta_ops.storage.concurrency import run_parallel

READ_OPTIONS: Mapping[str, str] = {
    # A session may have other settings, and rows would then be silently missing or shifted.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "ignoredPathSegmentRegex": "(?!)",
    "mergeSchema": "false",
    # These apply only to files that other programs wrote. Files by Spark record their calendar.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}

CASE_SENSITIVE = "spark.sql.caseSensitive"
_SHREDDED = "spark.sql.variant.allowReadingShredded"


class ChosenRows(NamedTuple):
    """A file and the selection of its rows to read."""

    group: FileGroup
    """Contains this file only."""
    path: str
    """Canonical."""
    rows: Deleted | Difference


class ScanColumns(NamedTuple):
    """The columns of a scan."""

    definition: TableDefinition
    """Definition of the table that has these columns."""
    schema: StructType
    """All columns, in output order."""
    of_log: tuple[StructField, ...]
    """Columns whose values are in the groups. The files contain the other columns."""

    @property
    def of_files(self) -> list[StructField]:
        """Columns that the files contain."""
        names = {each.name for each in self.of_log}
        return [each for each in self.schema.fields if each.name not in names]


def scan(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: ScanColumns,
    groups: Sequence[FileGroup],
    chosen: Sequence[ChosenRows] = (),
    *,
    numbers_rows: bool = False,
    marks: Mapping[str, str] = {},
    keep_files: KeepFiles | None = None,
) -> Iterator[DataFrame]:
    """Read the rows of these files in parts that all have the same columns.

    Args:
        spark: The session.
        snapshot: A snapshot of the table with these files.
        columns: The columns to read.
        groups: Files to read in full.
        chosen: Files to read in part.
        numbers_rows: Whether the parts end with the column `ROW_NUMBER`.
        marks: Options that Spark ignores and shows in the plan of the scan.
        keep_files: Leaves out files without a row that passes the filters of a query.

    Raises:
        DataFileError: A deletion vector cannot be read, or Spark would skip a file.
        InvalidRequestError: The session would confuse columns or miss values.
    """
    reach(spark, snapshot.storage)
    _require_distinct_names(spark, snapshot, columns.schema)
    _require_name_of_rows(snapshot, columns)
    _require_shredded_variants(spark, snapshot, columns.schema)
    scan_groups = partial(_scan_groups, spark, snapshot, marks=marks, keep_files=keep_files)
    show = partial(
        select_table_columns,
        definition=columns.definition,
        fields=columns.schema.fields,
        extra=[(ROW, ROW_NUMBER)] if numbers_rows else (),
    )
    if groups:
        yield show(scan_groups(columns, groups, numbers_rows=numbers_rows))
    numbered = columns._replace(of_log=(*columns.of_log, FILE))
    for kind, keep in _KEEP.items():
        of_kind = [each for each in chosen if isinstance(each.rows, kind)]
        loaded = zip(of_kind, run_parallel(partial(_load_rows, snapshot), of_kind), strict=True)
        # An empty difference means that the file has no changed rows.
        some = [(each, rows) for each, rows in loaded if rows or kind is Deleted]
        if some:
            files = [
                replace(each.group, values=(*each.group.values, str(number)))
                for number, (each, _) in enumerate(some)
            ]
            rows = scan_groups(numbered, files, numbers_rows=True)
            yield show(keep(rows, [vector for _, vector in some]))


_KEEP: Mapping[type, Callable[[DataFrame, Sequence[BitMap64]], DataFrame]] = {
    Deleted: keep_live,
    Difference: keep_named,
}


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether column names are case-sensitive in the session."""
    return str(spark.conf.get(CASE_SENSITIVE, "false")).lower() == "true"


def unite(spark: SparkSession, schema: StructType, parts: Iterable[DataFrame]) -> DataFrame:
    """Unite the rows of all parts.

    Without parts, the result has the columns of `schema` and no rows.
    """
    found = list(parts)
    if not found:
        # Not `empty_rows`: Spark would know that it is empty, and Spark caches the plans of named
        # tables. A cached empty relation would be sent to all tasks even after the table has grown.
        return spark.createDataFrame([], spark_schema_from_schema(schema))
    return reduce(DataFrame.unionAll, found)


def known_size(snapshot: Snapshot, path: str, size: int) -> int:
    """Get the size of a file in bytes, from storage if the log has none or 0.

    Spark would not read a file of size 0.

    Args:
        snapshot: A snapshot of the table with this file.
        path: Canonical.
        size: The size in the log.

    Raises:
        DataFileError: The file is missing.
        OutsideFileError: The file is outside the table and may not be read from there.
    """
    if size > 0:
        return size
    try:
        storage, place = snapshot.table_files.find(path)
        return storage.stat(place).size
    except FileNotFoundError as error:
        reason = (
            "is missing, though the table needs it; restore it from a backup, or read an older "
            "version that does not need it"
        )
        raise DataFileError(snapshot.uri, snapshot.version, path, reason) from error


def _load_rows(snapshot: Snapshot, chosen: ChosenRows) -> BitMap64:
    """Load the rows of the vector, or the rows that only the first of two vectors contains."""

    def load(vector: DeletionVector) -> BitMap64:
        return load_deletion_vector(snapshot.table_files, snapshot.version, chosen.path, vector)

    match chosen.rows:
        case Difference(vector, DeletionVector() as other):
            return load(vector) - load(other)
        case Deleted(vector) | Difference(vector, _):
            return load(vector)


def _scan_groups(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: ScanColumns,
    groups: Sequence[FileGroup],
    *,
    numbers_rows: bool = False,
    marks: Mapping[str, str] = {},
    keep_files: KeepFiles | None = None,
) -> DataFrame:
    """Read all rows of these files, with the names of `stored_schema`, and `ROW` on request."""
    definition = columns.definition
    data = stored_schema(definition, columns.of_files)
    of_log = log_schema(definition, columns.of_log)
    options = {**READ_OPTIONS, **scan_options(definition), **marks}
    try:
        return file_index.relation(
            spark,
            spark_path(snapshot.storage, ""),
            groups,
            SparkStruct([*data, SparkField(ROW, LongType())]) if numbers_rows else data,
            of_log,
            options,
            folds_case=not any(_names_alike(_join_schemas(data, of_log))),
            keep_files=keep_files,
        )
    except IndexUnavailableError as error:
        warn_once(
            spark,
            "This session has no file index, so Spark checks each file and joins its log entry "
            "by path, which is slower for many files",
            error,
        )
        _require_settings(spark, snapshot.uri, definition)
        _refuse_hidden(snapshot, groups)
        of_spark = {ROW: "row_index"} if numbers_rows else {}
        return file_list.scan(spark, groups, data, of_log, options, of_spark)


def _require_settings(spark: SparkSession, table: str, definition: TableDefinition) -> None:
    """Reject settings that make Spark's own file reader miss columns."""
    if is_case_sensitive(spark):
        raise InvalidRequestError(
            f"{table} cannot be read in this session, which has no file index and would miss "
            f"columns whose names have another case in files; set {CASE_SENSITIVE} to false in "
            "the session"
        )
    # Spark lowercases the options of a reader, and then does not find these settings.
    for name, value in scan_options(definition).items():
        if str(spark.conf.get(name, "false")).lower() != value:
            raise InvalidRequestError(
                f"{table} maps its columns by id, and this session has no file index; set {name} "
                f"to {value} in the session, and read again"
            )


def _require_distinct_names(spark: SparkSession, snapshot: Snapshot, schema: StructType) -> None:
    if is_case_sensitive(spark):
        return
    for names in _names_alike(schema):
        raise InvalidRequestError(
            f"{snapshot.uri} has the columns {' and '.join(names)}, which this session cannot "
            f"distinguish; set {CASE_SENSITIVE} to true in the session, or read with "
            "delta_ops.arrow"
        )


def _require_name_of_rows(snapshot: Snapshot, columns: ScanColumns) -> None:
    """Reject a column that Spark would confuse with its row numbers."""
    if ROW in stored_schema(columns.definition, columns.of_files).names:
        raise InvalidRequestError(
            f"{snapshot.uri} has the column {ROW}, a name that Spark's reader reserves for row "
            "numbers; read it with delta_ops.arrow"
        )


def _require_shredded_variants(spark: SparkSession, snapshot: Snapshot, schema: StructType) -> None:
    """Reject a session that would silently skip the shredded parts of variants."""
    reads_all = str(spark.conf.get(_SHREDDED, "true")).lower() == "true"
    if not reads_all and any(data_type == VARIANT for _, data_type in walk(schema)):
        raise InvalidRequestError(
            f"{snapshot.uri} has variants, and this session would miss their shredded parts; set "
            f"{_SHREDDED} to true in the session, and read again"
        )


def _join_schemas(*schemas: SparkStruct) -> StructType:
    """The columns of all schemas, in order."""
    of_each = (schema_from_json(each.json()).fields for each in schemas)
    return StructType(tuple(chain.from_iterable(of_each)))


def _names_alike(schema: StructType) -> Iterator[list[str]]:
    """Yield groups of names that differ only in case, among columns or fields of one struct."""
    for path, data_type in [((), schema), *walk(schema)]:
        if isinstance(data_type, StructType):
            for same in data_type.fields_by_lower_name.values():
                if len(same) > 1:
                    yield [".".join((*path, each.name)) for each in same]


def _refuse_hidden(snapshot: Snapshot, groups: Sequence[FileGroup]) -> None:
    """Reject files that Spark's own reader silently skips."""
    for group in groups:
        for path, *_ in group.files:
            if is_hidden(path):
                reason = (
                    "has a hidden name, and this session has no file index, so Spark would leave "
                    "it out; read it with delta_ops.arrow, or in a classic session"
                )
                raise DataFileError(snapshot.uri, snapshot.version, path, reason)
