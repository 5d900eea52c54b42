"""Lines of commits, parsed and checked, with add and remove actions as Arrow tables.

Source: PROTOCOL.md, "Delta Log Entries" and "Add File and Remove File".

Lines are parsed twice. msgspec is strict: it reports lines that are no JSON, have a wrong type or
hold two actions. It also returns all actions that are not file actions. The JSON reader of arrow-rs
builds the columns of the file actions. It is lenient in details and reports no line numbers, but it
does not block other threads and makes no Python objects for millions of files. Both derive the
types of fields from `arrow_schemas`. Unknown actions and fields are skipped. No I/O.
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
from delta_ops.protocol.arrow_values import empty_table, scalar

MALFORMED_LINE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, pa.ArrowInvalid)
"""Errors that parsing raises for malformed lines."""

_STARTS = (b'{"add":{', b'{"remove":{')
_BLOCK_BYTES = 1 << 18
"""Bytes that msgspec parses at once; the resulting objects should fit into a core's cache."""
_TEXT_BYTES = 2 << 20
"""Bytes that become columns at once; a call costs as much as some hundred lines."""
_SMALL_COMMIT = 1 << 13
"""Commits up to this size in bytes are parsed by one call, although it builds unneeded objects."""
_BATCH_ROWS = 1 << 14
_NULL_ROWS = 1 << 14
_NUM_PLAIN = 6
"""Number of leading fields in the schemas that every writer fills."""
# Creating an empty table takes as long as some lines.
_NO_ADDS, _NO_REMOVES = empty_table(add_path_hash(ADD)), empty_table(add_path_hash(REMOVE))
_NEWLINE = ord("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLines:
    """The contents of a commit's lines, in order."""

    add_hashes: array[int]
    """Hash of the path of each `add`."""
    remove_hashes: array[int]
    """Hash of the path of each `remove`."""
    others: list[tuple[str, Any]]
    """Name and body of each other action."""
    data: bytes
    file_lines: slice
    """From the first to the last file action's line in `data`."""
    is_plain: bool
    """Whether file actions have only the leading fields of their schemas."""


def line_decoder(names: Iterable[str]) -> msgspec.json.Decoder[Any]:
    """Make a decoder for lines with file actions and actions of these names."""
    return _decoder(None, names)


def parse_lines(data: bytes, decoder: msgspec.json.Decoder[Any]) -> ParsedLines:
    """Parse the actions of a commit; `file_tables` builds the columns of file actions.

    Raises:
        `MALFORMED_LINE`: A line is not one JSON object, holds more than one action, or a file
            action lacks a required field.
    """
    begin, end = _file_lines(data)
    if len(data) <= _SMALL_COMMIT and (small := _parse_small(data, begin, end, decoder)):
        return small
    # msgspec skips the bytes of unknown names, and such a name could be a damaged `remove`.
    # arrow-rs checks the lines between `begin` and `end`; here the others are checked to be UTF-8.
    data[:begin].decode()
    data[end:].decode()
    head = _parse(data, 0, begin, decoder)
    tail = _parse(data, end, len(data), decoder)
    blocks = [head, *_parse_blocks(data, begin, end, decoder), tail]
    # Head and tail contain file actions only if these have an unusual spelling.
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
    """The add and remove actions of commits, in order.

    Returns:
        Tables of `add_path_hash(ADD)` and `add_path_hash(REMOVE)`.

    Raises:
        `MALFORMED_LINE`: A field does not match `arrow_schemas`.
    """
    adds, removes = array("q"), array("q")
    for commit in commits:
        adds += commit.add_hashes
        removes += commit.remove_hashes
    # Reading fewer fields is faster.
    num_fields = _NUM_PLAIN if all(commit.is_plain for commit in commits) else None
    schema = _schema(bool(adds), bool(removes), num_fields)
    tables = [_rows(text, schema) for text in _texts(commits)]
    rows = pa.concat_tables(tables) if tables else empty_table(schema)
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
    """The range of lines from the first to the last file action."""
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
    """Parse a small commit with one decoder call; None if a line is unusual."""
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
    """The number of lines between two positions; the last line may lack a newline."""
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
        # Blank lines, or several objects in one line, where some readers take only the first.
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
    """The lines of file actions, in texts of bounded size."""
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
    rows = read_json(text, schema, batch_size=_BATCH_ROWS)
    return pa.RecordBatchReader.from_stream(rows).read_all()  # `pa.table` imports pandas


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
    """A column of nulls; all tables share one block of nulls in memory."""
    whole, rest = divmod(num_rows, _NULL_ROWS)
    blocks = [_null_block(data_type)] * whole if whole else []
    # Not a slice of the block: pickling a slice would send the whole block to another process.
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
    rows = pc.multiply(keys.value_parent_indices(), scalar(len(encoded.dictionary)))
    return len(pc.unique(pc.add(rows, encoded.indices))) < len(encoded)


def _decoder(
    num_fields: int | None, others: Iterable[str], *, is_strict: bool = False
) -> msgspec.json.Decoder[Any]:
    size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    add = _struct("Add", list(ADD)[:num_fields], {"path": str, "size": size}, is_strict)
    remove = _struct("Remove", list(REMOVE)[:num_fields], {"path": str}, is_strict)
    files = [("add", add | None, None), ("remove", remove | None, None)]
    bodies = [(name, Any, None) for name in others]
    # Lines cannot be part of a cycle, and there may be millions, so the garbage collector skips
    # them.
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
    # Actions cannot be part of a cycle, and there may be millions; the garbage collector skips
    # them.
    return msgspec.defstruct(name, fields, gc=False, forbid_unknown_fields=is_strict)


def _field_type(data_type: pa.DataType) -> Any:
    """The type that msgspec checks; arrow-rs accepts texts and fractions as whole numbers."""
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
