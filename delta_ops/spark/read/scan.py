"""Scan: the rows of files that the log names, by whichever way the session has.

On a classic session the files become a `file_index`; elsewhere, and where that cannot be had, their
paths are given to Spark's reader and what the log says of them is looked up by path. Both ways give
the same rows. Files of which only some rows are wanted are a scan of their own, see `live_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import NamedTuple

from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
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
from delta_ops.spark.places import reach, spark_path
from delta_ops.spark.read import file_index, file_list
from delta_ops.spark.read.file_index import ROW, ROW_NUMBER, FileGroup, IndexUnavailableError
from delta_ops.spark.read.file_list import is_hidden
from delta_ops.spark.read.live_rows import FILE, keep_live, keep_named
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.session.session import tell_once
from delta_ops.storage.concurrency import run_parallel

READ_OPTIONS: Mapping[str, str] = {
    # A session may say otherwise, and rows would be missing or shifted without a word.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "ignoredPathSegmentRegex": "(?!)",
    "mergeSchema": "false",
    # Of files by other programs than Spark; Spark's own say what they are.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}

CASE_SENSITIVE = "spark.sql.caseSensitive"
_SHREDDED = "spark.sql.variant.allowReadingShredded"


class ChosenRows(NamedTuple):
    """A file of which some rows are wanted."""

    group: FileGroup
    """The file alone."""
    path: str
    """Canonical."""
    rows: Deleted | Difference


class ScanColumns(NamedTuple):
    """The columns of a scan."""

    definition: TableDefinition
    """The table that they are columns of."""
    schema: StructType
    """All of them, in the order wanted."""
    of_log: tuple[StructField, ...]
    """Columns of which groups have the values; files hold the others."""

    @property
    def of_files(self) -> list[StructField]:
        """The columns that files hold."""
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
) -> Iterator[DataFrame]:
    """The rows of these files, in parts that have the same columns.

    Args:
        spark: The session.
        snapshot: Whose files they are.
        columns: What is read of them.
        groups: Files of which all rows are wanted.
        chosen: Files of which some are.
        numbers_rows: Whether the parts have the column `ROW_NUMBER` behind the others.
        marks: Options of the scans that Spark has no use for, and that their plan shows.

    Raises:
        DataFileError: A deletion vector cannot be read, or Spark would leave a file out.
        InvalidRequestError: The session takes columns for one another, or would miss values.
    """
    reach(spark, snapshot.storage)
    _require_distinct_names(spark, snapshot, columns.schema)
    _require_name_of_rows(snapshot, columns)
    _require_shredded_variants(spark, snapshot, columns.schema)
    scan_groups = partial(_scan_groups, spark, snapshot, marks=marks)
    show = partial(
        select_table_columns,
        definition=columns.definition,
        fields=columns.schema.fields,
        beside=[(ROW, ROW_NUMBER)] if numbers_rows else (),
    )
    if groups:
        yield show(scan_groups(columns, groups, numbers_rows=numbers_rows))
    numbered = columns._replace(of_log=(*columns.of_log, FILE))
    for kind, keep in _KEEP.items():
        of_kind = [each for each in chosen if isinstance(each.rows, kind)]
        loaded = zip(of_kind, run_parallel(partial(_load_rows, snapshot), of_kind), strict=True)
        # Where two vectors agree, nothing of the file is wanted.
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


def tells_case(spark: SparkSession) -> bool:
    """Whether names that differ in case only are two names to the session."""
    return str(spark.conf.get(CASE_SENSITIVE, "false")).lower() == "true"


def unite(spark: SparkSession, schema: StructType, parts: Iterable[DataFrame]) -> DataFrame:
    """The rows of all parts of scans with these columns; none where there is no part."""
    found = list(parts)
    if not found:
        # Not `empty_rows`, of which Spark knows that they are none: it keeps the plans of tables
        # that it has by name, and an empty one would be sent to all tasks when it has grown.
        return spark.createDataFrame([], spark_schema_from_schema(schema))
    return reduce(DataFrame.unionAll, found)


def known_size(snapshot: Snapshot, path: str, size: int) -> int:
    """The size of a file in bytes, looked up if the log says none or 0: Spark reads no such file.

    Args:
        snapshot: Whose file it is.
        path: Canonical.
        size: By the log.

    Raises:
        DataFileError: The file is gone.
        OutsideFileError: It lies outside of the table and may not be read there.
    """
    if size > 0:
        return size
    try:
        storage, place = snapshot.table_files.find(path)
        return storage.stat(place).size
    except FileNotFoundError as error:
        reason = (
            "is gone, though the log names it; restore it from a backup, or read an older version "
            "that does not need it"
        )
        raise DataFileError(snapshot.uri, snapshot.version, path, reason) from error


def _load_rows(snapshot: Snapshot, chosen: ChosenRows) -> BitMap64:
    """The rows that the vector names, or the one of two alone."""

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
) -> DataFrame:
    """All rows of these files, with the names of `stored_schema`, and `ROW` if it is asked for."""
    definition = columns.definition
    data = stored_schema(definition, columns.of_files)
    of_log = log_schema(definition, columns.of_log)
    options = {**READ_OPTIONS, **scan_options(definition), **marks}
    try:
        return file_index.relation(
            spark,
            spark_path(snapshot.storage, ""),
            groups,
            data,
            of_log,
            options,
            folds_case=not any(_names_alike(_join_schemas(data, of_log))),
            numbers_rows=numbers_rows,
        )
    except IndexUnavailableError as error:
        tell_once(
            spark,
            "This session reads without a file index, so Spark looks up each file, and what the "
            "log says of it by its path, which takes longer for many files",
            error,
        )
        _require_settings(spark, snapshot.uri, definition)
        _refuse_hidden(snapshot, groups)
        of_spark = {ROW: "row_index"} if numbers_rows else {}
        return file_list.scan(spark, groups, data, of_log, options, of_spark)


def _require_settings(spark: SparkSession, table: str, definition: TableDefinition) -> None:
    """Refuse settings by which Spark's own reader of files would miss columns."""
    if tells_case(spark):
        raise InvalidRequestError(
            f"{table} cannot be read by this session, which has no file index and would miss "
            f"columns that files write in another case; set {CASE_SENSITIVE} to false in it"
        )
    # What a reader is told by its options, Spark turns to lower case, where settings are not found.
    for name, value in scan_options(definition).items():
        if str(spark.conf.get(name, "false")).lower() != value:
            raise InvalidRequestError(
                f"{table} maps its columns by id, and this session has no file index; set "
                f"{name} to {value} in it, and read again"
            )


