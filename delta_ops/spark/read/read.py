"""Read a table's rows as a lazy DataFrame.

The log gives the files, their statistics and their partition values; Spark lists no directory (see
`scan`). Partition columns take their values from the log, even if a file contains other values.
Partition timestamps without a zone are read in the session's time zone. A column that a file lacks
is null.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.arguments import validate_arguments
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import ScanPlan, Snapshot, Source, plan_scan, snapshot_of
from delta_ops.option_words import option
from delta_ops.planning.commit_changes import Deleted
from delta_ops.planning.file_values import parse_partition_values
from delta_ops.planning.recorded_reads import record_read
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import deletion_vectors
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.file_paths import absolute_paths, canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.row_tracking import row_columns, tracked_definition, validate_ids
from delta_ops.protocol.schema import LONG, StructField, StructType
from delta_ops.protocol.schema.char_types import SQL_TYPE, char_lengths
from delta_ops.protocol.schema.column_names import find_named
from delta_ops.protocol.sort_key import find_order
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.spark.expressions.columns import (
    named_column,
    pad,
    physical_text,
    select_columns,
    to_column,
)
from delta_ops.spark.expressions.conditions import Condition, condition_of, simplify_text
from delta_ops.spark.file_uris import file_locations, spark_file
from delta_ops.spark.read.file_index import (
    ROW_NUMBER,
    FileGroup,
    GroupColumns,
    group_columns,
    groups_of,
)
from delta_ops.spark.read.filter_plan import FilterPlanner, KeepFiles
from delta_ops.spark.read.ordered import ordered_rows
from delta_ops.spark.read.scan import ChosenRows, ScanColumns, known_size, scan, unite
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.versions import validate_session

_BASE_ROW_ID = StructField("delta_ops base row id", LONG)
_COMMIT_VERSION = StructField("delta_ops commit version", LONG)
"""Values from the log that all rows of a file share; the spaces keep the names distinct."""
NUMBER = StructField("delta_ops number", LONG)
"""The number of the file that contains the row, among the files of the read."""
_FILE_COLUMNS = ("path", "size", "modification_time", "partition_values")


def read(
    spark: SparkSession,
    source: Source,
    columns: Sequence[str] | None = None,
    predicate: Predicate | Expression | Column | str | None = None,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ref: str | None = None,
    order_by: str | Sequence[str] | None = None,
) -> DataFrame:
    """Read the rows of a snapshot or of one version of a table, by default the latest.

    Args:
        columns: Column names in output order. None: all columns.
        predicate: Only matching rows are returned: from `col` or `parse_predicate`, an expression,
            a Spark SQL string, or a Column. Files that cannot contain any are skipped. Times in a
            string are in the time zone of the session.
        version: The version to read. Excludes `timestamp`.
        timestamp: Read the version at this time, in UTC unless it has a zone.
        ref: Read a tag or branch, such as `tag:2026-11`; see `delta_ops.versioning`.
        order_by: Column or columns to order the rows by, ascending; nulls first, NaN last. Each
            partition has the rows of files that overlap, and partitions follow each other in order,
            without a shuffle. Use a sort key (`delta_ops.sortKey`) to have many partitions.

    Raises:
        InvalidRequestError: A column is missing or named twice, the predicate does not fit the
            table, or Spark cannot reach the storage of a file.
        OutsideFileError: A file is outside the table and may not be read from there.
        UnsupportedFeatureError: The rows are stored in an unsupported way.

    Examples:
        >>> ds.read(spark, "lake/orders").where("price > 15").count()
        2
        >>> _ = ds.delete(spark, "lake/orders")
        >>> ds.read(spark, "lake/orders", version=0).count()  # before the delete
        3
    """
    validate_arguments(read, locals())
    validate_session(spark)
    snapshot = snapshot_of(source, version, timestamp, ref)
    validate(snapshot.definition, "read", table=snapshot.uri, engine="spark")
    wanted = resolve_columns(snapshot.schema, columns)
    if order_by is not None:
        rows = _read_in_order(spark, snapshot, order_by, predicate)
        return show(rows, snapshot.schema, wanted, None)
    if predicate is None:
        groups, chosen = _all_groups(spark, snapshot)
        keep_files = FilterPlanner(spark, snapshot).keep
        rows = _read_groups(spark, snapshot, groups, chosen, keep_files=keep_files)
        return show(rows, snapshot.schema, wanted, None)
    implied, condition = _condition_of(predicate, spark, snapshot)
    plan = _plan_scan(spark, snapshot, implied)
    record_read(snapshot, implied)
    groups, chosen = _groups_of(spark, snapshot, plan.files())
    rows = _read_groups(spark, snapshot, groups, chosen)
    if condition is not None:
        rows = pad_columns(rows, snapshot.schema).filter(condition.column)
        return show(rows, snapshot.schema, wanted, None)
    # Building a Spark filter takes about forty Py4J calls.
    left = None if plan.is_true_throughout() else implied
    return show(rows, snapshot.schema, wanted, left)


def _read_in_order(
    spark: SparkSession,
    snapshot: Snapshot,
    order_by: str | Sequence[str],
    predicate: Predicate | Expression | Column | str | None,
) -> DataFrame:
    """Read the matching rows with all columns, in order."""
    order = find_order(snapshot.definition, order_by, snapshot.uri)
    implied, condition = None, None
    if predicate is not None:
        implied, condition = _condition_of(predicate, spark, snapshot)
        record_read(snapshot, implied)

    def read_some(adds: Sequence[AddFile]) -> DataFrame:
        rows = pad_columns(read_files(spark, snapshot, adds), snapshot.schema)
        if condition is not None:
            return rows.filter(condition.column)
        return rows if implied is None else rows.filter(to_column(implied, snapshot.schema))

    zone = session_time_zone(spark)
    files = plan_scan(snapshot, implied, partition_time_zone=zone)
    return ordered_rows(spark, files, order, read_some)


def _condition_of(
    predicate: Predicate | Expression | Column | str, spark: SparkSession, snapshot: Snapshot
) -> tuple[Predicate, Condition | None]:
    """A predicate that skips files, and the condition for rows; None if the predicate suffices."""
    if isinstance(predicate, str):
        predicate = simplify_text(predicate, spark, snapshot.schema)
    if isinstance(predicate, Predicate):
        return predicate, None
    condition = condition_of(predicate, spark, snapshot.schema, system_clock(), snapshot.uri)
    return condition.selection.implied, condition


def read_marked(spark: SparkSession, snapshot: Snapshot, marks: Mapping[str, str]) -> DataFrame:
    """Read all rows and columns, and mark the scans with `marks`; see `scan`.

    Raises:
        OutsideFileError: A file is outside the table and may not be read from there.
        UnsupportedFeatureError: The rows are stored in an unsupported way.
    """
    groups, chosen = _all_groups(spark, snapshot)
    keep_files = FilterPlanner(spark, snapshot).keep
    rows = _read_groups(spark, snapshot, groups, chosen, marks=marks, keep_files=keep_files)
    return show(rows, snapshot.schema, snapshot.schema.fields, None)


def read_files(
    spark: SparkSession,
    snapshot: Snapshot,
    adds: Iterable[AddFile],
    definition: TableDefinition | None = None,
) -> DataFrame:
    """Read all rows and columns of files.

    Args:
        snapshot: A snapshot of the table. It need not contain the files.
        definition: The definition that the files were written for. None: the snapshot's.
    """
    definition = definition or snapshot.definition
    groups, chosen = _groups_of_adds(spark, snapshot, definition, adds)
    return _read_groups(spark, snapshot, groups, chosen, definition)


def read_kept(spark: SparkSession, snapshot: Snapshot, adds: Iterable[AddFile]) -> DataFrame:
    """Read live rows with their row IDs and row commit versions, if the table tracks rows.

    A rewrite must keep these values. `row_tracking.tracked_definition` has the same columns.
    """
    if row_columns(snapshot.definition, snapshot.uri) is None:
        return read_files(spark, snapshot, adds)
    return read_with_places(spark, snapshot, adds).drop(NUMBER.name, ROW_NUMBER)


def read_numbered(
    spark: SparkSession,
    snapshot: Snapshot,
    adds: Sequence[AddFile],
    numbers: Sequence[int] | None = None,
) -> DataFrame:
    """Read rows as `read_kept` does, with their position and with CHAR columns padded.

    Two columns follow the columns of the table: `NUMBER`, the number of the row's file, and
    `ROW_NUMBER`, the number of the row in its file, from 0.

    Args:
        spark: The session.
        snapshot: The table.
        adds: Files.
        numbers: Number of each file. None: its position in `adds`, from 0.
    """
    return pad_columns(read_with_places(spark, snapshot, adds, numbers), snapshot.schema)


def pad_columns(rows: DataFrame, schema: StructType) -> DataFrame:
    """Pad the CHAR columns, as conditions expect them.

    Args:
        rows: Rows with the columns of the table; other columns are allowed.
        schema: Schema of the table.
    """
    padded = {each.name: _shown_column(each) for each in schema.fields if char_lengths(each)}
    return rows.withColumns(padded) if padded else rows


def read_with_places(
    spark: SparkSession,
    snapshot: Snapshot,
    adds: Iterable[AddFile],
    numbers: Sequence[int] | None = None,
) -> DataFrame:
    """Read rows as `read_numbered` does, without padding."""
    tracked = row_columns(snapshot.definition, snapshot.uri)
    definition = tracked_definition(snapshot.definition, snapshot.uri)
    of_rows = () if tracked is None else (_BASE_ROW_ID, _COMMIT_VERSION)

    def values_of(place: int, add: AddFile) -> tuple[int | None, ...]:
        number = place if numbers is None else numbers[place]
        if tracked is None:
            return (number,)
        validate_ids(add, snapshot.uri)
        return (number, add.base_row_id, add.default_row_commit_version)

    groups, chosen = _groups_of_adds(spark, snapshot, definition, adds, values_of)
    extra_fields = (NUMBER, *of_rows)
    schema = StructType((*definition.schema.fields, *extra_fields))
    columns = ScanColumns(definition, schema, (*definition.partition_fields, *extra_fields))
    parts = scan(spark, snapshot, columns, groups, chosen, numbers_rows=True)
    rows = unite(spark, StructType((*schema.fields, StructField(ROW_NUMBER, LONG))), parts)
    if tracked is not None:
        row_id = named_column(_BASE_ROW_ID.name) + named_column(ROW_NUMBER)
        kept = {tracked.row_id: row_id, tracked.commit_version: named_column(_COMMIT_VERSION.name)}
        rows = rows.withColumns(
            {name: sf.coalesce(named_column(name), default) for name, default in kept.items()}
        )
    names = [*(each.name for each in definition.schema.fields), NUMBER.name, ROW_NUMBER]
    return select_columns(rows, [(name, name) for name in names])


def _groups_of_adds(
    spark: SparkSession,
    snapshot: Snapshot,
    definition: TableDefinition,
    adds: Iterable[AddFile],
    extra_values: Callable[[int, AddFile], Iterable[int | None]] = lambda _, _add: (),
) -> tuple[list[FileGroup], list[ChosenRows]]:
    """Group files as `_groups_of` does, with more values that all rows of a file share."""
    time_zone, fields = session_time_zone(spark), definition.partition_fields
    by_values: dict[tuple[str | None, ...], list[tuple[str, int, int]]] = {}
    chosen: list[ChosenRows] = []
    for number, add in enumerate(adds):
        path = canonical_path(add.path, snapshot.uri)
        values = parse_partition_values(
            fields,
            add.partition_values,
            is_mapped=definition.is_mapped,
            time_zone=time_zone,
            table=snapshot.uri,
            path=path,
        )
        texts = tuple(
            physical_text(each)
            for each in (*(values[f.name] for f in fields), *extra_values(number, add))
        )
        size = known_size(snapshot, path, add.size)
        file = (spark_file(spark, snapshot, path), size, add.modification_time)
        if add.deletion_vector is None:
            by_values.setdefault(texts, []).append(file)
        elif size > 0:
            group = FileGroup(values=texts, files=[file])
            chosen.append(ChosenRows(group, path, Deleted(add.deletion_vector)))
    return groups_of(by_values), chosen


def _read_groups(
    spark: SparkSession,
    snapshot: Snapshot,
    groups: Sequence[FileGroup],
    chosen: Sequence[ChosenRows] = (),
    definition: TableDefinition | None = None,
    marks: Mapping[str, str] = {},
    keep_files: KeepFiles | None = None,
) -> DataFrame:
    """Read all rows and columns of these files, in the column order of the table."""
    definition = definition or snapshot.definition
    validate(definition, "read", table=snapshot.uri, engine="spark")
    columns = ScanColumns(definition, definition.schema, definition.partition_fields)
    parts = scan(spark, snapshot, columns, groups, chosen, marks=marks, keep_files=keep_files)
    return unite(spark, definition.schema, parts)


def show(
    rows: DataFrame, schema: StructType, wanted: Sequence[StructField], predicate: Predicate | None
) -> DataFrame:
    """Filter rows, select columns, and pad CHAR columns.

    Args:
        schema: The columns of `rows`.
    """
    if predicate is not None:
        rows = rows.filter(to_column(predicate, schema))
    if any(char_lengths(each) is not None for each in wanted):
        return rows.select(*map(_shown_column, wanted))
    if list(wanted) == list(schema.fields):
        return rows
    return select_columns(rows, [(each.name, each.name) for each in wanted])


def resolve_columns(schema: StructType, columns: Sequence[str] | None) -> list[StructField]:
    """Find columns by name. None selects all columns.

    Raises:
        InvalidRequestError: A column is missing or named twice.
    """
    if columns is None:
        return list(schema.fields)
    if isinstance(columns, str):
        raise InvalidRequestError(
            f"{option('columns')} must be a list of names; write {option('columns', [columns])}"
        )
    found: dict[str, StructField] = {}
    for name in columns:
        field = find_named(schema, name)
        if field.name in found:
            raise InvalidRequestError(f"Column {name} is selected twice; name it once.")
        found[field.name] = field
    return list(found.values())


def _shown_column(field: StructField) -> Column:
    """The column, padded if it is CHAR.

    The type in its metadata makes Spark pad values that are compared with it.
    """
    lengths, column = char_lengths(field), named_column(field.name)
    if lengths is None:
        return column
    metadata = {key: field.metadata[key] for key in ("comment", SQL_TYPE) if key in field.metadata}
    return pad(column, field.data_type, lengths).alias(field.name, metadata=metadata)


class _AllGroups(NamedTuple):
    """The files of a snapshot, grouped for one session and time zone."""

    spark: SparkSession
    time_zone: str
    groups: GroupColumns
    chosen: list[ChosenRows]


_kept: weakref.WeakKeyDictionary[Snapshot, _AllGroups] = weakref.WeakKeyDictionary()
"""Cache of the grouped files, for repeated reads of the same snapshot object."""


def _all_groups(
    spark: SparkSession, snapshot: Snapshot
) -> tuple[GroupColumns, Sequence[ChosenRows]]:
    """Group all files of the snapshot as `_groups_of` does."""
    time_zone = session_time_zone(spark)
    kept = _kept.get(snapshot)
    if kept is None or kept.spark is not spark or kept.time_zone != time_zone:
        files = _plan_scan(spark, snapshot, None).files()
        kept = _AllGroups(spark, time_zone, *_groups_of(spark, snapshot, files))
        if not absolute_paths(files["path"]):  # each read must pass their locations to the session
            _kept[snapshot] = kept
    return kept.groups, kept.chosen


def _plan_scan(spark: SparkSession, snapshot: Snapshot, predicate: Predicate | None) -> ScanPlan:
    return plan_scan(
        snapshot,
        predicate,
        columns=["path", "size", "modification_time", "partition_values", "deletion_vector"],
        partition_time_zone=session_time_zone(spark),
    )


def _groups_of(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table
) -> tuple[GroupColumns, list[ChosenRows]]:
    """Group the files without deletion vectors; list separately the files that have one."""
    place_of = file_locations(spark, snapshot)
    has_vector = pc.struct_field(files["deletion_vector"], "storageType").is_valid()
    names = snapshot.partition_columns

    chosen: list[ChosenRows] = []
    some = files.filter(has_vector)
    for path, in_log, modified_ms, values, vector in zip(
        *(some[name].to_pylist() for name in _FILE_COLUMNS),
        deletion_vectors(some["deletion_vector"]),
        strict=True,
    ):
        assert vector is not None
        file = (place_of(path), known_size(snapshot, path, in_log), modified_ms or 0)
        group = FileGroup(values=tuple(physical_text(values[n]) for n in names), files=[file])
        chosen.append(ChosenRows(group, path, Deleted(vector)))

    whole = files.filter(pc.invert(has_vector)) if len(some) else files
    paths, sizes, modified, values = (whole[name].combine_chunks() for name in _FILE_COLUMNS)
    if not pc.all(pc.greater(sizes, 0), min_count=0).as_py():
        logged = zip(paths.to_pylist(), sizes.to_pylist(), strict=True)
        sizes = pa.array([known_size(snapshot, *each) for each in logged], pa.int64())
    prefix = place_of("")
    if absolute_paths(whole["path"]):
        prefix = ""
        paths = pa.array(map(place_of, paths.to_pylist()))
    columns = [values.field(name) for name in names]
    return group_columns(prefix, paths, sizes, pc.fill_null(modified, 0), columns), chosen
