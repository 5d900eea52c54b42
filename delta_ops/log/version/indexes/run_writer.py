"""Run writer: writes the values of some data files as one run of an index; see `run_file`."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from delta_ops.log.version.indexes.definitions import IndexDefinition
from delta_ops.log.version.indexes.run_file import (
    COVERAGE_BYTES,
    END_BYTES,
    FOOTER_BYTES,
    FOOTER_CRC,
    GROUPS,
    IDENTITY,
    NUM_ENTRIES,
    NUM_FILES,
    NUM_VALUES,
    identity_of,
    index_keys,
    run_schema,
)
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.schema import DataType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type

GROUP_ROWS = 1 << 16
"""A look-up decodes one row group of each run; more row groups make a longer footer."""
_BOUND_LENGTH = 64
"""Characters or bytes of a bound."""


@dataclass(slots=True, kw_only=True)
class RunWriter:
    """Writes one run; `tags` are known after `write`."""

    definition: IndexDefinition
    key_type: DataType
    covered: pa.Table
    """`path`, `size` and `modification_time` of the covered files, by their numbers."""
    values: pa.Array
    """Values of the type of the index, in any order; each once for a file."""
    files: pa.Array
    """The number of the file of each value, as int32."""
    tags: Mapping[str, str] | None = None

    def write(self, stream: IO[bytes]) -> None:
        """Write the run to a stream."""
        counted = _CountedStream(stream)
        schema = pa.schema(
            [
                (each.name, arrow_type_from_type(each.data_type))
                for each in run_schema(self.key_type).fields
            ]
        )
        groups: list[dict[str, Any]] = []
        num_values, coverage_bytes = 0, 0
        with pq.ParquetWriter(counted, schema, **_options(self.key_type)) as writer:
            counted.take_checksum()  # the magic bytes
            for start in range(0, max(len(self.covered), 1), GROUP_ROWS):
                some = self.covered.slice(start, GROUP_ROWS)
                numbers = pa.arange(start, start + len(some)).cast(pa.int32())
                groups.append(_write_group(writer, counted, schema, some, file=numbers))
            num_coverage_groups = len(groups)
            coverage_bytes = sum(each["end"] - each["start"] for each in groups)
            for values, files, keys in self._sorted_groups():
                some = pa.table({"value": values, "file": files})
                groups.append(_write_group(writer, counted, schema, some, keys=keys))
            identity = identity_of(self.definition, self.key_type, num_coverage_groups)
            writer.add_key_value_metadata(
                {
                    IDENTITY: json.dumps(identity).encode(),
                    GROUPS: base64.b64encode(_serialize(groups, self.key_type)),
                }
            )
            counted.keeps = True
        num_values = self._num_values
        tail = bytes(counted.kept)
        footer_bytes = int.from_bytes(tail[-END_BYTES:-4], "little")
        self.tags = {
            FOOTER_CRC: str(zlib.crc32(tail[-END_BYTES - footer_bytes :])),
            FOOTER_BYTES: str(footer_bytes),
            NUM_FILES: str(len(self.covered)),
            NUM_ENTRIES: str(len(self.values)),
            NUM_VALUES: str(num_values),
            COVERAGE_BYTES: str(coverage_bytes),
        }

    _num_values: int = 0

    def _sorted_groups(self) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
        """Yield values, numbers of files and keys of each row group."""
        keys = index_keys(self.values, self.key_type)
        order = pc.sort_indices(
            pa.table({"key": keys, "file": self.files}),
            sort_keys=[("key", "ascending"), ("file", "ascending")],
        )
        keys = keys.take(order)
        num_keys = len(keys) - keys.null_count
        known = keys.slice(0, num_keys)
        changes = pc.not_equal(known.slice(1), known.slice(0, max(num_keys - 1, 0)))
        self._num_values = (pc.sum(changes).as_py() or 0) + bool(num_keys) + bool(keys.null_count)
        for first, end in ((0, num_keys), (num_keys, len(keys))):
            for start in range(first, end, GROUP_ROWS):
                some = order.slice(start, min(GROUP_ROWS, end - start))
                yield (
                    self.values.take(some),
                    self.files.take(some),
                    keys.slice(start, len(some)),
                )


class _CountedStream(io.RawIOBase):
    """Counts the written bytes, and computes their checksum."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.position, self._crc, self.keeps = 0, 0, False
        self.kept = bytearray()
        """The bytes that were written after `keeps` was set."""

    def write(self, data: Any) -> int:
        """Write bytes to the stream, which its owner closes."""
        content = memoryview(data)
        self._stream.write(content)
        self.position += content.nbytes
        self._crc = zlib.crc32(content, self._crc)
        if self.keeps:
            self.kept += content
        return content.nbytes

    def take_checksum(self) -> int:
        """Return the checksum of the bytes since the last call."""
        crc, self._crc = self._crc, 0
        return crc

    def writable(self) -> bool:
        """See `io.IOBase`."""
        return True


