"""Lines of commits, parsed and checked, and their add and remove actions as Arrow tables.

Source: PROTOCOL.md, "Delta Log Entries" and "Add File and Remove File".

1. What a field of a file action may hold follows from `arrow_schemas`: whatever has been parsed
   fits its column. Unknown actions and fields are passed over.
2. Lines on files mostly follow each other and have the few fields that every writer gives. They are
   tried as such first, which takes a third less time.
No I/O.
"""

from __future__ import annotations

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
_BLOCK_BYTES = 8 << 20
"""Of lines that are parsed at once: as values they take several times as much memory."""
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


def file_table(actions: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Parsed file actions as a table of `hashed(schema)`, which is `ADD` or `REMOVE`."""
    kinds = list(set(map(type, actions)))
    columns = []
    for field in schema:
        if not any(hasattr(kind, field.name) for kind in kinds):
            columns.append(pa.nulls(len(actions), field.type))
        elif len(kinds) == 1:
            columns.append(_column(list(map(attrgetter(field.name), actions)), field.type))
        else:
            values = [getattr(each, field.name, None) for each in actions]
            columns.append(_column(values, field.type))
    hashes = list(map(hash, map(attrgetter("path"), actions)))
    return pa.Table.from_arrays([*columns, pa.array(hashes, pa.int64())], schema=hashed(schema))


def _validate_text(data: bytes) -> None:
    """The parser passes over unknown names, one of which could be a damaged `remove`."""
    offsets = pa.array([0, len(data)], pa.int64()).buffers()[1]
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid as error:
        raise msgspec.DecodeError("a byte that is not UTF-8") from error


def _parsed(data: bytes, begin: int, end: int, decoder: msgspec.json.Decoder[Any]) -> ParsedLines:
    lines = decoder.decode_lines(memoryview(data)[begin:end])
    if len(lines) != data.count(b"\n", begin, end) + (not data.endswith(b"\n", begin, end)):
        # Blank lines; or objects that share a line, of which some readers take the first only.
        lines = [decoder.decode(each) for each in data[begin:end].split(b"\n") if each.strip()]
    return _actions(lines)


def _actions(lines: Sequence[Any]) -> ParsedLines:
    names = lines[0].__struct_fields__ if lines else ("add", "remove")
    rows = list(map(attrgetter(*names), lines))
    if any(row.count(None) < len(names) - 1 for row in rows):
        raise msgspec.ValidationError("more than one action in a line")
    return ParsedLines(
        adds=[row[0] for row in rows if row[0] is not None],
        removes=[row[1] for row in rows if row[1] is not None],
        others=[
            (name, body)
            for row in (rows if names[2:] else ())
            for name, body in zip(names[2:], row[2:], strict=True)
            if body is not None
        ],
    )


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


def _map_array(values: Sequence[dict[str, str | None] | None], data_type: pa.MapType) -> pa.Array:
    is_null = [value is None for value in values]
    mask = pa.array(is_null, pa.bool_()) if any(is_null) else None
    maps: Sequence[dict[str, str | None]] = [value or {} for value in values]
    keys, items = list(chain.from_iterable(maps)), list(chain.from_iterable(map(dict.values, maps)))
    return pa.MapArray.from_arrays(
        pa.array(list(accumulate(map(len, maps), initial=0)), pa.int32()),
        pa.array(keys, pa.string(), memory_pool=_POOL),
        pa.array(items, pa.string(), memory_pool=_POOL),
        data_type,
        mask=mask,
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
