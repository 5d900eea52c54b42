"""Variants for tests: encoding, decoding, and tables with shredded variants."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.schema import VARIANT, StructField, StructType, schema_to_json
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.variant import (
    FieldNames,
    Primitive,
    array_value,
    binary_value,
    field_names,
    object_value,
    primitive_value,
    string_value,
)
from tests.support.tables import add

NO_NAMES = b"\x01\x00\x00"
NULL = b"\x00"

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["a", "b", "é.x"]) | st.text(max_size=3), inner)
    ),
    max_leaves=20,
)
"""JSON and bytes."""

_BINARY = pa.field("value", pa.binary())
_PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("variantType", "variantShredding", "columnMapping"),
    writer_features=("variantType", "variantShredding", "columnMapping"),
)


def dictionary(names: Iterable[str], width: int = 4) -> bytes:
    """The bytes of a dictionary with these names in this order, and numbers of this width."""
    texts = [name.encode() for name in names]
    numbers = [len(texts), *accumulate(map(len, texts), initial=0)]
    packed = [each.to_bytes(width, "little") for each in numbers]
    return b"".join([bytes([1 | (width - 1) << 6]), *packed, *texts])


def names_in(value: Any) -> set[str]:
    """The field names in a value, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(names_in, value.values()))
    return set().union(*map(names_in, value)) if isinstance(value, list) else set()


def encode(value: Any, names: FieldNames) -> bytes:
    """The bytes of None, a boolean, number, text, bytes, or a list or dictionary of these."""
    match value:
        case None:
            return primitive_value(Primitive.NULL)
        case bool():
            return primitive_value(Primitive.TRUE if value else Primitive.FALSE)
        case int():
            return primitive_value(Primitive.INT64, value.to_bytes(8, "little", signed=True))
        case float():
            return primitive_value(Primitive.DOUBLE, struct.pack("<d", value))
        case str():
            return string_value(value)
        case bytes():
            return binary_value(value)
        case list():
            return array_value([encode(each, names) for each in value])
        case dict():
            return object_value({k: encode(each, names) for k, each in value.items()}, names)
    raise TypeError(type(value))


def decode(value: bytes, metadata: bytes) -> Any:
    """Decode valid bytes by the short rule: a member ends at the start of the next member.

    Types without a JSON form become their header and their bytes.
    """
    return _decode(value, field_names(metadata).names)


def _decode(value: bytes, names: tuple[str, ...]) -> Any:
    basic_type, header, content = value[0] & 3, value[0] >> 2, value[1:]
    if basic_type == 1:
        assert len(content) == header
        return content.decode()
    if basic_type == 0:
        return _primitive(header, content)
    is_large = header >> (4 if basic_type == 2 else 2) & 1
    count, content = _number(content, 4 if is_large else 1)
    ids = []
    for _ in range(count if basic_type == 2 else 0):
        each, content = _number(content, (header >> 2 & 3) + 1)
        ids.append(each)
    offsets = []
    for _ in range(count + 1):
        each, content = _number(content, (header & 3) + 1)
        offsets.append(each)
    ends = dict(zip(sorted(offsets), [*sorted(offsets)[1:], None], strict=True))
    members = [_decode(content[each : ends[each]], names) for each in offsets[:-1]]
    if basic_type == 3:
        return members
    keys = [names[each] for each in ids]
    assert keys == sorted(set(keys), key=str.encode)
    return dict(zip(keys, members, strict=True))


def _primitive(header: int, content: bytes) -> Any:
    match header:
        case 0:
            return None
        case 1 | 2:
            return header == 1
        case 3 | 4 | 5 | 6:
            assert len(content) == 2 ** (header - 3)
            return int.from_bytes(content, "little", signed=True)
        case 7:
            return struct.unpack("<d", content)[0]
        case 15 | 16:
            assert int.from_bytes(content[:4], "little") == len(content) - 4
            return content[4:].decode() if header == 16 else content[4:]
    return header, content


def _number(data: bytes, width: int) -> tuple[int, bytes]:
    return int.from_bytes(data[:width], "little"), data[width:]


def group(typed: pa.DataType) -> pa.StructType:
    """A field or an element with columns of its own."""
    return pa.struct([_BINARY, pa.field("typed_value", typed)])


def fields(**types: pa.DataType) -> pa.StructType:
    """An object's fields with columns of their own."""
    return pa.struct([pa.field(name, group(each), nullable=False) for name, each in types.items()])


def shredded_type(typed: pa.DataType) -> pa.StructType:
    """The type of a shredded variant."""
    metadata = pa.field("metadata", pa.binary(), nullable=False)
    return pa.struct([metadata, _BINARY, pa.field("typed_value", typed)])


def row(typed: Any, value: bytes | None = None, metadata: bytes = NO_NAMES) -> dict[str, Any]:
    """A stored variant."""
    return {"metadata": metadata, "value": value, "typed_value": typed}


def write(root: Path, stored: pa.Table, schema: StructType, mode: str = "none") -> DeltaLog:
    """A table of one file."""
    root.mkdir(exist_ok=True)
    pq.write_table(stored, root / "x.parquet", store_schema=False)
    return write_log(root, schema, mode)


def write_log(root: Path, schema: StructType, mode: str = "none") -> DeltaLog:
    """A table of an existing file."""
    log = DeltaLog(root)
    metadata = Metadata(
        id="0" * 36,
        schema_string=schema_to_json(schema),
        created_time=0,
        configuration={"delta.columnMapping.mode": mode},
    )
    size = (root / "x.parquet").stat().st_size
    create_commit(
        log.storage, log.log_directory, 0, [_PROTOCOL, metadata, add("x.parquet", size=size)]
    )
    return log


def read(root: Path, stored: pa.Array) -> pa.Array:
    """The column v of a table whose file has this column."""
    log = write(root, pa.table({"v": stored}), StructType((StructField("v", VARIANT),)))
    column = da.to_table(log)["v"].combine_chunks()
    column.validate(full=True)
    assert column.type == arrow_type_from_type(VARIANT)
    return column


def says(column: pa.Array) -> list[Any]:
    """The decoded variants of a column; "SQL NULL" for a missing variant."""
    return [
        decode(each["value"], each["metadata"]) if each else "SQL NULL"
        for each in column.to_pylist()
    ]
