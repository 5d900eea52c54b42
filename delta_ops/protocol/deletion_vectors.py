"""Deletion vectors: the deleted rows of a data file.

Source: PROTOCOL.md, "Deletion Vectors", "Deletion Vector Descriptor Schema", "Deletion Vector
Format" and "Deletion Vector File Storage Format".

A vector is a set of row numbers, counted from 0 in file order, in the portable format of 64-bit
roaring bitmaps. The log holds a vector inline, or names a file that holds several vectors. Decoding
checks the checksum and the number of rows in the log, because a misread vector brings deleted rows
back. No I/O.
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
from delta_ops.protocol.arrow_values import FALSE_SCALAR, TRUE_SCALAR, array_of, scalar
from delta_ops.protocol.file_paths import canonical_path, encode_path

INLINE, RELATIVE, ABSOLUTE = "i", "u", "p"

_FILE_VERSION = b"\x01"
_PORTABLE = (1681511377).to_bytes(4, "little")
_NATIVE: Mapping[bytes, Literal["big", "little"]] = {
    (1681511376).to_bytes(4, "big"): "big",
    (1681511376).to_bytes(4, "little"): "little",
}
"""First bytes in the format of the protocol's example: 32-bit bitmaps, each after its size."""
_MAX_BITMAPS = 2**31
_SIZE_BYTES = _CHECKSUM_BYTES = 4
_FIRST_OFFSET = 1
"""Vectors start after the byte that holds the version of the file format."""
_UUID_TEXT = 20
_MAX_ROWS = 1 << 55
"""More rows than any file has."""
_LARGE_BYTES, _LARGE_ROWS = 1 << 20, 1 << 22
"""Larger vectors are decoded only if the row count of their data file is known."""
_BASE_BYTES, _ROW_BYTES = 1 << 12, 32
"""Upper bounds: a bitmap holds a row in 2 to 4 bytes; a container adds 8 and a bitmap 16."""
BLOCK_BITS = 15
"""A block of `blocks_of` has 2 to the power of this many rows."""
_WORD_BITS = 64
_PADDING, _MAX_PADDING = "#", 3
"""The last letter of the alphabet; no group of four bytes begins with it."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_RFC1924 = str.maketrans(_Z85, _RFC1924)
_TO_Z85 = str.maketrans(_RFC1924, _Z85)
"""Translates Python's base85 alphabet to the alphabet of vectors."""


class MalformedVectorError(ValueError):
    """The bytes are not the vector that the log describes."""


