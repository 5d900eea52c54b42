"""Deletion vectors: which rows of a data file no longer belong to the table.

Source: PROTOCOL.md, "Deletion Vectors", "Deletion Vector Descriptor Schema", "Deletion Vector
Format" and "Deletion Vector File Storage Format".

A vector is a set of row numbers, from 0 in the order of the file, in the portable form of 64-bit
roaring bitmaps. It stands in the log itself, or in a file beside others of its kind. What is
decoded is checked against its checksum and against the number of rows that the log gives it, since
a vector that is misread brings deleted rows back. No I/O.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap, BitMap64

from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.file_paths import canonical_path, encode_path

INLINE, RELATIVE, ABSOLUTE = "i", "u", "p"

_FILE_VERSION = b"\x01"
_PORTABLE = (1681511377).to_bytes(4, "little")
_NATIVE: Mapping[bytes, Literal["big", "little"]] = {
    (1681511376).to_bytes(4, "big"): "big",
    (1681511376).to_bytes(4, "little"): "little",
}
"""What the protocol's own example begins with: 32-bit bitmaps, each with its size before it."""
_MAX_BITMAPS = 2**31
_SIZE_BYTES = _CHECKSUM_BYTES = 4
_FIRST_OFFSET = 1
"""After the byte that tells the version of the file's format."""
_UUID_TEXT = 20
_MAX_ROWS = 1 << 55
"""No file has so many, whatever a vector names."""
_LARGE_BYTES, _LARGE_ROWS = 1 << 20, 1 << 22
"""What any vector may take without a look at its file."""
_BASE_BYTES, _ROW_BYTES = 1 << 12, 32
"""A bitmap holds each row by 2 to 4 bytes, in containers that take 8 and bitmaps that take 16."""
BLOCK_BITS = 15
"""`blocks_of` puts 2 to the power of this rows together."""
_WORD_BITS = 64
_PADDING, _MAX_PADDING = "#", 3
"""The last letter of the alphabet: no group of four bytes begins with it."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_RFC1924 = str.maketrans(_Z85, _RFC1924)
_TO_Z85 = str.maketrans(_RFC1924, _Z85)
"""From the alphabet of Python's base85 to that of vectors."""


class MalformedVectorError(ValueError):
    """The bytes are not the vector that the log describes."""


def stored_path(vector: DeletionVector, table_uri: str) -> str | None:
    """The canonical path of the file that holds a vector; None if the log holds it itself.

    Raises:
        LogPathError: The path climbs out of the table, or cannot be decoded.
        MalformedVectorError: The place cannot be understood.
    """
    place = vector.path_or_inline_dv
    match vector.storage_type:
        case "i":
            return None
        case "p":
            return canonical_path(place, table_uri)
        case "u":
            prefix, encoded = place[:-_UUID_TEXT], place[-_UUID_TEXT:]
            name = f"deletion_vector_{uuid.UUID(bytes=_decode_base85(encoded, 16))}.bin"
            return canonical_path(encode_path(f"{prefix}/{name}" if prefix else name), table_uri)
    raise MalformedVectorError(f"its storage type is {vector.storage_type!r}")


def stored_range(vector: DeletionVector) -> tuple[int, int]:
    """First byte and end of what a file holds of a vector: its size, its data and their checksum.

    Raises:
        MalformedVectorError: There can be no such place.
    """
    offset = _FIRST_OFFSET if vector.offset is None else vector.offset
    if offset < 0 or vector.size_in_bytes < 0:
        raise MalformedVectorError(f"it has {vector.size_in_bytes} bytes at offset {offset}")
    return offset, offset + _SIZE_BYTES + vector.size_in_bytes + _CHECKSUM_BYTES


def is_large(vector: DeletionVector) -> bool:
    """Whether the vector takes so much memory that `validate_size` needs the rows of its file."""
    return vector.size_in_bytes > _LARGE_BYTES or vector.cardinality > _LARGE_ROWS


