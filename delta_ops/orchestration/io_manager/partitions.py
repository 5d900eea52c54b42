"""Partitions: Dagster's partition keys as predicates on the columns of the table.

The column decides the type of a literal, never the partitions definition. A time window is half
open. Windows with gaps are joined by OR. In a column of strings or whole numbers a window is the
range between its formatted bounds (`2026-01-31`, `20260131`), if the formatted values sort like the
times (`%Y` first, then `%m`, ...). Otherwise the value must equal the partition key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.partition_expression import (
    PartitionExpression,
    next_value,
    parse_expression,
)
from delta_ops.protocol.predicate import Always, And, Column, Predicate
from delta_ops.protocol.schema import StructType

Window = tuple[datetime, datetime]
Range = tuple[Any, Any]
"""The first value, and the value after the last."""

_SORTED_FORMATS = ("Y", "Ym", "Ymd", "YmdH", "YmdHM", "YmdHMS", "Yj", "F")


def partition_predicate(
    expression: str | Mapping[str, str],
    schema: StructType,
    partitions: dg.PartitionsDefinition[Any],
    keys: Sequence[str],
) -> Predicate:
    """The predicate for the rows of partitions.

    Args:
        expression: An expression of `partition_expression`; for several dimensions, a mapping of
            dimensions to expressions.
        keys: Partition keys.

    Raises:
        InvalidRequestError: The expression does not fit the partitions.
    """
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        return _multi_predicate(expression, schema, partitions, keys)
    if not isinstance(expression, str):
        raise InvalidRequestError(
            f"partition_expr {dict(expression)!r} is a mapping, and the partitions have one "
            "dimension; give one column or expression"
        )
    values = parse_expression(expression, schema)
    if not keys:
        return Always(False)
    if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return _windows_predicate(values, partitions, keys)
    return _any_key(values, keys)


def _multi_predicate(
    expression: str | Mapping[str, str],
    schema: StructType,
    partitions: dg.MultiPartitionsDefinition,
    keys: Sequence[str],
) -> Predicate:
    """The predicate for partitions of several dimensions.

    First keys with the same set of last keys share one condition.
    """
    dimensions = {each.name: each.partitions_def for each in partitions.partitions_defs}
    if isinstance(expression, str) or set(expression) != set(dimensions):
        shown = expression if isinstance(expression, str) else dict(expression)
        wanted = ", ".join(f"{name!r}: ..." for name in dimensions)
        raise InvalidRequestError(
            f"partition_expr {shown!r} does not say which column holds which dimension of the "
            f"partitions; give {{{wanted}}}"
        )
    first, last = dimensions
    lasts_by_first: dict[str, list[str]] = {}
    for key in keys:
        by_dimension = partitions.get_partition_key_from_str(key).keys_by_dimension
        lasts_by_first.setdefault(by_dimension[first], []).append(by_dimension[last])
    firsts_by_lasts: dict[frozenset[str], list[str]] = {}
    for key, lasts in lasts_by_first.items():
        firsts_by_lasts.setdefault(frozenset(lasts), []).append(key)

    def dimension_predicate(name: str, keys: Sequence[str]) -> Predicate:
        return partition_predicate(expression[name], schema, dimensions[name], keys)

    return _any_of(
        And((dimension_predicate(first, firsts), dimension_predicate(last, sorted(lasts))))
        for lasts, firsts in firsts_by_lasts.items()
    )


def _windows_predicate(
    values: PartitionExpression,
    partitions: dg.TimeWindowPartitionsDefinition,
    keys: Sequence[str],
) -> Predicate:
    if values.type_name == "string" or values.is_integer:
        return _formatted_predicate(values, partitions, keys)
    windows = _join_windows([_window(partitions, key) for key in keys])
    return _any_of(
        _range_predicate(values, tuple(_literal(values, bound) for bound in window))
        for window in windows
    )


def _formatted_predicate(
    values: PartitionExpression,
    partitions: dg.TimeWindowPartitionsDefinition,
    keys: Sequence[str],
) -> Predicate:
    """The predicate for time windows in a column of strings or numbers."""
    is_sorted = "".join(re.findall(r"%(\w)", partitions.fmt)) in _SORTED_FORMATS
    ranges: list[Range] = []
    others: list[str] = []
    for key in keys:
        texts = [bound.strftime(partitions.fmt) for bound in _window(partitions, key)]
        bounds: Sequence[Any] = texts
        if values.is_integer:
            bounds = [_number(values, text) for text in texts]
        # When daylight saving ends, one hour occurs twice and the format cannot distinguish them.
        if is_sorted and texts[0] == key and bounds[0] < bounds[1]:
            ranges.append((bounds[0], bounds[1]))
        else:
            others.append(key)
    found = [_range_predicate(values, each) for each in _join_ranges(ranges)]
    return _any_of([*found, *([_any_key(values, others)] if others else [])])


def _any_key(values: PartitionExpression, keys: Sequence[str]) -> Predicate:
    """The predicate for rows whose value is one of the keys."""
    if values.first is None:
        return Column(values.path).isin(list(keys))
    ranges = [_range_of(values, _parse_key(values, key)) for key in keys]
    return _any_of(_range_predicate(values, each) for each in _join_ranges(ranges))


def _parse_key(values: PartitionExpression, key: str) -> Any:
    try:
        match values.type_name:
            case "date":
                return date.fromisoformat(key)
            case "timestamp":
                moment = datetime.fromisoformat(key)
                return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            case "timestamp_ntz":
                return datetime.fromisoformat(key)
    except ValueError as error:
        raise InvalidRequestError(
            f"partition {key!r} is not a {values.type_name}, but partition_expr {values.text!r} "
            f"is; rename the partition, or choose a partition_expr with such values"
        ) from error
    return _number(values, key)


def _number(values: PartitionExpression, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text):
        digits = "%Y%m%d" if values.first is None else "%Y"
        raise InvalidRequestError(
            f"partition {text!r} is not a whole number, but partition_expr {values.text!r} is; "
            f"give the partitions a format of digits (fmt='{digits}'), or choose an expression of "
            "a time"
        )
    return int(text)


def _range_of(values: PartitionExpression, value: Any) -> Range:
    try:
        return value, next_value(value)
    except OverflowError as error:
        raise _outside_of_years(values, value) from error


def _outside_of_years(values: PartitionExpression, value: Any) -> InvalidRequestError:
    return InvalidRequestError(
        f"partition_expr {values.text!r} cannot select the value {value}, because its range begins "
        "or ends outside of the years 1 to 9999; rename the partition, or choose another "
        "partition_expr"
    )


def _range_predicate(values: PartitionExpression, bounds: Sequence[Any]) -> Predicate:
    try:
        start, end = bounds if values.first is None else map(values.first, bounds)
    except (OverflowError, ValueError) as error:
        raise _outside_of_years(values, bounds[0]) from error
    column = Column(values.path)
    predicate: Predicate = (column >= start) & (column < end)
    return predicate


def _any_of(predicates: Iterable[Predicate]) -> Predicate:
    found = list(predicates)
    return reduce(_or, found) if found else Always(False)


def _or(left: Predicate, right: Predicate) -> Predicate:
    return left | right


def _window(partitions: dg.TimeWindowPartitionsDefinition, key: str) -> Window:
    window = partitions.time_window_for_partition_key(key)
    return window.start, window.end


def _join_windows(windows: Sequence[Window]) -> list[Window]:
    joined: list[Window] = []
    for start, end in sorted(windows, key=lambda window: window[0].timestamp()):
        # Timestamps, because aware times of one zone compare by wall clock, and one hour occurs
        # twice when daylight saving ends.
        if joined and start.timestamp() <= joined[-1][1].timestamp():
            joined[-1] = (joined[-1][0], max(end, joined[-1][1], key=datetime.timestamp))
        else:
            joined.append((start, end))
    return joined


def _join_ranges(ranges: Sequence[Range]) -> list[Range]:
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _validate_occurs_once(values: PartitionExpression, bound: datetime) -> None:
    """Reject a bound inside an hour that occurs twice, for local times without a zone.

    The start of the first occurrence is accepted: the rows of both occurrences are later.

    Raises:
        InvalidRequestError: Local times cannot express the bound.
    """
    if _is_repeated(bound) and (bound.fold or _is_repeated(bound - timedelta(microseconds=1))):
        raise InvalidRequestError(
            f"partition_expr {values.text!r} has local times without a zone, and the partitions "
            f"begin or end at {bound}, in an hour that occurs twice when daylight saving ends; "
            "materialize the partitions of both hours in one run, or use a column of type timestamp"
        )


def _is_repeated(moment: datetime) -> bool:
    return moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset()


def _literal(values: PartitionExpression, bound: datetime) -> Any:
    match values.type_name:
        case "timestamp":
            return bound.astimezone(UTC)
        case "timestamp_ntz":
            _validate_occurs_once(values, bound)
            return bound.replace(tzinfo=None)
        case "date" if bound.time() == time():
            return bound.date()
    raise InvalidRequestError(
        f"partition_expr {values.text!r} of type {values.type_name or 'a nested type'} cannot hold "
        f"windows such as {bound}; use a date (whole days), a timestamp, a string, a whole number, "
        "or an expression of one of these"
    )
