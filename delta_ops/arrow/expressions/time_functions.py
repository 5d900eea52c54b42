"""Functions of dates and times, as Spark has them in UTC."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.expression.time_patterns import parts_of

_COUNTED = {"hour": pc.hour, "minute": pc.minute, "second": pc.second}
_DIRECTIVES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def truncate(times: Any, unit: Any) -> Any:
    """Dates or times at the beginning of their year, quarter, month, week or shorter unit.

    Args:
        times: Any.
        unit: One that Arrow knows, the same in all rows.
    """
    if not len(times):
        return times
    return pc.floor_temporal(times, unit=unit[0].as_py()).cast(times.type)


def time_of_day(times: Any, unit: str) -> Any:
    """The hour, minute or second of times, without what is beyond."""
    return _COUNTED[unit](times).cast(pa.int32())


def format_time(times: Any, pattern: Any) -> Any:
    """Dates or times as texts.

    Args:
        times: Any.
        pattern: One that `time_patterns` knows, the same in all rows.
    """
    if not len(times):
        return pa.array([], pa.string())
    directives = (_DIRECTIVES.get(each, each) for each in parts_of(pattern[0].as_py()))
    whole = pc.floor_temporal(times.cast(pa.timestamp("us")), unit="second")
    return pc.strftime(whole.cast(pa.timestamp("s")), format="".join(directives))
