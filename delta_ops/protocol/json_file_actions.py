"""Lines of commits, parsed and checked, and their add and remove actions as Arrow tables.

Source: PROTOCOL.md, "Delta Log Entries" and "Add File and Remove File".

1. What a field of a file action may hold follows from `arrow_schemas`: whatever has been parsed
   fits its column. Unknown actions and fields are passed over.
2. Lines on files mostly follow each other and have the few fields that every writer gives. They are
   tried as such first, which takes a third less time.
No I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from delta_ops.protocol.arrow_schemas import ADD, REMOVE, hashed

MALFORMED_LINE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What parsing raises of lines that no writer should write."""

_STARTS = (b'{"add":{', b'{"remove":{')
_BLOCK_BYTES = 1 << 18
"""Of lines that are parsed at once: what they become should fit into the cache of a core."""
_MANY_ROWS = 4096
_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_SIZE = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# Arrow's own default gives memory back at once and asks for it again: half as fast.
_POOL = pa.system_memory_pool()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLines:
    """The actions of lines, in their order."""

    adds: list[Any]
    """With the fields of `arrow_schemas.ADD`."""
    removes: list[Any]
    """With the fields of `arrow_schemas.REMOVE`."""
    others: list[tuple[str, Any]]
    """Name and body."""


def line_decoder(names: Iterable[str]) -> msgspec.json.Decoder[Any]:
    """Of lines that may hold file actions and actions of these names."""
    others = [(name, Any, None) for name in names]
    return msgspec.json.Decoder(_line(_ADD, _REMOVE, others, forbid_unknown_fields=False))


