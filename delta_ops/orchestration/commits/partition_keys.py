"""Partition keys: maps column values of a table to partition keys of an asset.

This is the inverse of `partitions`, and uses it: guess a key from a value, and accept the key if
its predicate matches the value. Writes and the search for changed partitions therefore always
agree, also on time zones, repeated hours at the end of daylight saving, and formats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.partition_expression import parse_expression
from delta_ops.orchestration.io_manager.partitions import partition_predicate
from delta_ops.protocol.predicate import to_arrow
from delta_ops.protocol.schema import StructType

_TRIED_KEYS = 1_000
"""With at most this many keys, each key is tried if the value's text is not a key."""
_MAX_OUTSIDE = 100
"""Allowed number of values without a matching window; with more values the search gives up."""
_ROW = "row of values"
_PER_SECOND = (1, 1_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """Partitions of one dimension, and their partition expression."""

    partitions: dg.PartitionsDefinition[Any]
    expression: str
    """An expression of `partition_expression`."""
    known: Collection[str]
    """The existing keys; empty for time windows, whose keys are computed."""

    @property
    def is_tried_whole(self) -> bool:
        """Whether a value that is not itself a key is compared with every key."""
        is_window = isinstance(self.partitions, dg.TimeWindowPartitionsDefinition)
        return not is_window and len(self.known) <= _TRIED_KEYS

    def has(self, key: str) -> bool:
        """Whether Dagster lists a partition with this key."""
        if isinstance(self.partitions, dg.TimeWindowPartitionsDefinition):
            return compat.has_window_key(self.partitions, key)
        return key in self.known

    def will_have(self, key: str) -> bool:
        """Whether the key is a time window that Dagster will list after it has ended."""
        windows = self.partitions
        if not isinstance(windows, dg.TimeWindowPartitionsDefinition) or self.has(key):
            return False
        try:
            start = compat.window_start(windows, key).timestamp()
        except ValueError:  # a key of other partitions
            return False
        ends = windows.end
        return start >= windows.start.timestamp() and (ends is None or start < ends.timestamp())


def dimension_of(
    partitions: dg.PartitionsDefinition[Any], expression: str, instance: dg.DagsterInstance
) -> Dimension:
    """Make a dimension with its keys on an instance."""
    known: Collection[str] = ()
    if isinstance(partitions, dg.DynamicPartitionsDefinition) and partitions.name:
        known = instance.get_dynamic_partitions(partitions.name)
    elif not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        known = partitions.get_partition_keys()
    return Dimension(partitions=partitions, expression=expression, known=frozenset(known))


def keys_of_values(values: pa.Array, dimension: Dimension, schema: StructType) -> list[str | None]:
    """The partition key for each value of the expression's column; None for a value without a key.

    Dagster may not list the key of a time window yet.

    Raises:
        InvalidRequestError: The expression does not fit the schema, or too many values look like
            keys but have no partition.
    """
    path = parse_expression(dimension.expression, schema).path
    known_values = values.to_pylist()
    keys: list[str | None] = [None] * len(values)
    rows = pa.table({path[0]: _nest(path[1:], values), _ROW: pa.array(range(len(values)))})
    rows = rows.filter(pa.array([value is not None for value in known_values], pa.bool_()))
    num_outside = 0
    for first, value in enumerate(known_values):
        if value is None or keys[first] is not None:
            continue
        is_tried = False
        for key, of_key in _matches(rows, value, dimension, schema):
            is_tried = True
            for row in of_key:
                keys[row] = key
            rows = rows.filter(pc.invert(pc.is_in(rows[_ROW], pa.array(of_key, pa.int64()))))
            if keys[first] is not None:
                break
        else:
            if dimension.is_tried_whole:
                return keys  # every key was tried on all rows without a key
            num_outside += is_tried
            if num_outside > _MAX_OUTSIDE:
                raise InvalidRequestError(
                    f"more than {_MAX_OUTSIDE} values of {dimension.expression} have no "
                    "partition, so the other values were not checked"
                )
    return keys


def _matches(
    rows: pa.Table, value: Any, dimension: Dimension, schema: StructType
) -> Iterator[tuple[str, set[int]]]:
    """Possible keys of a value, each with its matching rows."""
    for key in _guesses(value, dimension):
        try:
            predicate = partition_predicate(
                dimension.expression, schema, dimension.partitions, [key]
            )
            condition = to_arrow(predicate, schema)
        except InvalidRequestError:  # no value of this column can have the key
            continue
        yield key, set(rows.filter(condition)[_ROW].to_pylist())


def _nest(path: tuple[str, ...], values: pa.Array) -> pa.Array:
    for name in reversed(path):
        values = pa.StructArray.from_arrays([values], names=[name])
    return values


def _guesses(value: Any, dimension: Dimension) -> Iterator[str]:
    if isinstance(dimension.partitions, dg.TimeWindowPartitionsDefinition):
        yield from _window_guesses(value, dimension.partitions)
        return
    text = str(value)
    if text in dimension.known:
        yield text
    if dimension.is_tried_whole:
        yield from dimension.known


def _window_guesses(value: Any, windows: dg.TimeWindowPartitionsDefinition) -> Iterator[str]:
    tried: set[str] = set()
    for instant in _instants(value, windows.fmt, ZoneInfo(windows.timezone)):
        for rounded in _round_down(instant):
            with suppress(ValueError, OverflowError, OSError):
                key = compat.window_key(windows, rounded.timestamp())
                if key not in tried:
                    tried.add(key)
                    yield key


def _instants(value: Any, fmt: str, zone: tzinfo) -> Iterator[datetime]:
    """The possible instants of a value."""
    match value:
        case datetime() if value.tzinfo is not None:
            yield value
            yield value.astimezone(UTC).replace(tzinfo=zone)  # its date in UTC
        case datetime():
            yield value.replace(tzinfo=zone)
            yield value.replace(tzinfo=zone, fold=1)
        case date():
            yield datetime.combine(value, time(), zone)
        case int():
            yield from _parse(str(value), fmt, zone)
            for ticks in _PER_SECOND:
                with suppress(ValueError, OverflowError, OSError):
                    yield datetime.fromtimestamp(value / ticks, UTC)
        case str():
            yield from _parse(value, fmt, zone)
            with suppress(ValueError):
                yield from _instants(datetime.fromisoformat(value), fmt, zone)


def _parse(text: str, fmt: str, zone: tzinfo) -> Iterator[datetime]:
    width = len(datetime(2000, 12, 28, 12, 30, 30).strftime(fmt))
    for part in (text, text[:width]):
        with suppress(ValueError):
            parsed = datetime.strptime(part, fmt)
            yield parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)


def _round_down(instant: datetime) -> Iterator[datetime]:
    """An instant, and the start of its hour, day, month and year in UTC."""
    yield instant
    hour = instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    yield from (hour, day, day.replace(day=1), day.replace(month=1, day=1))
