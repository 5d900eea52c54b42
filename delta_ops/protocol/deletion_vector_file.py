"""Deletion vector files: the vectors of several data files, one after the other.

Source: PROTOCOL.md, "Deletion Vector File Storage Format" and "Deletion Vector Format".

A file begins with the version of its format; each vector has its size before it and its checksum
behind it. Vectors are written in the portable form, runs of rows as runs. No I/O.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.deletion_vectors import PORTABLE, RELATIVE, TO_Z85

_VERSION = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A file of vectors that is ready to be written."""

    path: str
    """Relative to the table's root."""
    content: bytes
    vectors: tuple[DeletionVector, ...]
    """What the log says of each, in the order in which they were given."""


def encode_vector(rows: BitMap64) -> bytes:
    """A vector as its file holds it, without its size and checksum."""
    compact = rows.copy()
    compact.run_optimize()
    return PORTABLE + bytes(compact.serialize())


def pack_vectors(vectors: Sequence[BitMap64], identity: uuid.UUID) -> VectorFile:
    """Put vectors into one file.

    Args:
        vectors: Numbers of deleted rows, none of them empty.
        identity: What the file is called by; no other file of the table may have it.
    """
    place = base64.b85encode(identity.bytes).decode().translate(TO_Z85)
    content, described = bytearray(_VERSION), []
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
