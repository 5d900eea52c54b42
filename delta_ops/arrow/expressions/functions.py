"""Functions of texts and times as in Spark: texts by Unicode code points, times in UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.expression.time_functions import parts_of

_COUNTED = {"hour": pc.hour, "minute": pc.minute, "second": pc.second}
_DIRECTIVES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def upper(texts: Any) -> Any:
    """Convert texts to upper case; one character may become several, such as the German sharp s."""
    return _map_case(texts, pc.ascii_upper, str.upper)


def lower(texts: Any) -> Any:
    """Convert texts to lower case."""
    return _map_case(texts, pc.ascii_lower, str.lower)


def trim(texts: Any) -> Any:
    """Remove spaces at both ends of texts; other white space stays."""
    return pc.utf8_trim(texts, " ")


def pad(texts: Any, length: Any) -> Any:
    """Pad texts with trailing spaces to a length that is the same in all rows."""
    return pc.utf8_rpad(texts, length[0].as_py()) if len(texts) else texts


def substring(texts: Any, start: Any, length: Any = None) -> Any:
    """Return a part of each text.

    Args:
        texts: The texts.
        start: From 1, or negative from the end. The same in all rows, like the length.
        length: Number of characters; None means up to the end.
    """
    if not len(texts):
        return texts
    first: int = start[0].as_py()
    first = first - 1 if first > 0 else first
    if length is None:
        return pc.utf8_slice_codeunits(texts, first)
    count: int = length[0].as_py()
    if count <= 0:
        return pc.utf8_slice_codeunits(texts, 0, 0)
    end = first + count
    if first < 0 <= end:
        return pc.utf8_slice_codeunits(texts, first)
    return pc.utf8_slice_codeunits(texts, first, end)


def _map_case(texts: Any, by_ascii: Callable[[Any], Any], by_unicode: Callable[[str], str]) -> Any:
    is_ascii = pc.string_is_ascii(texts)
    if pc.all(is_ascii, min_count=0).as_py():
        return by_ascii(texts)
    # Arrow maps each character to exactly one.
    encoded = pc.if_else(is_ascii, pa.scalar(None, texts.type), texts).dictionary_encode()
    mapped = pa.array([by_unicode(each) for each in encoded.dictionary.to_pylist()], texts.type)
    return pc.if_else(is_ascii, by_ascii(texts), mapped.take(encoded.indices))


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
    """Format dates or times as texts.

    Args:
        times: The dates or times.
        pattern: A pattern of `time_functions`, the same in all rows.
    """
    if not len(times):
        return pa.array([], pa.string())
    directives = (_DIRECTIVES.get(each, each) for each in parts_of(pattern[0].as_py()))
    whole = pc.floor_temporal(times.cast(pa.timestamp("us")), unit="second")
    return pc.strftime(whole.cast(pa.timestamp("s")), format="".join(directives))