def stored_path(vector: DeletionVector, table_uri: str) -> str | None:
    """The canonical path of the vector's file; None for an inline vector.

    Raises:
        LogPathError: The path climbs out of the table, or cannot be decoded.
        MalformedVectorError: The storage type or the encoded UUID is invalid.
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
    """First byte and end of a vector in its file, with its size and checksum.

    Raises:
        MalformedVectorError: The offset or the size is negative.
    """
    offset = _FIRST_OFFSET if vector.offset is None else vector.offset
    if offset < 0 or vector.size_in_bytes < 0:
        raise MalformedVectorError(f"it has {vector.size_in_bytes} bytes at offset {offset}")
    return offset, offset + _SIZE_BYTES + vector.size_in_bytes + _CHECKSUM_BYTES


def is_large(vector: DeletionVector) -> bool:
    """Whether `validate_size` needs the row count of the data file.

    A large vector takes much memory, so its size is checked before it is read.
    """
    return vector.size_in_bytes > _LARGE_BYTES or vector.cardinality > _LARGE_ROWS


def validate_size(vector: DeletionVector, num_rows: int | None) -> None:
    """Reject a vector that is larger than its data file allows.

    Args:
        vector: The descriptor in the log.
        num_rows: Rows of the data file, with deleted rows; None: not known.

    Raises:
        MalformedVectorError: The vector is too large.
    """
    if num_rows is not None and vector.cardinality > num_rows:
        raise MalformedVectorError(
            f"it deletes {vector.cardinality} rows, but the file has {num_rows} rows"
        )
    if vector.size_in_bytes > _BASE_BYTES + _ROW_BYTES * vector.cardinality:
        raise MalformedVectorError(
            f"it has {vector.size_in_bytes} bytes according to the log, which is too many for "
            f"{vector.cardinality} rows"
        )


def decode_stored(content: bytes, vector: DeletionVector) -> BitMap64:
    """Decode the row numbers from the bytes of `stored_range`.

    Raises:
        MalformedVectorError: The bytes contradict the log, their checksum or the format.
    """
    size = int.from_bytes(content[:_SIZE_BYTES], "big")
    data = content[_SIZE_BYTES:-_CHECKSUM_BYTES]
    if size != vector.size_in_bytes or len(data) != size:
        raise MalformedVectorError(
            f"it has {size} bytes in the file, and {vector.size_in_bytes} according to the log"
        )
    if zlib.crc32(data) != int.from_bytes(content[-_CHECKSUM_BYTES:], "big"):
        raise MalformedVectorError("its checksum does not match")
    return _row_numbers(data, vector)


def decode_inline(vector: DeletionVector) -> BitMap64:
    """Decode the row numbers of an inline vector.

    Raises:
        MalformedVectorError: The text is no vector, or contradicts its descriptor.
    """
    data = _decode_base85(vector.path_or_inline_dv, vector.size_in_bytes)
    return _row_numbers(data, vector)


def kept_rows(vector: BitMap64, first: int, num_rows: int) -> pa.UInt64Array | None:
    """Find the rows of a range that are not deleted.

    Args:
        vector: Row numbers in the file.
        first: The range's first row, numbered in the file.
        num_rows: Number of rows in the range.

    Returns:
        Ascending positions in the range, from 0; None if none of the rows is deleted.
    """
    if not vector.range_cardinality(first, first + num_rows):
        return None
    return _places(_range(first, num_rows) - vector, first)


def chosen_rows(rows: BitMap64, first: int, num_rows: int) -> pa.UInt64Array:
    """Find the rows of a range that are in a set, like `kept_rows`."""
    return _places(_range(first, num_rows) & rows, first)


def blocks_of(vector: BitMap64) -> tuple[pa.Int64Array, pa.ListArray]:
    """The vector as bits, for engines without bitmaps.

    Returns:
        The numbers of all blocks with deleted rows, ascending from 0, and the rows of each block as
        64-bit words. The first row is the lowest bit of the first word.
    """
    block_rows, numbers = 1 << BLOCK_BITS, _numbers(vector)
    numbers = numbers.filter(pc.less(numbers, scalar(_MAX_ROWS, pa.uint64()))).cast(pa.int64())
    blocks = pc.shift_right(numbers, BLOCK_BITS).dictionary_encode()
    firsts = pc.shift_left(blocks.indices.cast(pa.int64()), BLOCK_BITS)
    places = pc.add(firsts, pc.bit_wise_and(numbers, block_rows - 1))
    num_rows = len(blocks.dictionary) * block_rows
    if not num_rows:
        return blocks.dictionary, array_of([], pa.list_(pa.int64()))
    bits = pc.scatter(pa.repeat(TRUE_SCALAR, len(places)), places, max_index=num_rows - 1)
    num_words = num_rows // _WORD_BITS
    words = pa.Array.from_buffers(
        pa.int64(), num_words, [None, pc.fill_null(bits, FALSE_SCALAR).buffers()[1]]
    )
    ends = array_of(range(0, num_words + 1, block_rows // _WORD_BITS), pa.int32())
    return blocks.dictionary, pa.ListArray.from_arrays(ends, words)


def _range(first: int, num_rows: int) -> BitMap64:
    rows = BitMap64()
    rows.add_range(first, first + num_rows)
    return rows


def _places(rows: BitMap64, first: int) -> pa.UInt64Array:
    return pc.subtract(_numbers(rows), scalar(first, pa.uint64()))


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
    except (ValueError, IndexError) as error:  # IndexError: the bitmap is cut off
        if isinstance(error, MalformedVectorError):
            raise
        raise MalformedVectorError("it is not a 64-bit roaring bitmap") from error
    if len(rows) != vector.cardinality:
        raise MalformedVectorError(
            f"it names {len(rows)} rows, and {vector.cardinality} according to the log"
        )
    return rows


def _decode_native(body: bytes, order: Literal["big", "little"]) -> BitMap64:
    """Decode consecutive bitmaps, each for 2 to the power of 32 rows."""
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
    """Decode a text in the Z85 alphabet to its first `size` bytes.

    Source: PROTOCOL.md, "Deletion Vector Descriptor Schema" (padded to whole groups).
    """
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise MalformedVectorError(f"{text[:40]!r} is not valid base85")
    whole, last = text[:-5], text[-5:]
    if last.startswith(_PADDING):
        decoded = _decoded_groups(whole) + _padded_group(last)
    else:
        decoded = _decoded_groups(text)
    if not 0 <= size <= len(decoded) < size + 4:
        raise MalformedVectorError(
            f"its text decodes to {len(decoded)} bytes, and {size} according to the log"
        )
    return decoded[:size]


def _decoded_groups(text: str) -> bytes:
    try:
        return base64.b85decode(text.translate(_TO_RFC1924))
    except ValueError as error:
        raise MalformedVectorError(f"{text[:40]!r} is not valid base85") from error


def _padded_group(text: str) -> bytes:
    """Decode a group of one to three bytes, as Rust's z85 library, kernel-rs and delta-rs write it.

    Each leading padding letter represents one missing byte.
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
    """Descriptors for the log, in the order of the vectors passed in."""


def encode_vector(rows: BitMap64) -> bytes:
    """Encode a vector for its file, without size and checksum."""
    compact = rows.copy()
    compact.run_optimize()
    return _PORTABLE + bytes(compact.serialize())


def pack_vectors(vectors: Sequence[BitMap64], identity: uuid.UUID) -> VectorFile:
    """Put vectors into one file.

    Args:
        vectors: Numbers of deleted rows; no vector is empty.
        identity: Names the file; must be unique in the table.
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