def parse_lines(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Iterator[ParsedLines]:
    """The actions of a commit, a block of lines at a time.

    Raises:
        `MALFORMED_LINE`: A line is not one JSON object, holds more than one action, or a file
            action lacks a field it must have.
    """
    _validate_text(data)
    begin, end = _file_lines(data)
    yield _parsed(data, 0, begin, decoder)
    while begin < end:
        last = data.find(b"\n", min(begin + _BLOCK_BYTES, end), end) + 1 or end
        try:
            files = _parsed(data, begin, last, _PLAIN)
        except MALFORMED_LINE:
            files = _parsed(data, begin, last, decoder)
        yield files
        begin = last
    yield _parsed(data, end, len(data), decoder)


def parse_line(line: bytes, decoder: msgspec.json.Decoder[Any]) -> ParsedLines:
    """As `parse_lines`, of one line."""
    _validate_text(line)
    return _actions([decoder.decode(line)])


class FileTableBuilder:
    """Parsed file actions as a table of `hashed(schema)`, which is `ADD` or `REMOVE`.

    Values are taken out of each block as soon as it is parsed, while a core has them in its cache,
    and become Arrow a good number at a time.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables = [hashed(schema).empty_table()]
        self._values: dict[str, list[Any]] = {name: [] for name in schema.names}
        self._hashes = array("q")
        self._num_flushed = 0

    def __len__(self) -> int:
        return self._num_flushed + len(self._hashes)

    def extend(self, actions: Sequence[Any]) -> None:
        """Take over actions that were parsed from one block."""
        if not actions:
            return
        for name in actions[0].__struct_fields__:
            values = self._values[name]
            values += [None] * (len(self._hashes) - len(values))  # of others, which have it not
            values += map(attrgetter(name), actions)
        self._hashes.extend(map(hash, map(attrgetter("path"), actions)))
        if len(self._hashes) >= _MANY_ROWS:
            self._flush()

    def table(self) -> pa.Table:
        """All of them, in their order."""
        self._flush()
        return pa.concat_tables(self._tables)

    def _flush(self) -> None:
        count = len(self._hashes)
        columns = []
        for field in self._schema:
            values = self._values[field.name]
            if values:
                values += [None] * (count - len(values))
                columns.append(_column(values, field.type))
            else:
                columns.append(pa.nulls(count, field.type))
        hashes = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(self._hashes)])
        self._tables.append(pa.table([*columns, hashes], schema=hashed(self._schema)))
        self._values = {name: [] for name in self._schema.names}
        self._hashes = array("q")
        self._num_flushed += count


def _validate_text(data: bytes) -> None:
    """The parser passes over the bytes of unknown names; one could be a damaged `remove`."""
    if not data.isascii():
        data.decode()


def _parsed(data: bytes, begin: int, end: int, decoder: msgspec.json.Decoder[Any]) -> ParsedLines:
    lines = decoder.decode_lines(memoryview(data)[begin:end])
    if len(lines) != data.count(b"\n", begin, end) + (not data.endswith(b"\n", begin, end)):
        # Blank lines; or objects that share a line, of which some readers take the first only.
        lines = [decoder.decode(each) for each in data[begin:end].split(b"\n") if each.strip()]
    return _actions(lines)


def _actions(lines: Sequence[Any]) -> ParsedLines:
    names = lines[0].__struct_fields__ if lines else ("add", "remove")
    adds = [line.add for line in lines if line.add is not None]
    removes = [line.remove for line in lines if line.remove is not None]
    if len(names) == 2 and not (adds and removes):
        return ParsedLines(adds=adds, removes=removes, others=[])
    rows = list(map(attrgetter(*names), lines))
    if any(row.count(None) < len(names) - 1 for row in rows):
        raise msgspec.ValidationError("more than one action in a line")
    bodies = ((name, body) for row in rows for name, body in zip(names[2:], row[2:], strict=True))
    others = [(name, body) for name, body in bodies if body is not None]
    return ParsedLines(adds=adds, removes=removes, others=others)


def _file_lines(data: bytes) -> tuple[int, int]:
    """From where to where no line at the edges is on something else than files."""
    begin, end = 0, len(data)
    while begin < end and not data.startswith(_STARTS, begin):
        begin = data.find(b"\n", begin) + 1 or end
    while begin < end:
        last = max(data.rfind(b"\n", begin, end - 1) + 1, begin)
        if data.startswith(_STARTS, last):
            break
        end = last
    return begin, end


def _column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_map(data_type):
        return _map_array(values, data_type)
    if pa.types.is_struct(data_type):
        values = [None if value is None else msgspec.structs.asdict(value) for value in values]
    return pa.array(values, data_type, memory_pool=_POOL)


def _map_array(values: Sequence[Any], data_type: pa.MapType) -> pa.Array:
    names = list(values[0] or ()) if values else []
    try:
        columns = [[each[name] for each in values] for name in names]
        is_uniform = bool(names) and set(map(len, values)) == {len(names)}
    except (KeyError, TypeError):
        is_uniform = False
    if not is_uniform:
        return _uneven_map_array(values, data_type)
    keys = names * len(values)
    items = (
        columns[0] if len(columns) == 1 else list(chain.from_iterable(zip(*columns, strict=True)))
    )
    return pa.MapArray.from_arrays(
        pa.array(range(0, len(keys) + 1, len(names)), pa.int32()),
        pa.array(keys, pa.string(), memory_pool=_POOL),
        pa.array(items, pa.string(), memory_pool=_POOL),
        data_type,
    )


def _uneven_map_array(values: Sequence[Any], data_type: pa.MapType) -> pa.Array:
    maps = [value or {} for value in values]
    return pa.MapArray.from_arrays(
        pa.array(list(accumulate(map(len, maps), initial=0)), pa.int32()),
        pa.array(list(chain.from_iterable(maps)), pa.string(), memory_pool=_POOL),
        pa.array(list(chain.from_iterable(map(dict.values, maps))), pa.string(), memory_pool=_POOL),
        data_type,
        mask=pa.array([value is None for value in values], pa.bool_()),
    )


def _field_type(data_type: pa.DataType) -> Any:
    if pa.types.is_struct(data_type):
        return _struct("DeletionVector", data_type)
    if pa.types.is_map(data_type):
        return dict[str, str | None]
    return {pa.string(): str, pa.bool_(): bool, pa.int32(): _INT32, pa.int64(): _INT64}[data_type]


def _struct(
    name: str,
    fields: Iterable[pa.Field],
    required: Sequence[str] = (),
    *,
    forbid_unknown_fields: bool = False,
) -> Any:
    types = {each.name: _field_type(each.type) for each in fields}
    if "size" in required:
        types["size"] = _SIZE
    return msgspec.defstruct(
        name,
        [
            *((field, types[field]) for field in required),
            *((field, kind | None, None) for field, kind in types.items() if field not in required),
        ],
        forbid_unknown_fields=forbid_unknown_fields,
        gc=False,  # there are no cycles to look for in millions of them
    )


def _line(
    add: Any, remove: Any, others: Sequence[tuple[str, Any, None]], *, forbid_unknown_fields: bool
) -> Any:
    return msgspec.defstruct(
        "Line",
        [("add", add | None, None), ("remove", remove | None, None), *others],
        forbid_unknown_fields=forbid_unknown_fields,
        gc=False,
    )


_ADD = _struct("Add", ADD, ("path", "size"))
_REMOVE = _struct("Remove", REMOVE, ("path",))
_PLAIN = msgspec.json.Decoder(
    _line(
        _struct("Add", list(ADD)[:6], ("path", "size"), forbid_unknown_fields=True),
        _struct("Remove", list(REMOVE)[:6], ("path",), forbid_unknown_fields=True),
        [],
        forbid_unknown_fields=True,
    )
)
"""Of the fields that every writer gives: they come first in the schemas."""
