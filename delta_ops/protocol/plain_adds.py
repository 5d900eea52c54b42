"""Plain adds: lines of nothing but adds with the fields that every writer gives, by Arrow's reader.

It needs no Python while it reads, so that it decodes one commit while `json_file_actions` decodes
another. Whatever it does not know, and whatever could be read in two ways, it leaves to that one:
both give the same rows (a property test).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from delta_ops.protocol.arrow_schemas import ADD, STRING_MAP, hashed

_FIELDS = ("path", "partitionValues", "size", "modificationTime", "dataChange", "stats")
_REQUIRED = ("path", "partitionValues", "size")
_BLOCK_BYTES = 8 << 20
_LINE_END = pa.scalar(10, pa.uint8())
_POOL = pa.system_memory_pool()


def plain_add_table(lines: bytes) -> pa.Table | None:
    """Lines as a table of `hashed(ADD)`; None if they are anything but plain adds."""
    try:
        first = msgspec.json.decode(lines[: lines.find(b"\n") + 1 or len(lines)])
        names = list(first["add"]["partitionValues"])
        rows = _rows(lines, names)
        rows.validate(full=True)  # Arrow's reader takes any bytes for text
        if len(rows) != _num_lines(lines) or rows["add"].null_count:
            return None
        return pa.concat_tables([_table(chunk, names) for chunk in rows["add"].chunks])
    except (
        pa.ArrowException,
        msgspec.MsgspecError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ):
        return None


def _rows(lines: bytes, names: Sequence[str]) -> pa.Table:
    values = pa.struct([(name, pa.string()) for name in names])
    types = {name: ADD.field(name).type for name in _FIELDS} | {"partitionValues": values}
    return pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(
            block_size=min(len(lines) + 1, _BLOCK_BYTES), use_threads=False
        ),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([("add", pa.struct(list(types.items())))]),
            unexpected_field_behavior="error",
        ),
        memory_pool=_POOL,
    )


def _num_lines(lines: bytes) -> int:
    """Arrow counts without holding up the other threads."""
    octets = pa.Array.from_buffers(pa.uint8(), len(lines), [None, pa.py_buffer(lines)])
    num_ends: int = pc.equal(octets, _LINE_END).true_count
    return num_ends + (not lines.endswith(b"\n"))


def _table(adds: pa.StructArray, names: Sequence[str]) -> pa.Table:
    """Raises `ValueError` where a value is missing or not what it must be."""
    columns = dict(zip(_FIELDS, adds.flatten(), strict=True))
    if any(columns[name].null_count for name in _REQUIRED):
        raise ValueError("a required field is missing")
    if pc.any(pc.less(columns["size"], 0)).as_py():
        raise ValueError("a size is negative")
    columns["partitionValues"] = _map_array(columns["partitionValues"], names)
    hashes = pa.py_buffer(array("q", map(hash, columns["path"].to_pylist())))
    return pa.table(
        [
            *(columns.get(field.name, pa.nulls(len(adds), field.type)) for field in ADD),
            pa.Array.from_buffers(pa.int64(), len(adds), [None, hashes]),
        ],
        schema=hashed(ADD),
    )


def _map_array(structs: pa.StructArray, names: Sequence[str]) -> pa.MapArray:
    """Structs as maps. A key without a value cannot be told from one that is missing."""
    columns = structs.flatten()
    if any(column.null_count for column in columns):
        raise ValueError("a partition value is null or missing")
    count, width = len(structs), len(names)
    items = columns[0] if width == 1 else pa.array([], pa.string())
    if width > 1:
        row_by_row = [column * count + row for row in range(count) for column in range(width)]
        items = pa.concat_arrays(columns).take(pa.array(row_by_row, pa.int64()))
    return pa.MapArray.from_arrays(
        pa.array(range(0, count * width + 1, width) if width else [0] * (count + 1), pa.int32()),
        pa.array(list(names) * count, pa.string()),
        items,
        STRING_MAP,
    )
