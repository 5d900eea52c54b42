"""Run of an index: a Parquet file that lists values and the data files that hold them.

The first row groups list the covered data files, with their numbers. All other row groups hold the
entries, sorted by value with nulls last: one row for each value and each file that has it. The
footer holds the identity of the column, and the bounds, the place and the checksum of each row
group. The add action holds the checksum of the footer. So a reader uses no damaged byte, reads only
the row groups that can hold a value, and needs nothing but this file to exclude a covered file.

Values are normalized: NaN equals NaN, -0.0 equals 0.0, and no value is truncated. Bounds of long
values are truncated downwards, and then have no upper bound.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from delta_ops.log.version.indexes.definitions import IndexDefinition
from delta_ops.protocol.arrow_values import array_of, numpy_of, scalar
from delta_ops.protocol.schema import (
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_domains import sort_keys
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.parquet_ranges import Footer, Window, open_window, read_window
from delta_ops.storage.unchanging import read_unchanging

FOOTER_CRC, FOOTER_BYTES = "delta_ops.footerCrc", "delta_ops.footerBytes"
NUM_FILES, NUM_ENTRIES, NUM_VALUES = "delta_ops.files", "delta_ops.entries", "delta_ops.values"
COVERAGE_BYTES = "delta_ops.coverageBytes"
"""Tags of a run's add action; all values are whole numbers."""
_TAGS = (FOOTER_CRC, FOOTER_BYTES, NUM_FILES, NUM_ENTRIES, NUM_VALUES, COVERAGE_BYTES)
_WINDOW_GROUPS = 32
"""Number of row groups that are read at a time."""
IDENTITY, GROUPS = b"delta_ops.index", b"delta_ops.groups"
_FORMAT = 1
END_BYTES = 8
"""The length of the footer and the magic bytes."""


