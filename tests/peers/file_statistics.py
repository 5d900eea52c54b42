"""File statistics in the log, by value: bounds and counts of each column, and their rows.

Different texts of the same value are equal: numbers compare as numbers, floats as 32-bit floats,
times as instants, in any zone and precision. Where the other writers store different values,
`in_our_form` and `is_same_by_deltalake` have the rules.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isclose, isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from delta_ops import DeltaLog
from delta_ops.protocol.columns.mapping import physical_name, rename_columns
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    leaves,
)
from delta_ops.protocol.values.partition_values import parse

NEW_YORK = "America/New_York"
_FOOTER_BYTES = 4096
KINDS = ("minValues", "maxValues", "nullCount")
CUT = 32
"""Characters of a text that its bounds keep."""
LAST = "\U0010ffff"
_BYTES_OF_DELTALAKE = 64
_MS = timedelta(milliseconds=1)
_LOCAL_MEAN_TIME = timedelta(hours=-4, minutes=-56)
"""New York's offset before 1883, without its two seconds."""


class Bound(NamedTuple):
    """One file's statistics of one column, and the column's values in that file."""

    kind: str
    path: ColumnPath
    data_type: DataType
    said: Any
    values: list[Any]
    """Without nulls."""


def bounds_of(
    table: Path, rows: list[dict[str, Any]], partition: str | None
) -> Mapping[tuple[str, ...], Bound]:
    """The statistics of each file's columns in the log, by partition, kind and path.

    Args:
        rows: All rows, with those deleted by vectors.
        partition: The only partition column; each partition has one file.
    """
    return {
        (repr(value), each.kind, *each.path): each
        for value, each in _bounds(table, rows, partition)
    }


def _bounds(
    table: Path, rows: list[dict[str, Any]], partition: str | None
) -> Iterator[tuple[Any, Bound]]:
    snapshot = DeltaLog(table).snapshot()
    types = {each.name: each.data_type for each in snapshot.schema.fields}
    for add in snapshot.add_files():
        stats = json.loads(add.stats or "", parse_float=Decimal)
        value, mine = None, rows
        if partition is not None:
            value = parse(add.partition_values[partition], types[partition])
            mine = [row for row in rows if is_equal(row[partition], value)]
        assert stats["numRecords"] == len(mine)
        assert stats.get("tightBounds", True) is (add.deletion_vector is None)
        assert set(stats) <= {"numRecords", "tightBounds", *KINDS}
        in_file = rename_columns(snapshot.schema, physical_name)
        columns = zip(leaves(snapshot.schema), leaves(in_file), strict=True)
        for (path, data_type), (physical_path, _) in columns:
            if path[0] == partition:
                continue
            values = [found for row in mine if (found := value_at(row, path)) is not None]
            for kind in KINDS:
                recorded = value_at(stats[kind], physical_path)
                yield value, Bound(kind, path, data_type, recorded, values)


def value_at(row: Any, path: ColumnPath) -> Any:
    """The value of a column or of a struct field; None if it or a parent is null."""
    for name in path:
        row = None if row is None else row.get(name)
    return row


def is_equal(one: Any, other: Any) -> bool:
    """Whether two non-null values are equal in SQL: NaN equals itself."""
    return bool(one == other or (is_nan(one) and is_nan(other)))


def is_nan(value: Any) -> bool:
    """Whether a value of any type is NaN."""
    return isinstance(value, float) and isnan(value)


def typed(expected: Any, data_type: DataType) -> Any:
    """A bound as a value."""
    match expected:
        case str() | int() | Decimal() if data_type == FLOAT:
            # Writers use the digits of the float, or of its double.
            return struct.unpack("f", struct.pack("f", float(expected)))[0]
        case str() if data_type == DOUBLE:
            return float(expected)
        case str() if data_type == TIMESTAMP:
            return _moment(expected)
        case str() if data_type == TIMESTAMP_NTZ:
            return datetime.fromisoformat(expected)
        case str() if data_type != STRING:
            return parse(expected, data_type)
        case int() | Decimal() if data_type == DOUBLE:
            return float(expected)
    return expected


def _moment(message: str) -> datetime:
    """A moment; delta-spark writes local time, with the zone offset cut to minutes."""
    if message.startswith("0000-12-31T19:03:58"):
        # Year 1 begins at that instant in New York, in a year before Python's first.
        return datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=float("0" + message[19:23]))
    moment = datetime.fromisoformat(message)
    if moment.utcoffset() == _LOCAL_MEAN_TIME:
        moment = moment.replace(tzinfo=ZoneInfo(NEW_YORK))
    return moment.astimezone(UTC)