def _require_distinct_names(spark: SparkSession, snapshot: Snapshot, schema: StructType) -> None:
    if tells_case(spark):
        return
    for names in _names_alike(schema):
        raise InvalidRequestError(
            f"{snapshot.uri} has the columns {' and '.join(names)}, which this session takes for "
            f"one; set {CASE_SENSITIVE} to true in it, or read with delta_ops.arrow"
        )


def _require_name_of_rows(snapshot: Snapshot, columns: ScanColumns) -> None:
    """Refuse a column whose values Spark would take for the numbers of rows, or these for it."""
    if ROW in stored_schema(columns.definition, columns.of_files).names:
        raise InvalidRequestError(
            f"{snapshot.uri} has the column {ROW}, by which Spark's reader calls the numbers of "
            "rows; read it with delta_ops.arrow"
        )


def _require_shredded_variants(spark: SparkSession, snapshot: Snapshot, schema: StructType) -> None:
    """Refuse a session that would leave out, without a word, what files store apart of variants."""
    reads_all = str(spark.conf.get(_SHREDDED, "true")).lower() == "true"
    if not reads_all and any(data_type == VARIANT for _, data_type in walk(schema)):
        raise InvalidRequestError(
            f"{snapshot.uri} has variants, of which this session would miss what files store in "
            f"parts; set {_SHREDDED} to true in it, and read again"
        )


def _join_schemas(*schemas: SparkStruct) -> StructType:
    """The columns of all of them."""
    of_each = (schema_from_json(each.json()).fields for each in schemas)
    return StructType(tuple(chain.from_iterable(of_each)))


def _names_alike(schema: StructType) -> Iterator[list[str]]:
    """Names that differ in case only, of columns or of fields of one struct."""
    for path, data_type in [((), schema), *walk(schema)]:
        if isinstance(data_type, StructType):
            for same in data_type.fields_by_lower_name.values():
                if len(same) > 1:
                    yield [".".join((*path, each.name)) for each in same]


def _refuse_hidden(snapshot: Snapshot, groups: Sequence[FileGroup]) -> None:
    """Refuse files that Spark's own reader leaves out without a word."""
    for group in groups:
        for path, *_ in group.files:
            if is_hidden(path):
                reason = (
                    "has a hidden name, and this session has no file index, so Spark would leave "
                    "it out; read it with delta_ops.arrow, or in a classic session"
                )
                raise DataFileError(snapshot.uri, snapshot.version, path, reason)
