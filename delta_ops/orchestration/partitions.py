"""Dagster's partitions as predicates on a column of the table.

The literal's type comes from the column, never from the partitions definition. Windows of time are
half open and OR-ed where they do not touch: nothing is assumed to be contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import Always, Predicate, col
from delta_ops.protocol.schema import PrimitiveType, StructType, find_field

Window = tuple[datetime, datetime]


def partition_predicate(
    column: str, schema: StructType, partitions: dg.PartitionsDefinition[Any], keys: Sequence[str]
) -> Predicate:
    """The rows of these partitions.

    Raises:
        InvalidRequestError: The column's type cannot stand for the partitions.
    """
    data_type = find_field(schema, column).data_type
    name = data_type.name if isinstance(data_type, PrimitiveType) else ""
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        raise InvalidRequestError(
            f"column {column!r} cannot stand for partitions of several dimensions; write the rows "
            "yourself with DeltaLogResource.begin"
        )
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition) or name == "string":
        return col(column).isin(list(keys))
    if not keys:
        return Always(False)
    windows = _join_windows([_window(partitions, key) for key in keys])
    predicates: list[Predicate] = [_window_predicate(column, name, window) for window in windows]
    return reduce(_or, predicates)


def _or(left: Predicate, right: Predicate) -> Predicate:
    return left | right


def _window(partitions: dg.TimeWindowPartitionsDefinition, key: str) -> Window:
    window = partitions.time_window_for_partition_key(key)
    return window.start, window.end


def _join_windows(windows: Sequence[Window]) -> list[Window]:
    joined: list[Window] = []
    for start, end in sorted(windows, key=lambda window: window[0].timestamp()):
        # Aware times of one zone compare by their clocks, which an hour of autumn shows twice.
        if joined and start.timestamp() <= joined[-1][1].timestamp():
            joined[-1] = (joined[-1][0], max(end, joined[-1][1], key=datetime.timestamp))
        else:
            joined.append((start, end))
    return joined


def _window_predicate(column: str, type_name: str, window: Window) -> Predicate:
    start, end = (_literal(column, type_name, bound) for bound in window)
    predicate: Predicate = (col(column) >= start) & (col(column) < end)
    return predicate


def _literal(column: str, type_name: str, bound: datetime) -> Any:
    match type_name:
        case "timestamp":
            return bound.astimezone(UTC)
        case "timestamp_ntz":
            return bound.replace(tzinfo=None)
        case "date" if (bound.hour, bound.minute, bound.second) == (0, 0, 0):
            return bound.date()
    raise InvalidRequestError(
        f"column {column!r} of type {type_name or 'a nested type'} cannot hold windows such "
        f"as {bound}; partition by a date (whole days), timestamp or string column"
    )
