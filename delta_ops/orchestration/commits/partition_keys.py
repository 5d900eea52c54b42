"""Partition keys: to which partitions of an asset the values of a table's columns belong.

The way back of `partitions`, and by it: a key is guessed from a value, and is the value's if the
predicate of that key is true of it. So whatever writes a partition and whatever is found to have
touched it agree, also on zones, on hours that a clock shows twice, and on formats.
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
"""Keys that are tried one after the other where a value's text is none of them."""
_MAX_OUTSIDE = 100
"""Values for which windows are tried in vain; with one more, nobody knows of the rest."""
_ROW = "row of values"
_PER_SECOND = (1, 1_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """Partitions of one dimension, and what says which rows belong to them."""

    partitions: dg.PartitionsDefinition[Any]
    expression: str
    """As `partition_expression` takes it."""
    known: Collection[str]
    """The keys there are; none where they are windows of time, which follow from each other."""

    @property
    def is_tried_whole(self) -> bool:
        """Whether each of its keys is tried for a value whose text is none of them."""
        is_window = isinstance(self.partitions, dg.TimeWindowPartitionsDefinition)
        return not is_window and len(self.known) <= _TRIED_KEYS

    def has(self, key: str) -> bool:
        """Whether Dagster has a partition of this key."""
        if isinstance(self.partitions, dg.TimeWindowPartitionsDefinition):
            return compat.has_window_key(self.partitions, key)
        return key in self.known

    def will_have(self, key: str) -> bool:
        """Whether it is a window that Dagster lists once it has ended."""
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
    """A dimension with the keys that it has on an instance."""
    known: Collection[str] = ()
    if isinstance(partitions, dg.DynamicPartitionsDefinition) and partitions.name:
        known = instance.get_dynamic_partitions(partitions.name)
    elif not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        known = partitions.get_partition_keys()
    return Dimension(partitions=partitions, expression=expression, known=frozenset(known))


def keys_of_values(values: pa.Array, dimension: Dimension, schema: StructType) -> list[str | None]:
    """For each value of the expression's column the key whose partition it belongs to.

    A key of a window need not be one that Dagster has. None: there is no key for the value.

    Raises:
        InvalidRequestError: The expression does not fit the schema, or too many values look like
            keys and are none.
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
                return keys  # each key was tried on all the rows that had none
            num_outside += is_tried
            if num_outside > _MAX_OUTSIDE:
                raise InvalidRequestError(
                    f"more than {_MAX_OUTSIDE} values of {dimension.expression} have no partition, "
                    "so the others were not looked at"
                )
    return keys


def _matches(
    rows: pa.Table, value: Any, dimension: Dimension, schema: StructType
) -> Iterator[tuple[str, set[int]]]:
    """Keys that the value may have, each with the rows that belong to it."""
    for key in _guesses(value, dimension):
        try:
            predicate = partition_predicate(
                dimension.expression, schema, dimension.partitions, [key]
            )
            condition = to_arrow(predicate, schema)
        except InvalidRequestError:  # a key that no value of this column can have
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
    """The instants that a value may stand for."""
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
    """An instant, and the beginnings of the hour, day, month and year that it is in, in UTC."""
    yield instant
    hour = instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    yield from (hour, day, day.replace(day=1), day.replace(month=1, day=1))
