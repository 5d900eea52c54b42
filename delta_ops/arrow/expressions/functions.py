"""String and time functions as in Spark: strings by Unicode code points, times in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.expression.time_functions import parts_of

_COUNTED = {"hour": pc.hour, "minute": pc.minute, "second": pc.second}
_DIRECTIVES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def upper(strings: Any) -> Any:
    """Convert strings to upper case; one character may become several, such as German sharp s."""
    return _map_case(strings, pc.ascii_upper, str.upper)


def lower(strings: Any) -> Any:
    """Convert strings to lower case."""
    return _map_case(strings, pc.ascii_lower, str.lower)


def trim(strings: Any) -> Any:
    """Remove spaces at both ends of strings; other white space stays."""
    return pc.utf8_trim(strings, " ")


def pad(strings: Any, length: Any) -> Any:
    """Pad strings with trailing spaces to a length that is the same in all rows."""
    return pc.utf8_rpad(strings, length[0].as_py()) if len(strings) else strings


def substring(strings: Any, start: Any, length: Any = None) -> Any:
    """Return a part of each string.

    Args:
        strings: The strings.
        start: From 1, or negative from the end. The same in all rows, like the length.
        length: Number of characters; None means up to the end.
    """
    if not len(strings):
        return strings
    first: int = start[0].as_py()
    first = first - 1 if first > 0 else first
    if length is None:
        return pc.utf8_slice_codeunits(strings, first)
    count: int = length[0].as_py()
    if count <= 0:
        return pc.utf8_slice_codeunits(strings, 0, 0)
    end = first + count
    if first < 0 <= end:
        return pc.utf8_slice_codeunits(strings, first)
    return pc.utf8_slice_codeunits(strings, first, end)


def _map_case(
    strings: Any, by_ascii: Callable[[Any], Any], by_unicode: Callable[[str], str]
) -> Any:
    is_ascii = pc.string_is_ascii(strings)
    if pc.all(is_ascii, min_count=0).as_py():
        return by_ascii(strings)
    # Arrow maps each character to exactly one.
    encoded = pc.if_else(is_ascii, scalar(None, strings.type), strings).dictionary_encode()
    mapped = array_of([by_unicode(each) for each in encoded.dictionary.to_pylist()], strings.type)
    return pc.if_else(is_ascii, by_ascii(strings), mapped.take(encoded.indices))


def truncate(times: Any, unit: Any) -> Any:
    """Round dates or times down to their year, quarter, month, week or a shorter unit.

    Args:
        times: The dates or times.
        unit: A unit of Arrow, the same in all rows.
    """
    if not len(times):
        return times
    return pc.floor_temporal(times, unit=unit[0].as_py()).cast(times.type)


def time_of_day(times: Any, unit: str) -> Any:
    """Return the hour, minute or whole second of times."""
    return _COUNTED[unit](times).cast(pa.int32())


def format_time(times: Any, pattern: Any) -> Any:
    """Format dates or times as strings.

    Args:
        times: The dates or times.
        pattern: A pattern of `time_functions`, the same in all rows.
    """
    if not len(times):
        return array_of([], pa.string())
    directives = (_DIRECTIVES.get(each, each) for each in parts_of(pattern[0].as_py()))
    whole = pc.floor_temporal(times.cast(pa.timestamp("us")), unit="second")
    return pc.strftime(whole.cast(pa.timestamp("s")), format="".join(directives))
