"""The add and remove lines of commits in bulk, by Arrow's JSON reader.

Taking each line apart in Python takes ten times as long. Arrow's reader has to know all names
beforehand: those of partition columns and tags are taken from the first line of their kind, and
found out from all lines where these do not do. What it cannot read is left to `json_codec`, which
takes line by line and finds the one that is wrong. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.arrow_schemas import ADD, REMOVE, STRING_MAP
from delta_ops.protocol.json_lines import read_json_lines

FILE_LINES = (b'{"add":{', b'{"remove":{')
"""How lines begin that can be taken in bulk."""

_STARTS = dict(zip(("add", "remove"), FILE_LINES, strict=True))
_SCHEMAS: Mapping[str, pa.Schema] = {"add": ADD, "remove": REMOVE}
_REQUIRED: Mapping[str, tuple[str, ...]] = {"add": ("path", "size"), "remove": ("path",)}

_MAX_BRACKETS = 500
"""In a line whose types Arrow's reader finds out: some ten thousand within each other crash it."""

_MapNames = Mapping[str, tuple[str, ...]]
"""The keys of each map of an action, by the map's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileActions:
    """File actions, in the order of their lines."""

    adds: pa.Table
    """Schema `arrow_schemas.ADD`."""
    removes: pa.Table
    """Schema `arrow_schemas.REMOVE`."""


def decode_file_lines(lines: bytes, kinds: Collection[str]) -> FileActions | None:
    """The actions of lines that each begin with one of `FILE_LINES`; None if one cannot be read.

    Args:
        kinds: Which there are of "add" and "remove".
    """
    try:
        names = {kind: _names_of_line(_first_line(lines, _STARTS[kind]), kind) for kind in kinds}
        rows = _rows(lines, names)
        if not pc.all(reduce(pc.xor, (rows[name].is_valid() for name in kinds))).as_py():
            raise ValueError("a line holds more than one action, or none")
        tables = {
            name: _table(rows[name], name) if name in kinds else schema.empty_table()
            for name, schema in _SCHEMAS.items()
        }
    except (pa.ArrowException, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return FileActions(adds=tables["add"], removes=tables["remove"])


def _first_line(lines: bytes, start: bytes) -> bytes:
    begin = 0 if lines.startswith(start) else lines.index(b"\n" + start) + 1
    end = lines.find(b"\n", begin)
    return lines[begin : len(lines) if end < 0 else end]


def _names_of_line(line: bytes, action: str) -> _MapNames:
    body = json.loads(line)[action]
    return {name: tuple(body.get(name) or ()) for name in _maps(action)}


def _rows(lines: bytes, names: Mapping[str, _MapNames]) -> pa.Table:
    try:
        return read_json_lines(lines, _explicit(names), "error")
    except pa.ArrowInvalid:
        _validate_text(lines)
        return read_json_lines(lines, _explicit(_all_names(lines, names)), "ignore")


def _validate_text(lines: bytes) -> None:
    """Arrow's reader looks at no byte of the names that it ignores: one could be a damaged one."""
    offsets = pa.array([0, len(lines)], pa.int64()).buffers()[1]
    pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(lines)).validate(full=True)


def _all_names(lines: bytes, actions: Iterable[str]) -> Mapping[str, _MapNames]:
    if any(line.count(b"{") + line.count(b"[") > _MAX_BRACKETS for line in lines.split(b"\n")):
        raise ValueError("a line may be nested too deeply")
    found = read_json_lines(lines, None, "infer").schema
    if any(each.name not in actions and not pa.types.is_null(each.type) for each in found):
        raise ValueError("a line holds something beside its action")
    return {
        action: {name: _field_names(found.field(action).type, name) for name in _maps(action)}
        for action in actions
    }


def _field_names(struct: pa.StructType, name: str) -> tuple[str, ...]:
    index = struct.get_field_index(name)
    if index < 0 or not pa.types.is_struct(struct.field(index).type):
        return ()
    return tuple(field.name for field in struct.field(index).type)


def _explicit(names: Mapping[str, _MapNames]) -> pa.Schema:
    return pa.schema(
        [
            (action, pa.struct([_explicit_field(field, of_maps) for field in _SCHEMAS[action]]))
            for action, of_maps in names.items()
        ]
    )


def _explicit_field(field: pa.Field, names: _MapNames) -> pa.Field:
    if field.name not in names:
        return field
    return pa.field(field.name, pa.struct([(name, pa.string()) for name in names[field.name]]))


def _maps(action: str) -> list[str]:
    return [field.name for field in _SCHEMAS[action] if field.type == STRING_MAP]


def _table(column: pa.ChunkedArray, action: str) -> pa.Table:
    """The rows in which the action is."""
    schema = _SCHEMAS[action]
    present = [
        chunk.filter(chunk.is_valid()) if chunk.null_count else chunk for chunk in column.chunks
    ]
    table = pa.concat_tables([_conformed(chunk, schema) for chunk in present])
    if any(table[name].null_count for name in _REQUIRED[action]):
        raise ValueError("a required field is missing")
    if action == "add" and pc.any(pc.less(table["size"], 0)).as_py():
        raise ValueError("a size is negative")
    return table


def _conformed(rows: pa.StructArray, schema: pa.Schema) -> pa.Table:
    columns = [
        _map_array(column, keep_nulls=field.name == "partitionValues")
        if field.type == STRING_MAP
        else column
        for field, column in zip(schema, rows.flatten(), strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _map_array(structs: pa.StructArray, *, keep_nulls: bool) -> pa.MapArray:
    """Structs as maps; a name that is null in a struct is a key without a value, or no key."""
    names = [field.name for field in structs.type]
    columns = structs.flatten()
    count, width = len(structs), len(names)
    items = pa.concat_arrays(columns).take(_interleaved(count, width)) if width > 1 else None
    if items is None:
        items = columns[0] if columns else pa.array([], pa.string())
    keys = pa.array(names, pa.string()).take(pa.array(list(range(width)) * count, pa.int32()))
    if keep_nulls:
        lengths = pc.multiply(structs.is_valid().cast(pa.int32()), pa.scalar(width, pa.int32()))
        stays = _repeated(structs.is_valid(), width) if structs.null_count else None
    else:
        counts = [column.is_valid().cast(pa.int32()) for column in columns]
        lengths = reduce(pc.add, counts, pa.repeat(pa.scalar(0, pa.int32()), count))
        stays = items.is_valid() if items.null_count else None
    if stays is not None:
        keys, items = keys.filter(stays), items.filter(stays)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    mask = structs.is_null() if structs.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, STRING_MAP, mask=mask)


def _interleaved(count: int, width: int) -> pa.Array:
    """Where, in columns that follow each other, the values of row after row lie."""
    indices: list[Any] = [0] * (count * width)
    for i in range(width):
        indices[i::width] = range(i * count, (i + 1) * count)
    return pa.array(indices, pa.int64())


def _repeated(values: pa.Array, times: int) -> pa.Array:
    return values.take(pa.array([i for i in range(len(values)) for _ in range(times)], pa.int64()))