class DamagedRunError(ValueError):
    """A run that is not what its add action says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A run, as the log of the index describes it."""

    file: FileInfo
    footer_crc: int
    footer_bytes: int
    num_files: int
    """Covered data files."""
    num_entries: int
    num_values: int
    """Distinct values; only for estimates, as are the numbers above and below."""
    coverage_bytes: int

    @classmethod
    def parse_add(
        cls, path: str, size: int, modified_ms: int, tags: Mapping[str, str | None]
    ) -> RunFile:
        """Read the tags of an add action.

        Raises:
            DamagedRunError: A tag is missing or no number.
        """
        try:
            values = [int(tags[name] or "") for name in _TAGS]
        except (KeyError, ValueError) as error:
            raise DamagedRunError("its add action lacks a tag") from error
        crc, footer_bytes, num_files, num_entries, num_values, coverage_bytes = values
        return cls(
            file=FileInfo(path, size, modified_ms),
            footer_crc=crc,
            footer_bytes=footer_bytes,
            num_files=num_files,
            num_entries=num_entries,
            num_values=num_values,
            coverage_bytes=coverage_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run with its verified footer."""

    run: RunFile
    storage: Storage
    """The storage of the index."""
    key_type: DataType
    footer: Footer
    groups: pa.Table
    """For each row group `low` and `high` (sort keys), `is_null`, `rows`, `start`, `end`, `crc`."""
    num_coverage_groups: int

    @property
    def entries(self) -> pa.Table:
        """The row groups with entries."""
        return self.groups.slice(self.num_coverage_groups)

    def read_coverage(self) -> pa.Table:
        """The covered files: `path`, `size` and `modification_time`, by their numbers.

        Raises:
            DamagedRunError: A row group is damaged.
            FileNotFoundError: The run was deleted.
            StorageError: The store failed.
        """
        names = ["path", "size", "modification_time"]
        tables = list(self._read(range(self.num_coverage_groups), names))
        covered = pa.concat_tables(tables).combine_chunks()
        if len(covered) != self.run.num_files:
            raise DamagedRunError("it lists another number of files than its add action")
        return covered

    def read_entries(self, groups: Sequence[int]) -> Iterator[pa.Table]:
        """Yield the columns `value` and `file` of row groups, some at a time.

        Args:
            groups: Numbers of rows of `entries`, ascending.

        Raises:
            DamagedRunError, FileNotFoundError, StorageError: As for `read_coverage`.
        """
        yield from self._read([self.num_coverage_groups + each for each in groups])

    def bytes_of(self, groups: npt.NDArray[np.bool_]) -> int:
        """Bytes of some row groups with entries."""
        entries = self.entries
        sizes = numpy_of(entries["end"]) - numpy_of(entries["start"])
        return int(sizes[groups].sum())

    def _read(
        self, groups: Sequence[int], columns: Sequence[str] = ("value", "file")
    ) -> Iterator[pa.Table]:
        for window in self._plan_windows(groups):
            content = read_window(self.storage, self.run.file, self.footer, window)
            self._validate(content, window.row_groups)
            with open_window(self.footer, content) as opened:
                yield opened.read_row_groups(
                    list(window.row_groups), columns=list(columns), use_threads=False
                )

    def _validate(self, content: pa.Buffer, groups: Sequence[int]) -> None:
        view = memoryview(content)
        for group in groups:
            start, end, crc = (self.groups[n][group].as_py() for n in ("start", "end", "crc"))
            if zlib.crc32(view[start:end]) != crc:
                raise DamagedRunError(f"its bytes [{start}, {end}) are damaged")

    def _plan_windows(self, groups: Sequence[int]) -> Iterator[Window]:
        chosen: list[int] = []
        ranges: list[tuple[int, int]] = []
        for group in groups:
            start, end = (int(self.groups[name][group].as_py()) for name in ("start", "end"))
            if len(chosen) == _WINDOW_GROUPS:
                yield Window(row_groups=tuple(chosen), ranges=tuple(ranges))
                chosen, ranges = [], []
            chosen.append(group)
            if ranges and ranges[-1][1] == start:
                ranges[-1] = ranges[-1][0], end
            else:
                ranges.append((start, end))
        if chosen:
            yield Window(row_groups=tuple(chosen), ranges=tuple(ranges))


def open_run(
    run: RunFile, storage: Storage, definition: IndexDefinition, wanted: DataType
) -> OpenRun:
    """Read and verify the footer of a run.

    Args:
        run: From the log of the index.
        storage: The storage of the index.
        definition: The index that the run must belong to.
        wanted: The type that its values must have.

    Raises:
        DamagedRunError: The file is damaged, or belongs to another index, table or column.
        FileNotFoundError: The run was deleted.
        StorageError: The store failed.
    """
    end = run.file.size - END_BYTES
    start = end - run.footer_bytes
    if not 4 <= start < end:
        raise DamagedRunError("its add action does not fit its size")
    (tail,) = read_unchanging(storage, run.file, [(start, run.file.size)])
    if len(tail) != end + END_BYTES - start or zlib.crc32(tail) != run.footer_crc:
        raise DamagedRunError("its footer is damaged")
    # The checksum of the footer is right, so the rest of it is what we wrote.
    metadata = pq.read_metadata(pa.BufferReader(tail))
    stored = metadata.metadata or {}
    if IDENTITY not in stored:
        raise DamagedRunError("it is no run of an index")
    identity = json.loads(stored[IDENTITY])
    if identity["formatVersion"] != _FORMAT:
        raise DamagedRunError(f"its formatVersion is {identity['formatVersion']}, not {_FORMAT}")
    if identity != identity_of(definition, wanted, identity["coverageGroups"]):
        raise DamagedRunError(
            f"it belongs to column {'.'.join(identity['column'])} of type {identity['keyType']} "
            f"of index {identity['id']}"
        )
    with pa.ipc.open_stream(base64.b64decode(stored[GROUPS])) as reader:
        groups = reader.read_all().combine_chunks()
    return OpenRun(
        run=run,
        storage=storage,
        key_type=wanted,
        footer=Footer(metadata=metadata, size=run.file.size, content=b""),
        groups=groups,
        num_coverage_groups=identity["coverageGroups"],
    )


def index_keys(values: Any, data_type: DataType) -> pa.Array:
    """Sort keys of values as numbers, texts, bytes or decimals.

    Args:
        values: An Arrow array, or Python values.
        data_type: From `definitions.key_type`.

    Raises:
        pa.ArrowException, ValueError, ArithmeticError: A value does not fit the type.
    """
    if isinstance(data_type, DecimalType):
        of_type = arrow_type_from_type(data_type)
        return values.cast(of_type) if isinstance(values, pa.Array) else array_of(values, of_type)
    keys = sort_keys(values, data_type)
    if pt.is_date32(keys.type):
        return keys.cast(pa.int32())
    return keys.cast(pa.int64()) if pt.is_timestamp(keys.type) else keys


def run_schema(data_type: DataType) -> StructType:
    """The columns of an index as a Delta table.

    Args:
        data_type: From `definitions.key_type`.
    """
    return StructType(
        (
            StructField("value", data_type),
            StructField("file", INTEGER),
            StructField("path", STRING),
            StructField("size", LONG),
            StructField("modification_time", LONG),
        )
    )


def identity_of(
    definition: IndexDefinition, data_type: DataType, num_groups: int
) -> dict[str, Any]:
    """The identity of a run, as its footer holds it."""
    return {
        "formatVersion": _FORMAT,
        "id": definition.id,
        "tableId": definition.table_id,
        "column": list(definition.column),
        "keyType": data_type.name,
        "coverageGroups": num_groups,
    }


def normalize(values: pa.Array, data_type: DataType) -> pa.Array:
    """Convert the values of a column to the type of its index, with one NaN and one zero."""
    values = values.cast(arrow_type_from_type(data_type))
    if data_type != DOUBLE:
        return values
    values = pc.add(values, scalar(0.0))  # -0.0 becomes 0.0
    return pc.if_else(pc.is_nan(values), scalar(float("nan")), values)


def numbers_of_covered(
    covered: pa.Table,
    paths: pa.ChunkedArray,
    sizes: pa.ChunkedArray,
    times: pa.ChunkedArray,
) -> npt.NDArray[np.int64]:
    """The number of each data file among the files that a run covers; -1 for other files.

    A file is the same only if its path, its size and its modification time are equal.

    Args:
        covered: From `OpenRun.read_coverage`.
        paths: Decoded.
        sizes: In bytes.
        times: Modification times, in milliseconds since the Unix epoch.
    """
    at = pc.index_in(paths, covered["path"].combine_chunks())
    is_same = pc.and_(
        pc.equal(covered["size"].take(at), sizes),
        pc.equal(covered["modification_time"].take(at), times),
    )
    numbers: npt.NDArray[np.int64] = numpy_of(
        pc.fill_null(pc.if_else(is_same, at, None), -1).cast(pa.int64())
    )
    return numbers
