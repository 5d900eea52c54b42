"""Merge keys: the columns whose equality matches a target row with a source row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.dml.merge_source import Source, join_chunks, normalize_key, rows_of_source
from delta_ops.arrow.expressions.evaluation import evaluate
from delta_ops.errors import InvalidRequestError
from delta_ops.log import KeysOf
from delta_ops.planning.key_ranges import cover_keys
from delta_ops.planning.merge_columns import (
    SOURCE,
    MergeColumns,
    SplitCondition,
    implied_on_target,
)
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, numpy_of, scalar
from delta_ops.protocol.expression.nodes import Column
from delta_ops.protocol.expression.resolution import Found, locate, resolve_expression
from delta_ops.protocol.predicate import TRUE, IsNull, Predicate, all_of
from delta_ops.protocol.schema import ColumnPath, StructType, collation, find_field
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.values.literals import is_comparable


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeKeys:
    """The keys of both sides, in the types of the target."""

    paths: Sequence[ColumnPath]
    """Columns or struct fields of the target."""
    pads: Sequence[Callable[[Any], Any]]
    """Convert stored keys to the values that readers see: CHAR keys are padded."""
    table: pa.Table
    """Each distinct key of the source, as columns `key0`, `key1` and so on, with its number as
    `key`. Sorted, nulls last."""
    rows: np.ndarray
    """Numbers of the source's rows, ordered by key."""
    bounds: np.ndarray
    """Start of each key's rows in `rows`, and the end of the last key's rows."""
    covering: Predicate
    """True for every row of the target that can match a source row."""
    sought: Sequence[KeysOf]
    """The values of each key that can match, for inverted indexes."""

    def near(self, values: Any) -> pa.Table:
        """Return the rows of `table` whose first key is in the range of these values.

        A hash table of all keys for each file would cost more than reading the file.

        Args:
            values: First keys of the target.
        """
        if pt.is_floating(values.type) or pt.is_boolean(values.type):
            return self.table  # NaN equals NaN, but has no place in the order
        bounds = pc.min_max(values)
        first = self.table["key0"]
        start = pc.sum(pc.less(first, bounds["min"])).as_py() or 0
        end = pc.sum(pc.less_equal(first, bounds["max"])).as_py() or 0
        return self.table.slice(start, end - start)

    def times(self, keys: np.ndarray) -> np.ndarray:
        """Return the number of source rows for each of these key numbers."""
        times: np.ndarray = self.bounds[keys + 1] - self.bounds[keys]
        return times

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the source rows with these keys, grouped by key."""
        starts, times = self.bounds[keys], self.times(keys)
        before = times.cumsum() - times
        rows: np.ndarray = self.rows[np.repeat(starts - before, times) + np.arange(times.sum())]
        return rows


def load_keys(
    condition: SplitCondition,
    columns: MergeColumns,
    source: Source,
    table: str,
) -> MergeKeys:
    """Evaluate the keys of the source.

    Args:
        condition: The condition for a match.
        columns: The columns of both sides.
        source: The rows of the source.
        table: For messages.

    Raises:
        InvalidRequestError: The types of keys are not comparable, or a key of the source cannot be
            compared exactly with the target's.
    """
    find = columns.finder()
    rows = rows_of_source(source, pa.arange(0, len(source)), SOURCE)
    pads: list[Callable[[Any], Any]] = []
    paths, values, covers = [], [], []
    sought: list[KeysOf] = []
    for column, value in condition.keys:
        assert isinstance(column, Column)
        found = locate(find(column.path).path[1:], columns.target)
        pad = _plan_padding(found, columns.target)
        evaluated = evaluate(resolve_expression(value, find), rows)
        fitted = _fit_key(evaluated, found, table)
        cover = cover_keys([found.path], [fitted])
        if not (condition.is_null_safe and evaluated.null_count):
            sought.append(KeysOf(column=found.path, data_type=found.data_type, values=fitted))
        if condition.is_null_safe:
            is_null = evaluated.is_null()
            paths += [found.path, found.path]
            pads += [partial(_fill, pad), _mark_nulls]
            # A number that the target's type lacks stays null, and matches nothing.
            filled = pc.if_else(is_null, _some_value(fitted.type), fitted)
            values += [filled, is_null.cast(pa.int8())]
            needs_nulls = cover is not TRUE and pc.any(is_null).as_py()
            covers.append(cover | IsNull(found.path) if needs_nulls else cover)
        else:
            paths.append(found.path)
            pads.append(pad)
            values.append(fitted)
            covers.append(cover)
    covers.append(implied_on_target(condition.residual, columns))
    names = [f"key{i}" for i in range(len(values))]
    normalized = [*map(normalize_key, values), pa.arange(0, len(source))]
    ordered = pa.table(normalized, names=[*names, "row"]).sort_by([(n, "ascending") for n in names])
    of_rows = [join_chunks(ordered[name]) for name in names]
    covering = all_of(each for each in covers if each is not TRUE)
    starts = _find_starts(of_rows)
    once = (
        ordered.select(names).take(array_of(starts)).append_column("key", pa.arange(0, len(starts)))
    )
    return MergeKeys(
        paths=paths,
        pads=pads,
        table=once,
        rows=numpy_of(ordered["row"]),
        bounds=np.append(starts, len(source)),
        covering=covering,
        sought=sought,
    )


def _fill(pad: Callable[[Any], Any], values: Any) -> Any:
    """Replace nulls in stored keys by a fixed value for a null-safe equality; see `_mark_nulls`."""
    padded = pad(values)
    return pc.if_else(padded.is_null(), _some_value(padded.type), padded)


def _mark_nulls(values: Any) -> Any:
    return values.is_null().cast(pa.int8())


def _some_value(data_type: pa.DataType) -> pa.Scalar:
    """Return a fixed value of the type; it replaces null, and a null mark distinguishes the two."""
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return scalar("", pa.string()).cast(data_type)
    if pt.is_decimal(data_type):
        return scalar(Decimal(0), data_type)
    if pt.is_date(data_type):
        return scalar(0, pa.int32()).cast(data_type)
    return scalar(0, pa.int64()).cast(data_type)


def _find_starts(columns: Sequence[pa.Array]) -> np.ndarray:
    """Return where each key starts among sorted keys; a key with a null equals no other key."""
    num_rows = len(columns[0])
    is_start = np.zeros(num_rows, dtype=bool)
    is_start[:1] = True
    for column in columns:
        before, after = column.slice(0, max(num_rows - 1, 0)), column.slice(1)
        is_same = pc.equal(before, after)
        if pt.is_floating(column.type):
            is_same = pc.or_(is_same, pc.and_(pc.is_nan(before), pc.is_nan(after)))
        is_start[1:] |= ~numpy_of(pc.fill_null(is_same, FALSE_SCALAR))
    return np.flatnonzero(is_start)


def _plan_padding(found: Found, target: StructType) -> Callable[[Any], Any]:
    """Plan how to convert stored keys to the values that readers see."""
    path, column = found.path, find_field(target, found.path[0])
    if not is_comparable(found.data_type) or (len(path) == 1 and collation(column) is not None):
        raise InvalidRequestError(
            f"Column {'.'.join(path)} of type {found.data_type.name} cannot be a merge key; merge "
            "by other columns"
        )
    length = char_length(path, column)
    return (lambda values: values) if length is None else lambda v: pc.utf8_rpad(v, length)


def _fit_key(values: pa.Array, found: Found, table: str) -> pa.Array:
    """Convert keys to the target's type; numbers outside the type become null and match nothing.

    This does not apply to exact source numbers and a floating-point target: engines treat such
    numbers as equal to the nearest floating-point number.
    """
    name = ".".join(found.path)
    wanted = pa.field(name, arrow_type_from_type(found.data_type))
    fit = plan_fit(pa.schema([(name, values.type)]), pa.schema([wanted]), table)
    is_exact = _is_number(values.type) and (
        pt.is_floating(values.type) or not pt.is_floating(wanted.type)
    )

    def fit_all(some: pa.Array) -> list[pa.Array]:
        try:
            return [each.column(0) for each in fit(pa.record_batch([some], names=[name]))]
        except InvalidRequestError:
            if not is_exact:
                raise
            half = len(some) // 2
            if not half:
                return [pa.nulls(len(some), wanted.type)]
            return [*fit_all(some.slice(0, half)), *fit_all(some.slice(half))]

    return pa.concat_arrays(fit_all(values))


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_decimal(data_type))