def _write_group(
    writer: pq.ParquetWriter,
    counted: _CountedStream,
    schema: pa.Schema,
    rows: pa.Table,
    *,
    file: pa.Array | None = None,
    keys: pa.Array | None = None,
) -> dict[str, Any]:
    """Write a row group, and return its row of `OpenRun.groups`."""
    start = counted.position
    given = {name: rows[name] for name in rows.column_names} | ({"file": file} if file else {})
    columns = [given.get(each.name, pa.nulls(len(rows), each.type)) for each in schema]
    table = pa.table(columns, schema=schema)
    writer.write_table(table, row_group_size=max(len(rows), 1))
    is_null = keys is not None and keys.null_count > 0
    low, high = (None, None) if keys is None or is_null else (keys[0], keys[-1])
    return {
        "low": _floor(low),
        "high": high if high is not None and not _is_long(high) else None,
        "is_null": is_null,
        "rows": len(rows),
        "start": start,
        "end": counted.position,
        "crc": counted.take_checksum(),
    }


def _is_long(value: pa.Scalar) -> bool:
    if not (pt.is_string(value.type) or pt.is_binary(value.type)):
        return False
    return bool(len(value.as_py()) > _BOUND_LENGTH)


def _floor(value: pa.Scalar | None) -> pa.Scalar | None:
    """A value that is not greater, and short."""
    if value is None or not _is_long(value):
        return value
    return scalar(value.as_py()[:_BOUND_LENGTH], value.type)


def _serialize(groups: Sequence[Mapping[str, Any]], data_type: DataType) -> bytes:
    key = index_keys([], data_type).type

    def bounds(name: str) -> pa.Array:
        one_by_one = [
            pa.nulls(1, key) if each[name] is None else pa.repeat(each[name], 1) for each in groups
        ]
        return pa.concat_arrays(one_by_one)

    table = pa.table(
        {
            "low": bounds("low"),
            "high": bounds("high"),
            "is_null": array_of([each["is_null"] for each in groups], pa.bool_()),
            **{
                name: array_of([each[name] for each in groups], pa.int64())
                for name in ("rows", "start", "end", "crc")
            },
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _options(data_type: DataType) -> dict[str, Any]:
    encodings = {"file": "DELTA_BINARY_PACKED", "path": "DELTA_BYTE_ARRAY"}
    of_type = arrow_type_from_type(data_type)
    if pt.is_int64(of_type) or pt.is_date32(of_type) or pt.is_timestamp(of_type):
        encodings["value"] = "DELTA_BINARY_PACKED"
    elif pt.is_string(of_type) or pt.is_binary(of_type):
        encodings["value"] = "DELTA_BYTE_ARRAY"
    return {
        "compression": "zstd",
        "use_dictionary": False,
        "column_encoding": encodings,
        "write_statistics": False,
        "store_decimal_as_integer": True,
        "coerce_timestamps": "us",
    }
