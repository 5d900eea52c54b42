"""The file index: the files of the log as a Spark relation, without a listing or a Spark job.

A scan in Spark calls a `FileIndex` to get its files. Our index extends the base class of Spark's
own index and takes file statuses and typed partition values from the log instead of a listing.
Spark prunes partitions, splits files and pushes down filters as usual. The index is written in Java
(`java/delta_ops/files`), because a call through Py4J takes about half a millisecond and a table has
many files. It depends on Spark internals. If these differ, the caller falls back to a slower read
through the public API.

Each distinct tuple of partition values becomes a partition under a made-up path, so the files may
be anywhere. The files are sent to Spark as columns in one call, and through a temporary file if
they are many. `relation` looks at the first thousand partitions and raises an error if Spark would
scan other files. Each scan repeats this check for its selected partitions and fails if they differ.
"""

from __future__ import annotations

import contextlib
import json
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.spark.callbacks import Callback, accept_callbacks
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_of
from delta_ops.spark.expressions.columns import physical_text
from delta_ops.spark.read.filter_plan import KeepFiles
from delta_ops.spark.session.session import warn_once

_CLASS = "delta_ops.files.LogRelations"
ROW = "_tmp_metadata_row_index"
"""Column with the number of a row in its file, from 0, as Spark's Parquet reader names it.

`_metadata.row_index` comes from the same column, but Spark then puts the value of each row into a
struct.
"""
ROW_NUMBER = "delta_ops row number"
"""Name of `ROW` in results; the spaces keep it distinct from all column names of tables."""


SENT_BYTES = 1 << 18
"""Size limit for bytes sent through Py4J.

Py4J encodes bytes as text, which is about five times as slow as a temporary file.
"""


_PLANNED_FILES = 8
"""Scans of fewer files open all of them: planning costs more than it saves."""


class IndexUnavailableError(Exception):
    """This session or Spark version does not support the index; use another read path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files with the same partition values."""

    values: tuple[str | None, ...]
    """In the order of the partition columns, as `expressions.physical_text` writes them."""
    files: Sequence[tuple[str, int, int]]
    """Path in Spark's format, size in bytes, modification time in milliseconds since the epoch."""


