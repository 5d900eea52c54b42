"""Repeated files: removes duplicates of files that a checkpoint names more than once.

Source: PROTOCOL.md, "Action Reconciliation" (a checkpoint must hold each file once).

Comparing all paths takes nearly as long as reading them. So hashes of the ends of the paths are
compared first, and paths only where two hashes are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.version.reconciliation import file_rows, mark_first
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH, merge_chunks
from delta_ops.protocol.arrow_values import array_of, scalar

_WINDOWS = (-32, -24, -16)
"""Offsets of the hashed eight-byte windows, from the end of the path. Directories come before
these bytes, and `.parquet` after them."""
_WINDOW_BYTES = 8
_NUMBERS_AT_ONCE = struct.Struct("=3q")
_SHORT = b" " * -_WINDOWS[0]
"""Replaces every key that is too short."""
_FACTOR = 0x9E3779B97F4A7C1
"""Factor of the hash; odd, so that the multiplication loses no bit."""
_FEW = 64
"""Up to this many keys are handled one by one, with a tenth of the calls into Arrow."""
_HALF, _WHOLE = 1 << 63, 1 << 64
# Arrow's default pool returns memory and requests it again at once, which doubles the time.
_POOL = pa.system_memory_pool()


def drop_repeated(adds: pa.Table, table_uri: str) -> pa.Table:
    """Remove rows whose file already occurs in an earlier row.

    Args:
        adds: Has the columns `path` and `deletionVector`, as in the log, and others. A
            `CANONICAL_PATH` column saves time.
        table_uri: The table's root.
    """
    if len(adds) < 2:
        return adds
    adds = merge_chunks(adds)
    keys = _keys(adds, table_uri)
    hashes = hash_keys(keys)
    if hashes_differ([hashes]):
        return adds
    counts = pc.value_counts(hashes, memory_pool=_POOL)
    shared = counts.field("values").filter(pc.greater(counts.field("counts"), scalar(1)))
    may_repeat = pc.is_in(hashes, value_set=shared)
    is_first = mark_first(keys.filter(may_repeat))
    if pc.all(is_first).as_py():
        return adds
    stays = pc.invert(may_repeat).combine_chunks()
    return adds.filter(pc.replace_with_mask(stays, may_repeat.combine_chunks(), is_first))


def all_differ(adds: Iterable[pa.Table], table_uri: str) -> bool:
    """True only if no file occurs twice in these tables; columns as in `drop_repeated`."""
    few: list[str] = []
    hashes: list[pa.ChunkedArray] = []
    for each in adds:
        keys = _keys(each, table_uri)
        if hashes or len(few) + len(keys) > _FEW:
            hashes.append(hash_keys(keys))
        else:
            few += keys.to_pylist()
    if not hashes:
        return len(set(few)) == len(few)
    return hashes_differ([hash_keys(pa.chunked_array([few], pa.string())), *hashes])


def hashes_differ(hashes: Iterable[pa.ChunkedArray]) -> bool:
    """Whether all hashes differ, so that all keys differ."""
    joined = pa.chunked_array([chunk for each in hashes for chunk in each.chunks], pa.int64())
    return len(pc.unique(joined, memory_pool=_POOL)) == len(joined)


def _keys(adds: pa.Table, table_uri: str) -> pa.ChunkedArray:
    if CANONICAL_PATH in adds.column_names and adds["deletionVector"].null_count == len(adds):
        return adds[CANONICAL_PATH]
    return file_rows(adds.select(["path", "deletionVector"]), table_uri).keys


def hash_keys(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """A hash of each key."""
    return pa.chunked_array([_hashes(chunk) for chunk in keys.chunks], pa.int64())


def _hashes(keys: pa.Array) -> pa.Array:
    """A hash of each key; all short keys have the same hash."""
    if len(keys) <= _FEW:
        return array_of(map(_hash, keys.to_pylist()), pa.int64())
    is_short = pc.less(pc.binary_length(keys), scalar(len(_SHORT)))
    long = pc.if_else(is_short, scalar(_SHORT.decode()), keys).cast(pa.binary())
    hashes = pa.repeat(scalar(0, pa.int64()), len(long))
    for start in _WINDOWS:
        hashes = pc.add(pc.multiply(hashes, scalar(_FACTOR)), _numbers(long, start))
    return hashes


def _hash(key: str) -> int:
    """The hash that `_hashes` computes for a key."""
    text = key.encode()
    long = text if len(text) >= len(_SHORT) else _SHORT
    a, b, c = _NUMBERS_AT_ONCE.unpack_from(long, _WINDOWS[0])
    hashed: int = ((a * _FACTOR + b) * _FACTOR + c + _HALF) % _WHOLE - _HALF
    return hashed


def _numbers(texts: pa.BinaryArray, start: int) -> pa.Array:
    """Eight bytes of each key, from an offset before its end, as one integer."""
    cut = pc.binary_slice(texts, start, start + _WINDOW_BYTES)
    _, _, data = cut.buffers()
    numbers = pa.Array.from_buffers(pa.int64(), cut.offset + len(cut), [None, data])
    return numbers.slice(cut.offset)
