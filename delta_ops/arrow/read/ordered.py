"""Ordered scan: yields the rows of files in the order of columns, without sorting the whole table.

1. Files are opened in the order of the lowest value that their statistics allow, so only files that
   overlap are open at the same time.
2. A file whose footer states the order is read batch by batch. Another file is read whole, and
   sorted.
3. All rows below the first value of the unread rows are complete: they are merged, and yielded.

Memory holds the open files' current batches, the open files without an order, and the rows that
share one value of the first column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.read.projection import plan_selection, select, unite
from delta_ops.arrow.read.reading import ReadFiles
from delta_ops.arrow.sorting import NULL, VALUE, footer_order, ranks_of, sort_rows
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.log import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.schema import TIMESTAMP, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.schema.column_names import path_of_name
from delta_ops.protocol.sort_key import find_sort_columns
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.protocol.values.partition_values import parse
from delta_ops.storage import FileInfo
from delta_ops.storage.parquet_ranges import read_footer

Bound = tuple[int, Any]
"""The rank of a value, and the value as an integer or Python value; 0 for null and NaN."""
_FIRST: Bound = (NULL, 0)
_YIELDED_ROWS = 1 << 16
_TIMES = (pa.types.is_timestamp, pa.types.is_date)


def ordered_batches(
    snapshot: Snapshot,
    wanted: StructType,
    order_by: Sequence[str],
    plan: Callable[[StructType], tuple[Iterable[AddFile], ReadFiles]],
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of columns.

    Args:
        wanted: The columns of the result.
        order_by: Names of columns.
        plan: Returns the files of a request for some columns, and how their rows are read.

    Raises:
        InvalidRequestError: A column does not exist, is named twice, or has no order.
    """
    with naming_table(snapshot.uri):
        paths = [path_of_name(name, snapshot.schema) for name in order_by]
        fields = [each.field for each in find_sort_columns(snapshot.definition, paths)]
    if not fields:
        raise InvalidRequestError(
            f"{snapshot.uri}: {option('order_by')} names no column; name one, or leave it out"
        )
    keys = select(snapshot.schema, [each.name for each in fields])
    needed = unite(snapshot.schema, [wanted, keys])
    files, read = plan(needed)
    ordered = _OrderedFiles(
        order=fields,
        schema=arrow_schema_from_schema(needed),
        read=lambda add: read([add]),
        footer_of=lambda add: _footer_of(add, snapshot),
    )
    keep = plan_selection(*map(arrow_schema_from_schema, (needed, wanted)))
    return map(keep, ordered.batches(files))


def _footer_of(add: AddFile, snapshot: Snapshot) -> pq.FileMetaData:
    storage, path = snapshot.table_files.find(canonical_path(add.path, snapshot.uri))
    return read_footer(storage, FileInfo(path, add.size, modified_ms=0)).metadata


