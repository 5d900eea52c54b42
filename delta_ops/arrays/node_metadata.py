"""Node metadata: what chunks depend on in the metadata document of a node. No I/O.

The document is `zarr.json`, or `.zarray` and `.zgroup` of Zarr 2. Chunks were made for its shape,
chunk grid, data type, codecs and fill value. Attributes and dimension names may change beside them.
"""

from __future__ import annotations

import json
from typing import Any, TypeGuard

DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")
"""Metadata documents that chunks depend on; `.zattrs` only has attributes."""
_FREE = frozenset({"attributes", "dimension_names", "consolidated_metadata"})


def essential_part(document: bytes | None) -> Any:
    """The part of a metadata document that chunks depend on; comparable by `==`.

    Returns:
        None without a document; the bytes of a document that is not a JSON object.
    """
    if document is None:
        return None
    content = _object_of(document)
    if content is None:
        return document
    return {name: value for name, value in content.items() if name not in _FREE}


def chunk_grid(document: bytes | None) -> tuple[int, ...] | None:
    """Number of chunks along each dimension; None if the document has no regular chunk grid."""
    content = _object_of(document) if document is not None else None
    if content is None:
        return None
    chunks = content.get("chunks")
    grid = content.get("chunk_grid")
    if isinstance(grid, dict) and isinstance(grid.get("configuration"), dict):
        chunks = grid["configuration"].get("chunk_shape")
    shape = content.get("shape")
    if not (_are_sizes(shape) and _are_sizes(chunks) and len(shape) == len(chunks)):
        return None
    return tuple(-(-size // max(chunk, 1)) for size, chunk in zip(shape, chunks, strict=True))


def _object_of(document: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(document)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in values
    )
