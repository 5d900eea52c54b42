"""Lines of commits, parsed and checked, and their add and remove actions as Arrow tables.

Source: PROTOCOL.md, "Delta Log Entries" and "Add File and Remove File".

Lines are parsed twice. msgspec is strict: it says which line is no JSON, of the wrong type or holds
two actions, and gives the actions that are not about files. The JSON reader of arrow-rs makes the
columns of those that are; it is lenient in small things and says nothing of lines, but leaves the
other threads free and makes no Python objects of millions of files. What a field may hold follows
for both from `arrow_schemas`. Unknown actions and fields are passed over. No I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from arro3.io import read_json

from delta_ops.protocol.arrow_schemas import ADD, REMOVE, REQUIRED_OF_VECTORS, add_path_hash

MALFORMED_LINE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, pa.ArrowInvalid)
"""What parsing raises of lines that no writer should write."""

_STARTS = (b'{"add":{', b'{"remove":{')
_BLOCK_BYTES = 1 << 18
"""Lines that msgspec parses at once: what they become should fit into the cache of a core."""
_TEXT_BYTES = 2 << 20
"""Lines that become columns at once; a call takes as long as some hundred lines."""
_SMALL_COMMIT = 1 << 13
"""Bytes of a commit that is parsed by one call, though that makes more of its lines than needed."""
_BATCH_ROWS = 1 << 14
_NULL_ROWS = 1 << 14
_NUM_PLAIN = 6
"""How many fields of the schemas every writer gives; they come first."""
# To make one takes as long as some lines.
_NO_ADDS, _NO_REMOVES = add_path_hash(ADD).empty_table(), add_path_hash(REMOVE).empty_table()
_NEWLINE = ord("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLines:
    """What the lines of a commit hold, in their order."""

    add_hashes: array[int]
    """Hash of the path of each `add`."""
    remove_hashes: array[int]
    """Hash of the path of each `remove`."""
    others: list[tuple[str, Any]]
    """Name and body of each other action."""
    data: bytes
    file_lines: slice
    """From the first to the last line of `data` that is on a file."""
    is_plain: bool
    """Whether the file actions have no fields but those that come first in their schemas."""


def line_decoder(names: Iterable[str]) -> msgspec.json.Decoder[Any]:
    """Make a decoder of lines that may hold file actions and actions of these names."""
    return _decoder(None, names)


def parse_lines(data: bytes, decoder: msgspec.json.Decoder[Any]) -> ParsedLines:
    """The actions of a commit; what those on files hold is for `file_tables` to say.

    Raises:
        `MALFORMED_LINE`: A line is not one JSON object, holds more than one action, or a file
            action lacks a field it must have.
    """
    begin, end = _file_lines(data)
    if len(data) <= _SMALL_COMMIT and (small := _parse_small(data, begin, end, decoder)):
        return small
    # msgspec passes over the bytes of unknown names, of which one could be a damaged `remove`;
    # arrow-rs, which will see the lines in between, does not.
    data[:begin].decode()
    data[end:].decode()
    head = _parse(data, 0, begin, decoder)
    tail = _parse(data, end, len(data), decoder)
    blocks = [head, *_parse_blocks(data, begin, end, decoder), tail]
    # At the edges are file actions only where they are spelt in another way.
    text = slice(0 if head.num_files else begin, len(data) if tail.num_files else end)
    return ParsedLines(
        add_hashes=array("q", chain.from_iterable(block.add_hashes for block in blocks)),
        remove_hashes=array("q", chain.from_iterable(block.remove_hashes for block in blocks)),
        others=[other for block in blocks for other in block.others],
        data=data,
        file_lines=text,
        is_plain=all(block.is_plain for block in blocks if block.num_files),
    )


def file_tables(commits: Sequence[ParsedLines]) -> tuple[pa.Table, pa.Table]:
    """The add and the remove actions of commits, in their order.

    Returns:
        Tables of `add_path_hash(ADD)` and `add_path_hash(REMOVE)`.

    Raises:
        `MALFORMED_LINE`: A field is not what `arrow_schemas` has.
    """
    adds, removes = array("q"), array("q")
    for commit in commits:
        adds += commit.add_hashes
        removes += commit.remove_hashes
    # Whoever asks for no more than there is gets it sooner.
    num_fields = _NUM_PLAIN if all(commit.is_plain for commit in commits) else None
    schema = _schema(bool(adds), bool(removes), num_fields)
    tables = [_rows(text, schema) for text in _texts(commits)]
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    return _table(rows, "add", _NO_ADDS, adds), _table(rows, "remove", _NO_REMOVES, removes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    add_hashes: list[int]
    remove_hashes: list[int]
    others: list[tuple[str, Any]]
    is_plain: bool

    @property
    def num_files(self) -> int:
        return len(self.add_hashes) + len(self.remove_hashes)


_NO_LINES = _Block(add_hashes=[], remove_hashes=[], others=[], is_plain=False)


def _file_lines(data: bytes) -> tuple[int, int]:
    """The part of the lines that begins and ends with one that is on a file."""
    begin, end = 0, len(data)
    while begin < end and not data.startswith(_STARTS, begin):
        begin = data.find(b"\n", begin) + 1 or end
    while begin < end:
        last = max(data.rfind(b"\n", begin, end - 1) + 1, begin)
        if data.startswith(_STARTS, last):
            break
        end = last
    return begin, end


def _parse_small(
    data: bytes, begin: int, end: int, decoder: msgspec.json.Decoder[Any]
) -> ParsedLines | None:
    """Parse a small commit by one call of the decoder; None if a line is unusual."""
    data.decode()
    lines = decoder.decode_lines(data)
    if not lines or len(lines) != _num_lines(data, 0, len(data)):
        return None
    first = data.count(b"\n", 0, begin)
    after = first + _num_lines(data, begin, end)
    names = lines[0].__struct_fields__
    rows = list(map(attrgetter(*names), lines))
    if min(row.count(None) for row in rows) < len(names) - 1:
        return None  # several actions in a line
    adds = [row[0] for row in rows[first:after] if row[0] is not None]
    removes = [row[1] for row in rows[first:after] if row[1] is not None]
    other_rows = [row for row in rows if row[0] is None and row[1] is None]
    if len(adds) + len(removes) + len(other_rows) < len(rows):
        return None  # a file action outside of the file lines
    others = [
        pair for row in other_rows for pair in zip(names, row, strict=True) if pair[1] is not None
    ]
    return ParsedLines(
        add_hashes=array("q", [hash(add.path) for add in adds]),
        remove_hashes=array("q", [hash(remove.path) for remove in removes]),
        others=others,
        data=data,
        file_lines=slice(begin, end),
        is_plain=all(
            getattr(body, name) is None
            for body in (*adds, *removes)
            for name in body.__struct_fields__[_NUM_PLAIN:]
        ),
    )


def _num_lines(data: bytes, begin: int, end: int) -> int:
    """The number of lines between two positions. The last line need not end."""
    is_open = end > begin and data[end - 1] != _NEWLINE
    return data.count(b"\n", begin, end) + is_open


def _parse_blocks(
    data: bytes, begin: int, end: int, decoder: msgspec.json.Decoder[Any]
) -> Iterator[_Block]:
    while begin < end:
        last = data.find(b"\n", min(begin + _BLOCK_BYTES, end), end) + 1 or end
        try:
            block = _parse(data, begin, last, _PLAIN)
        except MALFORMED_LINE:
            block = _parse(data, begin, last, decoder)
        yield block
        begin = last


def _parse(data: bytes, begin: int, end: int, decoder: msgspec.json.Decoder[Any]) -> _Block:
    if begin == end:
        return _NO_LINES
    lines = decoder.decode_lines(memoryview(data)[begin:end])
    if len(lines) != data.count(b"\n", begin, end) + (not data.endswith(b"\n", begin, end)):
        # Blank lines; or objects that share a line, of which some readers take the first only.
        lines = [decoder.decode(each) for each in data[begin:end].split(b"\n") if each.strip()]
    names = lines[0].__struct_fields__ if lines else ("add", "remove")
    adds = [line.add for line in lines if line.add is not None]
    removes = [line.remove for line in lines if line.remove is not None]
    others = []
    if len(names) > 2 or (adds and removes):
        rows = list(map(attrgetter(*names), lines))
        if any(row.count(None) < len(names) - 1 for row in rows):
            raise msgspec.ValidationError("more than one action in a line")
        bodies = (pair for row in rows for pair in zip(names[2:], row[2:], strict=True))
        others = [(name, body) for name, body in bodies if body is not None]
    path = attrgetter("path")
    return _Block(
        add_hashes=list(map(hash, map(path, adds))),
        remove_hashes=list(map(hash, map(path, removes))),
        others=others,
        is_plain=decoder is _PLAIN,
    )


def _texts(commits: Iterable[ParsedLines]) -> Iterator[bytes]:
    """The lines on files, in texts of bounded size."""
    pieces: list[memoryview] = []
    num_bytes = 0
    for commit in commits:
        data, begin, end = commit.data, commit.file_lines.start, commit.file_lines.stop
        while begin < end:
            last = data.find(b"\n", min(begin + _TEXT_BYTES, end), end) + 1 or end
            pieces.append(memoryview(data)[begin:last])
            num_bytes += last - begin
            if num_bytes >= _TEXT_BYTES:
                yield b"\n".join(pieces)
                pieces, num_bytes = [], 0
            begin = last
    if pieces:
        yield b"\n".join(pieces)


@cache
def _schema(has_adds: bool, has_removes: bool, num_fields: int | None) -> pa.Schema:
    kinds = (("add", ADD, has_adds), ("remove", REMOVE, has_removes))
    return pa.schema(
        [
            pa.field(name, pa.struct(list(fields)[:num_fields]))
            for name, fields, is_there in kinds
            if is_there
        ]
    )


def _rows(text: bytes, schema: pa.Schema) -> pa.Table:
    return pa.table(read_json(text, schema, batch_size=_BATCH_ROWS))


def _table(rows: pa.Table, name: str, empty: pa.Table, hashes: array[int]) -> pa.Table:
    if not hashes:
        return empty
    schema = empty.schema
    actions = rows[name].drop_null() if rows[name].null_count else rows[name]
    if len(actions) != len(hashes):
        raise pa.ArrowInvalid("a line has a name twice")
    columns = actions.flatten()
    if any(map(_has_key_twice, columns)):
        raise pa.ArrowInvalid("a map has a key twice")
    absent = [_nulls(len(hashes), field.type) for field in list(schema)[len(columns) : -1]]
    path_hashes = pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])
    return pa.table([*columns, *absent, path_hashes], schema=schema)


def _nulls(num_rows: int, data_type: pa.DataType) -> pa.ChunkedArray:
    """A column of nulls; there is one block of them in memory, however many tables have them."""
    whole, rest = divmod(num_rows, _NULL_ROWS)
    blocks = [_null_block(data_type)] * whole if whole else []
    # No slice of the block: that would take the whole of it along to another process.
    return pa.chunked_array([*blocks, pa.nulls(rest, data_type)], data_type)


@cache
def _null_block(data_type: pa.DataType) -> pa.Array:
    return pa.nulls(_NULL_ROWS, data_type)


def _has_key_twice(column: pa.ChunkedArray) -> bool:
    return pa.types.is_map(column.type) and any(map(_chunk_has_key_twice, column.chunks))


def _chunk_has_key_twice(maps: pa.MapArray) -> bool:
    keys = pa.ListArray.from_arrays(maps.offsets, maps.keys)
    if (pc.max(keys.value_lengths()).as_py() or 0) < 2:
        return False
    encoded = keys.flatten().dictionary_encode()
    rows = pc.multiply(keys.value_parent_indices(), len(encoded.dictionary))
    return len(pc.unique(pc.add(rows, encoded.indices))) < len(encoded)


def _decoder(
    num_fields: int | None, others: Iterable[str], *, is_strict: bool = False
) -> msgspec.json.Decoder[Any]:
    size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    add = _struct("Add", list(ADD)[:num_fields], {"path": str, "size": size}, is_strict)
    remove = _struct("Remove", list(REMOVE)[:num_fields], {"path": str}, is_strict)
    files = [("add", add | None, None), ("remove", remove | None, None)]
    bodies = [(name, Any, None) for name in others]
    # There are no cycles to look for in millions of them.
    return msgspec.json.Decoder(
        msgspec.defstruct("Line", [*files, *bodies], gc=False, forbid_unknown_fields=is_strict)
    )


def _struct(
    name: str, fields: Iterable[pa.Field], required: Mapping[str, Any], is_strict: bool = False
) -> Any:
    optional = {each.name: _field_type(each.type) for each in fields if each.name not in required}
    nullable = [(name, kind, None) for name, kind in optional.items()]
    return _define(name, [*required.items(), *nullable], is_strict)


def _define(name: str, fields: Sequence[Any], is_strict: bool) -> Any:
    # There are no cycles to look for in millions of them.
    return msgspec.defstruct(name, fields, gc=False, forbid_unknown_fields=is_strict)


def _field_type(data_type: pa.DataType) -> Any:
    """What msgspec has to look at: arrow-rs takes texts and fractions for whole numbers."""
    if pa.types.is_struct(data_type):
        types = {name: data_type.field(name).type for name in REQUIRED_OF_VECTORS}
        required = {
            n: _whole_number(t) if pa.types.is_integer(t) else str for n, t in types.items()
        }
        return _struct("DeletionVector", data_type, required) | None
    if pa.types.is_integer(data_type):
        return _whole_number(data_type) | None
    return msgspec.Raw


def _whole_number(data_type: pa.DataType) -> Any:
    bound = 1 << (data_type.bit_width - 1)
    return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]


_PLAIN = _decoder(_NUM_PLAIN, (), is_strict=True)
