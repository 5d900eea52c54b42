"""Converts statistics that a checkpoint holds as a struct (`stats_parsed`) to JSON.

Source: PROTOCOL.md, "Checkpoint Schema" and "Per-file Statistics". A value without an exact JSON
form is left out; other values stay. A missing bound skips no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def add_json_stats(adds: pa.StructArray) -> pa.StructArray:
    """Fill in missing JSON statistics from `stats_parsed`, and drop that field."""
    names = [adds.type.field(i).name for i in range(adds.type.num_fields)]
    if "stats_parsed" not in names:
        return adds
    texts = pc.struct_field(adds, "stats").to_pylist() if "stats" in names else [None] * len(adds)
    untold = [row for row, text in enumerate(texts) if text is None]
    parsed = pc.struct_field(adds, "stats_parsed").take(pa.array(untold, pa.int64()))
    for row, stats in zip(untold, _clear_inconvertible(parsed).to_pylist(), strict=True):
        texts[row] = None if stats is None else stats_json(stats)
    kept = [name for name in names if name not in ("stats", "stats_parsed")]
    arrays = [pc.struct_field(adds, name) for name in kept]
    return pa.StructArray.from_arrays(
        [*arrays, pa.array(texts, pa.string())], names=[*kept, "stats"]
    )


def stats_json(stats: Mapping[str, Any]) -> str:
    """A row of `stats_parsed` as JSON, without values that have no JSON form."""
    return json.dumps(_plain_value(stats), separators=(",", ":"), allow_nan=False)


def _plain_value(value: Any) -> Any:
    """The value as JSON types; None if it has no JSON form."""
    match value:
        case Mapping():
            plain = {name: _plain_value(v) for name, v in value.items()}
            return {name: v for name, v in plain.items() if v is not None}
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date():
            return value.isoformat().replace("+00:00", "Z")
    return None


_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (_FIRST - _EPOCH).days, (_LAST - _EPOCH).days
_DAY_US = 86_400_000_000
_JSON_KINDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
)


def _clear_inconvertible(array: pa.Array) -> pa.Array:
    """Replace values without a JSON form by null, such as years before 1 and after 9999."""
    kind = array.type
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return array
        children = [_clear_inconvertible(child) for child in array.flatten()]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
    if pa.types.is_dictionary(kind):
        return _clear_inconvertible(array.dictionary_decode())
    if pa.types.is_date32(kind):
        return _clear_outside(array, array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_timestamp(kind):
        try:
            micros = array.cast(pa.timestamp("us", kind.tz))
        except pa.ArrowInvalid:  # finer than a microsecond, or out of its range
            return pa.nulls(len(array))
        # One day less at each end: a time zone may shift the local date by a day.
        first, last = (_FIRST_DAY + 1) * _DAY_US, (_LAST_DAY - 1) * _DAY_US
        return _clear_outside(micros, micros.cast(pa.int64()), first, last)
    return array if any(is_kind(kind) for is_kind in _JSON_KINDS) else pa.nulls(len(array))


def _clear_outside(array: pa.Array, numbers: pa.Array, first: int, last: int) -> pa.Array:
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(inside, array, pa.scalar(None, array.type))