@dataclass(slots=True)
class _Open:
    """An open file: its rows that are in memory, and those to come."""

    rows: pa.Table
    """Sorted."""
    rest: Iterator[pa.RecordBatch] | None
    """Further rows, none below these; None if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OrderedFiles:
    """Files to read in the order of columns.

    Args:
        order: The columns, at least one; the rows have them all.
        schema: The columns of the rows.
        read: Yields the rows of a file.
        footer_of: The footer of a file.
    """

    order: Sequence[StructField]
    schema: pa.Schema
    read: Callable[[AddFile], Iterator[pa.RecordBatch]]
    footer_of: Callable[[AddFile], pq.FileMetaData]

    def batches(self, files: Iterable[AddFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files in order; rows that are equal in all columns in any order."""
        waiting = sorted(((self._lowest(add), add) for add in files), key=lambda each: each[0])
        waiting.reverse()
        opened: list[_Open] = []
        while waiting or opened:
            limit, last = self._limit(opened)
            if waiting and (limit is None or waiting[-1][0] <= limit):
                limit, last = waiting[-1][0], None
            yield from self._take_below(opened, limit)
            if last is not None:
                self._read_more(last)
            elif waiting:
                opened.append(self._open(waiting.pop()[1]))
            opened = [each for each in opened if len(each.rows) or each.rest is not None]

    def _limit(self, opened: Sequence[_Open]) -> tuple[Bound | None, _Open | None]:
        """The first value of the unread rows of open files, and their file; None without any."""
        limit, found = None, None
        for each in opened:
            if each.rest is None:
                continue
            last = self._read_bound(each.rows)
            if limit is None or last < limit:
                limit, found = last, each
        return limit, found

    def _read_bound(self, rows: pa.Table) -> Bound:
        """The value in the last row."""
        values = rows[self.order[0].name].slice(len(rows) - 1)
        rank = ranks_of(values)[0].as_py()
        return rank, _plain_values(values)[0].as_py() if rank == VALUE else 0

    def _take_below(self, opened: Sequence[_Open], limit: Bound | None) -> Iterator[pa.RecordBatch]:
        """Remove the rows below a value from the open files, and yield them in order."""
        found = []
        for each in opened:
            number = len(each.rows) if limit is None else self._number_below(each.rows, limit)
            if number:
                found.append(each.rows.slice(0, number))
                each.rows = each.rows.slice(number)
        if found:
            rows = pa.concat_tables(found)
            if len(found) > 1:
                rows = sort_rows(rows, [each.name for each in self.order])
            yield from rows.combine_chunks().to_batches(_YIELDED_ROWS)

    def _number_below(self, rows: pa.Table, limit: Bound) -> int:
        if not len(rows):
            return 0
        values = rows[self.order[0].name]
        ranks, (rank, value) = ranks_of(values), limit
        below = pc.less(ranks, scalar(rank, pa.int8()))
        if rank == VALUE:
            plain = _plain_values(values)
            is_less = pc.fill_null(pc.less(plain, scalar(value, plain.type)), scalar(False))
            below = pc.or_(below, pc.and_(pc.equal(ranks, scalar(VALUE, pa.int8())), is_less))
        return int(pc.sum(below, min_count=0).as_py())

    def _open(self, add: AddFile) -> _Open:
        batches = self.read(add)
        if not self._is_sorted(add):
            rows = pa.Table.from_batches(batches, self.schema)
            return _Open(sort_rows(rows, [each.name for each in self.order]), None)
        opened = _Open(self.schema.empty_table(), batches)
        self._read_more(opened)
        return opened

    def _read_more(self, opened: _Open) -> None:
        """Read the next batch that has rows."""
        assert opened.rest is not None
        for batch in opened.rest:
            if len(batch):
                opened.rows = pa.concat_tables([opened.rows, pa.Table.from_batches([batch])])
                return
        opened.rest = None

    def _is_sorted(self, add: AddFile) -> bool:
        """Whether the footer says that the rows have this order; true for one row group only."""
        if any(pa.types.is_floating(self.schema.field(each.name).type) for each in self.order):
            return False  # the order of NaN is not defined
        if any(char_length((each.name,), each) is not None for each in self.order):
            return False  # padding may change the order
        footer = self.footer_of(add)
        names = [physical_name(each) for each in self.order]
        stored = footer.schema.to_arrow_schema()
        if footer.num_row_groups != 1 or not set(names) <= set(stored.names):
            return False
        stated = footer.row_group(0).sorting_columns
        wanted = footer_order(stored, names)
        return wanted is not None and list(stated[: len(wanted)]) == wanted

    def _lowest(self, add: AddFile) -> Bound:
        """A bound at or below every value of the first column."""
        stats = parse_stats(add.stats)
        first = self.order[0]
        path = (physical_name(first),)
        if path[0] in add.partition_values:
            if first.data_type == TIMESTAMP:
                return _FIRST  # a time without a zone depends on the request
            value = parse(add.partition_values[path[0]], first.data_type)
            return _FIRST if value is None else self._make_bound(value)
        if stats is None or null_count(stats, path) != 0:
            return _FIRST
        value = lower_bound(stats, path, first.data_type)
        return _FIRST if value is None else self._make_bound(value)

    def _make_bound(self, value: Any) -> Bound:
        data_type = self.schema.field(self.order[0].name).type
        try:
            plain = _plain_values(pa.chunked_array([array_of([value], data_type)]))
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            return _FIRST
        return VALUE, plain[0].as_py()


def _plain_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as integers, because Python lacks some of them."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if any(is_of(values.type) for is_of in _TIMES):
        return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values