def in_our_form(theirs: Bound) -> Any:
    """Our bound for the reference's bound: the same, or a bound that is safe for every reader."""
    data_type, values = theirs.data_type, theirs.values
    if theirs.kind == "nullCount":
        # A footer counts the nulls of a list's elements, not of the list.
        return None if isinstance(data_type, ArrayType | MapType) else theirs.said
    is_lower = theirs.kind == "minValues"
    bound = typed(theirs.said, data_type)
    if isinstance(bound, float):
        if isnan(bound) or bound in (float("inf"), float("-inf")):
            return None  # JSON has no such numbers; the reference writes texts
        # A reader that compares bits would miss -0.0 above 0.0.
        return bound or (-0.0 if is_lower else 0.0)
    if isinstance(bound, datetime) and not is_lower and max(values).microsecond % 1000:
        # The reference cuts to milliseconds and adds one when it reads; others do not.
        try:
            return bound + _MS
        except OverflowError:
            return None
    return bound


def is_same(ours: Bound, theirs: Bound) -> bool:
    """Whether our bound equals the reference's bound in our form."""
    if ours.said is None and theirs.said is None:
        return True
    if ours.said is None and ours.data_type == STRING and ours.kind != "nullCount":
        # Arrow's footers have no bounds for larger texts.
        return any(len(each.encode()) > _FOOTER_BYTES for each in theirs.values)
    if ours.kind == "maxValues" and ours.data_type == STRING and theirs.values:
        greatest = max(theirs.values)
        if any(each > "\uffff" for each in greatest[: 2 * CUT]):
            return _is_cut_above(ours.said, greatest)
    if ours.kind == "nullCount":
        return bool(ours.said == in_our_form(theirs))
    return bool(_key(typed(ours.said, ours.data_type)) == _key(in_our_form(theirs)))


def _is_cut_above(message: str | None, greatest: str) -> bool:
    """Whether it is the shortest such text; the reference counts UTF-16 units here."""
    if message is None:
        return set(greatest[CUT : 2 * CUT]) == {LAST} and len(greatest) > 2 * CUT
    if len(greatest) <= CUT:
        return message == greatest
    return message >= greatest and message[:CUT] == greatest[:CUT] and len(message) <= 2 * CUT


def is_same_by_deltalake(ours: Bound, theirs: Bound) -> bool:
    """Whether deltalake's bound is its own form of our bound for the rows."""
    data_type, values = ours.data_type, ours.values
    if data_type == BINARY or isinstance(data_type, ArrayType | MapType):
        return theirs.said is None  # we count nulls of bytes
    if ours.kind == "nullCount":
        return bool(theirs.said == ours.said)
    is_lower = ours.kind == "minValues"
    known = [value for value in values if not is_nan(value)]
    end = (min if is_lower else max)(known) if known else None
    one, other = (typed(each.said, data_type) for each in (ours, theirs))
    if end is None:
        return one is None and other is None
    if data_type == BOOLEAN:
        return one is None and other is end  # no other writer has bounds of these
    if data_type == STRING:
        return _is_cut_by_deltalake(other, end, is_lower)
    if isinstance(data_type, DecimalType) and data_type.scale:
        # It writes the digits of a double.
        return float(one) == float(end) and isclose(other, end, rel_tol=1e-15)
    if isinstance(end, datetime):
        return bool(other == end - timedelta(microseconds=end.microsecond % 1000))
    if isinstance(end, float) and one is None and len(known) < len(values) and isfinite(end):
        return bool(not is_lower and other == end)  # it hides NaN
    return bool(_key(one) == _key(other))


def _is_cut_by_deltalake(message: str, end: str, is_lower: bool) -> bool:
    """Whether it is the text, or, for a text longer than Arrow's limit, a text just beside it."""
    if len(end.encode()) <= _BYTES_OF_DELTALAKE:
        return message == end
    if is_lower:
        return end.startswith(message)
    return message == end or (message > end and len(message.encode()) <= _BYTES_OF_DELTALAKE)


def _key(value: Any) -> Any:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    return repr(value) if isinstance(value, float) else value


def holds(bound: Bound) -> bool:
    """Whether the bounds include every value of the file, for any way of comparing."""
    if bound.kind == "nullCount":
        return True
    reported = typed(bound.said, bound.data_type)
    if reported is None:
        return True
    order = _order_of_bits if isinstance(reported, float) else lambda value: value
    compared = [order(value) for value in bound.values]
    if bound.kind == "minValues":
        return all(order(reported) <= each for each in compared)
    return all(order(reported) >= each for each in compared)


def _order_of_bits(value: float) -> tuple[bool, float, bool]:
    """NaN is the greatest, and -0.0 is below 0.0."""
    return (True, 0.0, False) if isnan(value) else (False, value, repr(value) != "-0.0")