def validate_size(vector: DeletionVector, num_rows: int | None) -> None:
    """Refuse a vector that claims more than a file of so many rows can need, before it is read.

    Args:
        vector: As the log has it.
        num_rows: Rows of the data file, deleted ones included; None: not known.

    Raises:
        MalformedVectorError: The vector is too large.
    """
    if num_rows is not None and vector.cardinality > num_rows:
        raise MalformedVectorError(
            f"it deletes {vector.cardinality} rows by the log, of a file of {num_rows} rows"
        )
    if vector.size_in_bytes > _BASE_BYTES + _ROW_BYTES * vector.cardinality:
        raise MalformedVectorError(
            f"it has {vector.size_in_bytes} bytes by the log, for {vector.cardinality} rows"
        )


def decode_stored(content: bytes, vector: DeletionVector) -> BitMap64:
    """The row numbers in the bytes of `stored_range`.

    Raises:
        MalformedVectorError: They contradict the log, their checksum or the format.
    """
    size = int.from_bytes(content[:_SIZE_BYTES], "big")
    data = content[_SIZE_BYTES:-_CHECKSUM_BYTES]
    if size != vector.size_in_bytes or len(data) != size:
        raise MalformedVectorError(
            f"it has {size} bytes in the file, and {vector.size_in_bytes} by the log"
        )
    if zlib.crc32(data) != int.from_bytes(content[-_CHECKSUM_BYTES:], "big"):
        raise MalformedVectorError("its bytes do not have their checksum")
    return _row_numbers(data, vector)


def decode_inline(vector: DeletionVector) -> BitMap64:
    """The row numbers of a vector that the log holds itself.

    Raises:
        MalformedVectorError: The text is no vector, or contradicts its descriptor.
    """
    data = _decode_base85(vector.path_or_inline_dv, vector.size_in_bytes)
    return _row_numbers(data, vector)


def kept_rows(vector: BitMap64, first: int, num_rows: int) -> pa.UInt64Array | None:
    """Find which rows of a range are not deleted, counted from the first of the range.

    Args:
        vector: Row numbers in the file.
        first: Row number in the file.
        num_rows: How many rows follow each other.

    Returns:
        Ascending places from 0; None if none of the rows is deleted.
    """
    if not vector.range_cardinality(first, first + num_rows):
        return None
    return _places(_range(first, num_rows) - vector, first)


def chosen_rows(rows: BitMap64, first: int, num_rows: int) -> pa.UInt64Array:
    """Like `kept_rows`, of the rows that are in a set."""
    return _places(_range(first, num_rows) & rows, first)


