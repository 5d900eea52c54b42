"""The file index: files of the log as a Spark relation, without a listing and without a job.

Spark asks a `FileIndex` which files a scan opens. Ours is the base class of Spark's own, given the
statuses and typed partition values of the log instead of a listing; Spark prunes partitions, splits
files and pushes down filters as for any other. It is Java (`java/delta_ops/files`): calls through
Py4J take about half a millisecond, and a table has many files. It depends on internals of Spark.
Where they differ, the caller reads in a slower way by the public API.

Each distinct tuple of partition values is a partition under a made-up path, so files lie where they
like. Files go to Spark as columns, in one call, many of them through a temporary file. `relation`
refuses to return if Spark would scan other files than were given, by a look at the first thousand
partitions; each scan looks at those that it chose, and refuses to run.
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

from delta_ops.spark.compiled import OBSTACLES, first_line, instance_of
from delta_ops.spark.expressions.columns import physical_text

_CLASS = "delta_ops.files.LogRelations"
ROW = "_tmp_metadata_row_index"
"""The number of a row in its file, from 0: the name by which Spark's reader of Parquet tells it.

`_metadata.row_index` is read by it too, and then put into a struct for each row.
"""
ROW_NUMBER = "delta_ops row number"
"""`ROW` beside the columns of a table, none of which has a name with spaces like this one."""


SENT_BYTES = 1 << 18
"""What Py4J is given at most; it makes text of bytes, and is some five times as slow as a file."""


class IndexUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the index; read in another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files with the same partition values."""

    values: tuple[str | None, ...]
    """In the order of the partition columns, as `expressions.physical_text` writes them."""
    files: Sequence[tuple[str, int, int]]
    """Path as Spark takes it, size in bytes, modification time in milliseconds."""


def groups_of(
    files_by_values: Mapping[tuple[str | None, ...], Sequence[tuple[str, int, int]]],
) -> list[FileGroup]:
    """The groups of files by their values, without files of 0 bytes: these have no rows."""
    groups = (
        FileGroup(values=values, files=[file for file in files if file[1] > 0])
        for values, files in files_by_values.items()
    )
    return [group for group in groups if group.files]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupColumns(Sequence[FileGroup]):
    """Groups of files as columns, which take far less for many; a group is made when asked for."""

    prefix: str
    """What every path begins with."""
    names: pa.StringArray
    """The rest of each path, group by group, as are the other columns of files."""
    sizes: pa.Int64Array
    """Bytes."""
    modified: pa.Int64Array
    """Milliseconds since the epoch."""
    counts: pa.Int64Array
    """The number of files of each group."""
    starts: pa.Int64Array
    """The first file of each group."""
    values: Sequence[pa.StringArray]
    """By partition column, the value of each group, as `FileGroup.values` has it."""
    relations: dict[tuple[SparkSession, str], Any] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Relations that were made of them in a session's driver, by what was asked for."""

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
    """The groups of files of which one row of each column tells; files of 0 bytes have no rows.

    Args:
        prefix: What every path begins with.
        names: The rest of the paths.
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
    counts = pc.value_counts(codes).field("counts")  # by code, as these count up from the start
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
    numbers_rows: bool = False,
) -> DataFrame:
    """A scan of exactly these files; columns of `data_schema`, then of `partition_schema`.

    Args:
        spark: A classic session.
        root: The table's root as Spark takes it; nothing is looked up there.
        groups: The files; one may be in several groups.
        data_schema: Columns that files have.
        partition_schema: Columns of which groups have the values.
        options: Passed to Spark's Parquet reader.
        folds_case: Find columns whatever the case of their names, also in a session that tells
            names by their case.
        numbers_rows: Tell of each row its number, in the column `ROW` after those of `data_schema`.

    Raises:
        IndexUnavailableError: It cannot be had here.
    """
    columns = groups if isinstance(groups, GroupColumns) else _columns_of(groups)
    given = json.dumps(
        {
            "root": root,
            "prefix": columns.prefix,
            "data": data_schema.json(),
            "partitions": partition_schema.json(),
            "options": dict(options),
            "folds_case": folds_case,
            "row": ROW if numbers_rows else None,
        }
    )
    try:
        session = spark._jsparkSession
        scan = columns.relations.get((spark, given))
        if scan is None:
            relations = instance_of(spark, _CLASS)
            with _handover(_bytes_of(columns)) as files:
                scan = relations.relation(session, given, files)
            columns.relations[spark, given] = scan
        # Its columns are new ones each time, or else two reads could not be joined.
        return DataFrame(session.baseRelationToDataFrame(scan), spark)
    except OBSTACLES as error:
        raise IndexUnavailableError(first_line(error)) from error


@contextlib.contextmanager
def _handover(sent: bytes) -> Iterator[bytes | str]:
    """What Py4J gives to the driver: the bytes, or if they are many the file that has them."""
    if len(sent) <= SENT_BYTES:
        yield sent
        return
    with tempfile.NamedTemporaryFile(prefix="delta_ops-") as file:
        file.write(sent)
        file.flush()
        yield file.name


def _physical_texts(values: pa.Array) -> pa.StringArray:
    """`physical_text` of each."""
    kind = values.type
    if pt.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.string())
    if pt.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.string())
    if pt.is_string(kind) or pt.is_integer(kind) or pt.is_boolean(kind):
        return values.cast(pa.string())
    return pa.array(map(physical_text, values.to_pylist()), pa.string())


def _codes(columns: Sequence[pa.StringArray], rows: int) -> pa.Array:
    """The number of each row's tuple of texts, in the order in which they come first."""
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
    """The columns as `LogFiles` reads them: a number of entries before each, little endian."""
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
    """The numbers in memory; there is no null among them."""
    width = numbers.type.byte_width
    found = numbers.buffers()[1]
    return found.slice(numbers.offset * width, len(numbers) * width) if found else b""
