"""Files by time: the live files of a snapshot in a fixed order, loaded in windows.

Files are ordered by modification time, then by their paths in the log. Only the times of all files
stay in memory; other fields are loaded for a moving window of files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.log.version.repeated_files import drop_repeated
from delta_ops.protocol.arrow_schemas import ADD

_TIME, _NUMBER = "modificationTime", "delta_ops number"
_COLUMNS = [name for name in ADD.names if name not in ("stats", "tags")]


class FilesByTime:
    """The live files of a snapshot, numbered from 0.

    Args:
        window: Number of files in memory; more if more files have the same time.
    """

    def __init__(self, snapshot: Snapshot, window: int = 100_000) -> None:
        self._snapshot, self._window = snapshot, window
        times = pa.concat_tables(snapshot.stream_live([_TIME]))[_TIME].combine_chunks()
        times = pc.fill_null(times, 0)
        self._times = times.take(pc.sort_indices(times))
        self._loaded = pa.table({_NUMBER: pa.array([], pa.int64())})
        self._first = self._end = 0
        """The range of file numbers in memory."""

    def __len__(self) -> int:
        return len(self._times)

    def sizes_from(self, first: int) -> Iterator[int]:
        """Yield the size in bytes of each file, from a number on."""
        while first < len(self):
            rows = self._rows_from(first)
            yield from rows["size"].to_pylist()
            first = self._end

    def rows_between(self, numbers: slice) -> Iterator[pa.Table]:
        """Yield the files with these numbers as rows of `arrow_schemas.ADD`, without duplicates."""
        first, stop, _ = numbers.indices(len(self))
        while first < stop:
            rows = self._rows_from(first)
            rows = rows.filter(pc.less(rows[_NUMBER], stop))
            # A checkpoint from another writer may list a file twice.
            yield _add_rows(drop_repeated(rows, self._snapshot.uri))
            first = self._end

    def _rows_from(self, first: int) -> pa.Table:
        if not self._first <= first < self._end:
            self._load(first)
        return self._loaded.slice(first - self._first)

    def _load(self, first: int) -> None:
        """Load a window that starts at this file, or at the first file with the same time."""
        last = min(first + self._window, len(self)) - 1
        from_ms, to_ms = self._times[first].as_py(), self._times[last].as_py()
        self._loaded = None  # free the previous window first
        tables = []
        for table in self._snapshot.stream_live(_COLUMNS):
            times = pc.fill_null(table[_TIME], 0)
            is_within = pc.and_(pc.greater_equal(times, from_ms), pc.less_equal(times, to_ms))
            tables.append(table.set_column(_COLUMNS.index(_TIME), _TIME, times).filter(is_within))
        rows = pa.concat_tables(tables).sort_by([(_TIME, "ascending"), ("path", "ascending")])
        self._first = bisect_left(self._times, from_ms, key=lambda time: time.as_py())
        self._end = bisect_right(self._times, to_ms, key=lambda time: time.as_py())
        numbers = pa.array(range(self._first, self._end), pa.int64())
        self._loaded = rows.append_column(_NUMBER, numbers)


def _add_rows(rows: pa.Table) -> pa.Table:
    columns = [
        rows[field.name] if field.name in _COLUMNS else pa.nulls(len(rows), field.type)
        for field in ADD
    ]
    return pa.table(columns, schema=ADD)