def groups_of(
    files_by_values: Mapping[tuple[str | None, ...], Sequence[tuple[str, int, int]]],
) -> list[FileGroup]:
    """Group files by their partition values. Files of 0 bytes are skipped: they have no rows."""
    groups = (
        FileGroup(values=values, files=[file for file in files if file[1] > 0])
        for values, files in files_by_values.items()
    )
    return [group for group in groups if group.files]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupColumns(Sequence[FileGroup]):
    """Groups of files, stored as columns to save memory.

    A `FileGroup` is built when it is accessed.
    """

    prefix: str
    """Common prefix of all paths."""
    names: pa.StringArray
    """The rest of each path. This and the other columns of files are ordered by group."""
    sizes: pa.Int64Array
    """Bytes."""
    modified: pa.Int64Array
    """Milliseconds since the epoch."""
    counts: pa.Int64Array
    """Number of files in each group."""
    starts: pa.Int64Array
    """Position of the first file of each group."""
    values: Sequence[pa.StringArray]
    """For each partition column, the value of each group, as in `FileGroup.values`."""
    relations: dict[tuple[SparkSession, str], Any] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Cache of Spark relations over these groups, by session and by the JSON of the request."""

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, index: int) -> FileGroup: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FileGroup]: ...
    def __getitem__(self, index: int | slice) -> FileGroup | Sequence[FileGroup]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        place = (self.starts[number].as_py(), self.counts[number].as_py())
        columns = (each.slice(*place).to_pylist() for each in (self.names, self.sizes))
        names, sizes = columns
        modified = self.modified.slice(*place).to_pylist()
        return FileGroup(
            values=tuple(texts[number].as_py() for texts in self.values),
            files=[
                (self.prefix + name, size, time)
                for name, size, time in zip(names, sizes, modified, strict=True)
            ],
        )


def group_columns(
    prefix: str, names: pa.Array, sizes: pa.Array, modified: pa.Array, values: Sequence[pa.Array]
) -> GroupColumns:
    """Group files that are described by columns with one row for each file.

    Files of 0 bytes are skipped: they have no rows.

    Args:
        prefix: Common prefix of all paths.
        names: The rest of each path.
        sizes: Bytes.
        modified: Milliseconds since the epoch.
        values: The partition columns, typed.
    """
    if not pc.all(pc.greater(sizes, 0), min_count=0).as_py():
        holds = pc.greater(sizes, 0)
        names, sizes, modified, *values = (
            each.filter(holds) for each in (names, sizes, modified, *values)
        )
    texts = [_physical_texts(each) for each in values]
    codes = _codes(texts, len(names))
    counts = pc.value_counts(codes).field("counts")  # by code: codes ascend from 0
    starts = pc.subtract(pc.cumulative_sum(counts), counts)
    if len(counts) > 1:
        order = pc.sort_indices(codes)
        names, sizes, modified, *texts = (
            each.take(order) for each in (names, sizes, modified, *texts)
        )
    return GroupColumns(
        prefix=prefix,
        names=names,
        sizes=sizes,
        modified=modified,
        counts=counts,
        starts=starts,
        values=[each.take(starts) for each in texts],
    )


def relation(
    spark: SparkSession,
    root: str,
    groups: Sequence[FileGroup],
    data_schema: StructType,
    partition_schema: StructType,
    options: Mapping[str, str],
    *,
    folds_case: bool,
    keep_files: KeepFiles | None = None,
) -> DataFrame:
    """Scan exactly these files, with the columns of `data_schema` and then of `partition_schema`.

    Args:
        spark: A classic session.
        root: The table root in Spark's format. It is not listed.
        groups: The files. A file may be in several groups.
        data_schema: Columns that the files contain, and `ROW` at the end for the number of each
            row in its file.
        partition_schema: Columns whose values the groups contain.
        options: Passed to Spark's Parquet reader.
        folds_case: Match column names case-insensitively, also in a case-sensitive session.
        keep_files: Leaves out files without a row that passes the filters of a query.

    Raises:
        IndexUnavailableError: This session or Spark version does not support the index.
    """
    columns = groups if isinstance(groups, GroupColumns) else _columns_of(groups)
    key = json.dumps(
        {
            "root": root,
            "prefix": columns.prefix,
            "data": StructType([each for each in data_schema if each.name != ROW]).json(),
            "partitions": partition_schema.json(),
            "options": dict(options),
            "folds_case": folds_case,
            "row": ROW if ROW in data_schema.names else None,
        }
    )
    try:
        session = spark._jsparkSession
        scan = columns.relations.get((spark, key))
        if scan is None:
            relations = instance_of(spark, _CLASS)
            with _bytes_or_file(_bytes_of(columns)) as files:
                scan = relations.relation(session, key, files)
            columns.relations[spark, key] = scan
        if keep_files is not None and len(columns.names) >= _PLANNED_FILES:
            scan = _plan_by_filters(spark, scan, columns, keep_files)
        # Each call gets new column ids. With shared ids, two reads could not be joined.
        return DataFrame(session.baseRelationToDataFrame(scan), spark)
    except OBSTACLES as error:
        raise IndexUnavailableError(first_line(error)) from error


def _plan_by_filters(
    spark: SparkSession, scan: Any, columns: GroupColumns, keep_files: KeepFiles
) -> Any:
    """Return the relation with a planner, which lives as long as queries of this relation.

    The planner refers to the snapshot, and the snapshot to `scan`. So `scan` cannot have it.
    """
    prefix, names = columns.prefix, columns.names

    def keep(filters: str) -> bytes | None:
        return keep_files(filters, prefix, names)

    try:
        accept_callbacks(spark)
        return instance_of(spark, _CLASS).planned(scan, Callback(keep, spark.sparkContext))
    except OBSTACLES as error:
        warn_once(spark, "Filters of queries leave out no files, only partitions", error)
        return scan


@contextlib.contextmanager
def _bytes_or_file(sent: bytes) -> Iterator[bytes | str]:
    """Yield the bytes, or the name of a temporary file with them if they exceed `SENT_BYTES`."""
    if len(sent) <= SENT_BYTES:
        yield sent
        return
    with tempfile.NamedTemporaryFile(prefix="delta_ops-") as file:
        file.write(sent)
        file.flush()
        yield file.name


def _physical_texts(values: pa.Array) -> pa.StringArray:
    """Apply `physical_text` to each value."""
    kind = values.type
    if pt.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.string())
    if pt.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.string())
    if pt.is_string(kind) or pt.is_integer(kind) or pt.is_boolean(kind):
        return values.cast(pa.string())
    return pa.array(map(physical_text, values.to_pylist()), pa.string())


def _codes(columns: Sequence[pa.StringArray], rows: int) -> pa.Array:
    """Number the distinct tuples of texts in order of first appearance.

    Returns:
        The number of each row's tuple.
    """
    codes = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        width = pa.scalar(max(len(encoded.dictionary), 1), pa.int64())
        both = pc.add(pc.multiply(codes, width), encoded.indices.cast(pa.int64()))
        codes = both.dictionary_encode().indices.cast(pa.int64())
    return codes


def _columns_of(groups: Sequence[FileGroup]) -> GroupColumns:
    files = [file for group in groups for file in group.files]
    counts = pa.array([len(group.files) for group in groups], pa.int64())
    return GroupColumns(
        prefix="",
        names=pa.array([path for path, *_ in files], pa.string()),
        sizes=pa.array([size for _, size, _ in files], pa.int64()),
        modified=pa.array([time for *_, time in files], pa.int64()),
        counts=counts,
        starts=pc.subtract(pc.cumulative_sum(counts), counts),
        values=[
            pa.array(texts, pa.string())
            for texts in zip(*(group.values for group in groups), strict=True)
        ],
    )


def _bytes_of(columns: GroupColumns) -> bytes:
    """Serialize the columns for `LogFiles`.

    Little endian; the number of entries precedes each column.
    """
    parts = (
        _bytes_of_numbers(columns.counts),
        _bytes_of_texts(columns.names),
        _bytes_of_numbers(columns.sizes),
        _bytes_of_numbers(columns.modified),
        *map(_bytes_of_texts, columns.values),
    )
    return b"".join(part for column in parts for part in column)


def _bytes_of_numbers(numbers: pa.Array) -> Iterator[Any]:
    yield struct.pack("<i", len(numbers))
    yield _buffer(numbers)


def _bytes_of_texts(texts: pa.StringArray) -> Iterator[Any]:
    yield struct.pack("<i", len(texts))
    yield _buffer(pc.fill_null(pc.binary_length(texts), -1))
    yield pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], pc.fill_null(texts, "")), "")[
        0
    ].as_buffer()


def _buffer(numbers: pa.Array) -> Iterable[int]:
    """Memory of an array without nulls."""
    width = numbers.type.byte_width
    found = numbers.buffers()[1]
    return found.slice(numbers.offset * width, len(numbers) * width) if found else b""