def blocks_of(vector: BitMap64) -> tuple[pa.Int64Array, pa.ListArray]:
    """The vector as bits, for engines that have no bitmaps.

    Returns:
        Of each block of rows that has deleted ones: its number, ascending from 0, and
        its rows as words of 64 bits, the first row in the lowest bit of the first word.
    """
    block_rows, numbers = 1 << BLOCK_BITS, _numbers(vector)
    numbers = numbers.filter(pc.less(numbers, pa.scalar(_MAX_ROWS, pa.uint64()))).cast(pa.int64())
    blocks = pc.shift_right(numbers, BLOCK_BITS).dictionary_encode()
    firsts = pc.shift_left(blocks.indices.cast(pa.int64()), BLOCK_BITS)
    places = pc.add(firsts, pc.bit_wise_and(numbers, block_rows - 1))
    num_rows = len(blocks.dictionary) * block_rows
    if not num_rows:
        return blocks.dictionary, pa.array([], pa.list_(pa.int64()))
    bits = pc.scatter(pa.repeat(True, len(places)), places, max_index=num_rows - 1)
    num_words = num_rows // _WORD_BITS
    words = pa.Array.from_buffers(
        pa.int64(), num_words, [None, pc.fill_null(bits, False).buffers()[1]]
    )
    ends = pa.array(range(0, num_words + 1, block_rows // _WORD_BITS), pa.int32())
    return blocks.dictionary, pa.ListArray.from_arrays(ends, words)


def _range(first: int, num_rows: int) -> BitMap64:
    rows = BitMap64()
    rows.add_range(first, first + num_rows)
    return rows


def _places(rows: BitMap64, first: int) -> pa.UInt64Array:
    return pc.subtract(_numbers(rows), pa.scalar(first, pa.uint64()))


def _numbers(rows: BitMap64) -> pa.UInt64Array:
    numbers = rows.to_array()
    return pa.Array.from_buffers(pa.uint64(), len(numbers), [None, pa.py_buffer(numbers)])


def _row_numbers(data: bytes, vector: DeletionVector) -> BitMap64:
    magic, body = data[:4], data[4:]
    try:
        if magic == _PORTABLE:
            rows = BitMap64.deserialize(body)
        elif magic in _NATIVE:
            rows = _decode_native(body, _NATIVE[magic])
        else:
            raise MalformedVectorError(f"it begins with {magic.hex() or 'nothing'}")
    except (ValueError, IndexError) as error:  # the latter where it is cut off
        if isinstance(error, MalformedVectorError):
            raise
        raise MalformedVectorError("it is no 64-bit roaring bitmap") from error
    if len(rows) != vector.cardinality:
        raise MalformedVectorError(
            f"it names {len(rows)} rows, and {vector.cardinality} by the log"
        )
    return rows


def _decode_native(body: bytes, order: Literal["big", "little"]) -> BitMap64:
    """Bitmaps for each 2 to the power of 32 rows, one after the other."""
    count, start = int.from_bytes(body[:4], order), 4
    rows = BitMap64()
    for high in range(min(count, _MAX_BITMAPS)):
        if start + 4 > len(body):
            raise MalformedVectorError(f"it ends before the last of its {count} bitmaps")
        end = start + 4 + int.from_bytes(body[start : start + 4], order)
        rows |= BitMap64(BitMap.deserialize(body[start + 4 : end])).shift(high << 32)
        start = end
    return rows


def _decode_base85(text: str, size: int) -> bytes:
    """The first bytes of what a text in the alphabet of Z85 stands for.

    Source: PROTOCOL.md, "Deletion Vector Descriptor Schema" (padded to whole groups).
    """
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise MalformedVectorError(f"{text[:40]!r} is no base85 text")
    whole, last = text[:-5], text[-5:]
    if last.startswith(_PADDING):
        decoded = _decoded_groups(whole) + _padded_group(last)
    else:
        decoded = _decoded_groups(text)
    if not 0 <= size <= len(decoded) < size + 4:
        raise MalformedVectorError(f"its text holds {len(decoded)} bytes, and {size} by the log")
    return decoded[:size]


def _decoded_groups(text: str) -> bytes:
    try:
        return base64.b85decode(text.translate(_TO_RFC1924))
    except ValueError as error:
        raise MalformedVectorError(f"{text[:40]!r} is no base85 text") from error


def _padded_group(text: str) -> bytes:
    """One to three bytes, as the z85 library of Rust writes them, and so kernel-rs and delta-rs.

    A padding letter at the beginning stands for each byte that the group lacks.
    """
    lacking = min(len(text) - len(text.lstrip(_PADDING)), _MAX_PADDING)
    group = _decoded_groups("0" * lacking + text[lacking:])
    if any(group[:lacking]):
        raise MalformedVectorError(f"{text!r} holds more than {4 - lacking} bytes")
    return group[lacking:]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A file of vectors that is ready to be written."""

    path: str
    """Relative to the table's root."""
    content: bytes
    vectors: tuple[DeletionVector, ...]
    """The vectors in the log, in the order in which they were given."""


def encode_vector(rows: BitMap64) -> bytes:
    """A vector as its file holds it, without its size and checksum."""
    compact = rows.copy()
    compact.run_optimize()
    return _PORTABLE + bytes(compact.serialize())


def pack_vectors(vectors: Sequence[BitMap64], identity: uuid.UUID) -> VectorFile:
    """Put vectors into one file.

    Args:
        vectors: Numbers of deleted rows, none of them empty.
        identity: Names the file; no other file of the table may have it.
    """
    place = base64.b85encode(identity.bytes).decode().translate(_TO_Z85)
    content, described = bytearray(_FILE_VERSION), []
    for rows in vectors:
        data = encode_vector(rows)
        described.append(
            DeletionVector(
                storage_type=RELATIVE,
                path_or_inline_dv=place,
                offset=len(content),
                size_in_bytes=len(data),
                cardinality=len(rows),
            )
        )
        content += len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    return VectorFile(
        path=f"deletion_vector_{identity}.bin",
        content=bytes(content),
        vectors=tuple(described),
    )
