"""A predicate over very many files: `predicate_files.might_match`, for all of them at once.

The conclusions are the same. Files that only the slow way can judge (decimals, booleans, statistics
that Arrow does not read as the schema's types) are kept, and `is_final` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import chain, combinations
from math import isnan, nan
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.json_lines import read_json_lines
from delta_ops.protocol.predicate_files import constant_outcomes
from delta_ops.protocol.predicate_nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Leaf,
    Not,
    Operator,
    Or,
    Predicate,
    leaves_of,
)
from delta_ops.protocol.predicate_resolution import resolved_type
from delta_ops.protocol.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    StructType,
)
from delta_ops.protocol.stats import ColumnPath

_JSON_TYPES: Mapping[DataType, pa.DataType] = {
    **dict.fromkeys(INTEGER_RANGES, pa.int64()),
    **dict.fromkeys((FLOAT, DOUBLE), pa.float64()),
    **dict.fromkeys((STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ), pa.string()),
}
"""As what a bound stands in the JSON of statistics."""
_CUT_US = pa.scalar(1000, pa.duration("us"))
_REPLACEMENT, _UNICODE_MAX = "\ufffd", "\U0010ffff"
_MAX_NAN_COLUMNS = 4


class PartitionColumn(NamedTuple):
    """The values of a partition column, by file."""

    codes: pa.Array
    """Integers, without nulls."""
    values: Sequence[Any]
    """By code, as `partition_values.parse` returns them."""


class Verdict(NamedTuple):
    """Which files stay."""

    keep: pa.BooleanArray
    is_final: bool
    """False: of those that stay, the slow way can leave out more."""


class _Outcomes(NamedTuple):
    """What a predicate can come to for the rows of each file."""

    can_be_true: Any
    can_be_false: Any
    can_be_null: Any


class _Domain(NamedTuple):
    """What a column's values can be in each file; a null bound is none."""

    has_nulls: Any
    has_values: Any
    low: Any
    high: Any


class _Files(NamedTuple):
    """All that is known of the files."""

    num_files: int
    partitions: Mapping[str, PartitionColumn]
    stats: pa.RecordBatch
    nan_columns: frozenset[ColumnPath] = frozenset()


def might_match_each(
    predicate: Predicate, partitions: Mapping[str, PartitionColumn], stats: pa.Array
) -> Verdict:
    """Which files can hold a row for which the predicate is true.

    Args:
        predicate: As `resolve` returns it.
        partitions: Of the predicate's columns those that are partition columns.
        stats: Statistics as JSON, by file; of no matter if all columns are partition columns.
    """
    if not len(stats):
        return Verdict(keep=pa.array([], pa.bool_()), is_final=True)
    looked_at = [leaf for leaf in leaves_of(predicate) if leaf.column[0] not in partitions]
    fast = [leaf for leaf in looked_at if _is_fast(leaf)]
    try:
        return _judged(predicate, partitions, stats, looked_at, fast)
    except (pa.ArrowException, ValueError):  # a bound is not what its type demands
        return _judged(predicate, partitions, stats, looked_at, [])


def _judged(
    predicate: Predicate,
    partitions: Mapping[str, PartitionColumn],
    stats: pa.Array,
    looked_at: Sequence[Leaf],
    fast: Sequence[Leaf],
) -> Verdict:
    """The verdict by partitions and by the statistics of the fast leaves."""
    parsed = _parsed(stats, fast)
    files = _Files(len(stats), partitions, parsed)
    floats = list({leaf.column: None for leaf in fast if _is_float(leaf)})
    known = frozenset(leaf.column for leaf in fast)
    if len(floats) > _MAX_NAN_COLUMNS:
        known, floats = known - set(floats), []
    subsets = chain.from_iterable(combinations(floats, n) for n in range(len(floats) + 1))
    cases = [
        _evaluate(predicate, files._replace(nan_columns=frozenset(each)), known) for each in subsets
    ]
    keep = reduce(pc.or_, (case.can_be_true for case in cases))
    is_final = all(leaf.column in known and _is_fast(leaf) for leaf in looked_at)
    return Verdict(keep=keep, is_final=is_final)


def _is_fast(leaf: Leaf) -> bool:
    if isinstance(leaf, IsNull):
        # Of a struct, statistics count the nulls of its fields.
        return not isinstance(resolved_type(leaf), StructType)
    values = [leaf.value] if isinstance(leaf, Comparison) else leaf.values
    has_nan = any(isinstance(each, float) and isnan(each) for each in values)
    return resolved_type(leaf) in _JSON_TYPES and not has_nan


def _is_float(leaf: Leaf) -> bool:
    return resolved_type(leaf) in (FLOAT, DOUBLE) and not isinstance(leaf, IsNull)


def _evaluate(predicate: Predicate, files: _Files, known: frozenset[ColumnPath]) -> _Outcomes:
    match predicate:
        case And(operands):
            return reduce(_and, (_evaluate(each, files, known) for each in operands))
        case Or(operands):
            return _not(reduce(_and, (_not(_evaluate(each, files, known)) for each in operands)))
        case Not(operand):
            return _not(_evaluate(operand, files, known))
        case Always(value):
            return _constant((value, not value, False), files.num_files)
    if predicate.column[0] in files.partitions:
        return _of_partition(predicate, files.partitions[predicate.column[0]])
    if predicate.column not in known or not _is_fast(predicate):
        return _constant((True, True, True), files.num_files)
    return _of_stats(predicate, files)


def _of_partition(leaf: Leaf, column: PartitionColumn) -> _Outcomes:
    by_code = [constant_outcomes(leaf, value) for value in column.values]
    return _Outcomes(
        *(pa.array([each[i] for each in by_code], pa.bool_()).take(column.codes) for i in range(3))
    )


def _of_stats(leaf: Leaf, files: _Files) -> _Outcomes:
    nulls = _at(files.stats, "nullCount", leaf.column)
    has_nulls = pc.fill_null(pc.not_equal(nulls, 0), True)
    has_values = pc.fill_null(pc.not_equal(nulls, files.stats.column("numRecords")), True)
    if isinstance(leaf, IsNull):
        return _Outcomes(
            has_nulls, has_values, _constant((False, False, False), files.num_files)[0]
        )
    if leaf.column in files.nan_columns:
        holds, fails, _ = constant_outcomes(leaf, nan)
        return _Outcomes(pc.and_(has_values, holds), pc.and_(has_values, fails), has_nulls)
    data_type = resolved_type(leaf)
    domain = _Domain(
        has_nulls,
        has_values,
        _lower(_at(files.stats, "minValues", leaf.column), data_type),
        _upper(_at(files.stats, "maxValues", leaf.column), data_type),
    )
    if isinstance(leaf, Comparison):
        return _compare(domain, leaf.operator, _literal(leaf.value, data_type))
    return _is_in(domain, leaf, data_type)


def _is_in(domain: _Domain, leaf: In, data_type: DataType) -> _Outcomes:
    cases = [
        _compare(domain, "==", _literal(each, data_type))
        for each in leaf.values
        if each is not None
    ]
    nothing = pc.and_(domain.has_nulls, False)
    holds = reduce(pc.or_, (case.can_be_true for case in cases), nothing)
    fails = reduce(pc.and_, (case.can_be_false for case in cases), pc.invert(nothing))
    if None in leaf.values:
        return _Outcomes(holds, nothing, pc.or_(domain.has_nulls, fails))
    return _Outcomes(holds, fails, domain.has_nulls)


def _compare(domain: _Domain, operator: Operator, key: Any) -> _Outcomes:
    low, high = domain.low, domain.high
    match operator:
        case "!=":
            return _not(_compare(domain, "==", key))
        case ">=":
            return _not(_compare(domain, "<", key))
        case ">":
            return _not(_compare(domain, "<=", key))
        case "==":
            holds = pc.and_(_unless(pc.greater, low, key), _unless(pc.less, high, key))
            fails = pc.invert(pc.and_(_surely(pc.equal, low, key), _surely(pc.equal, high, key)))
        case "<":
            holds, fails = _unless(pc.greater_equal, low, key), _unless(pc.less, high, key)
        case "<=":
            holds, fails = _unless(pc.greater, low, key), _unless(pc.less_equal, high, key)
    return _Outcomes(
        pc.and_(domain.has_values, holds), pc.and_(domain.has_values, fails), domain.has_nulls
    )


def _surely(compare: Callable[[Any, Any], Any], bound: Any, key: Any) -> Any:
    return pc.fill_null(compare(bound, key), False)


def _unless(compare: Callable[[Any, Any], Any], bound: Any, key: Any) -> Any:
    """Not where the comparison surely holds; a bound that is missing rules out nothing."""
    return pc.invert(_surely(compare, bound, key))


def _and(a: _Outcomes, b: _Outcomes) -> _Outcomes:
    null = pc.or_(
        pc.and_(a.can_be_null, pc.or_(b.can_be_null, b.can_be_true)),
        pc.and_(a.can_be_true, b.can_be_null),
    )
    return _Outcomes(
        pc.and_(a.can_be_true, b.can_be_true), pc.or_(a.can_be_false, b.can_be_false), null
    )


def _not(a: _Outcomes) -> _Outcomes:
    return _Outcomes(a.can_be_false, a.can_be_true, a.can_be_null)


def _constant(values: tuple[bool, bool, bool], count: int) -> _Outcomes:
    return _Outcomes(*(pa.repeat(pa.scalar(value), count) for value in values))


def _parsed(stats: pa.Array, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    """The parts of the statistics that the leaves look at.

    Raises:
        pa.ArrowInvalid, ValueError: Some are not as they should be.
    """
    bounds = {each.column: each for each in leaves if not isinstance(each, IsNull)}
    counts = {each.column: pa.int64() for each in leaves}
    values = {path: _JSON_TYPES[resolved_type(leaf)] for path, leaf in bounds.items()}
    schema = pa.schema(
        [
            ("numRecords", pa.int64()),
            ("minValues", _nested(values)),
            ("maxValues", _nested(values)),
            ("nullCount", _nested(counts)),
        ]
    )
    if not leaves:
        return _one_batch(schema.empty_table())
    # A line for each file: statistics that are spread over several lines are found out by number.
    lines = pc.binary_join(
        pa.ListArray.from_arrays([0, len(stats)], pc.fill_null(stats, "{}")), "\n"
    )
    parsed = read_json_lines(lines[0].as_buffer(), schema, "ignore")
    if len(parsed) != len(stats):
        raise ValueError("statistics that are no single line of JSON")
    return _one_batch(parsed)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(table.to_struct_array().combine_chunks())


def _nested(types: Mapping[ColumnPath, pa.DataType]) -> pa.StructType:
    """The columns, with the fields of structs below them."""
    below: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for path, data_type in types.items():
        below.setdefault(path[0], {})[path[1:]] = data_type
    return pa.struct(
        [(name, inner[()] if () in inner else _nested(inner)) for name, inner in below.items()]
    )


def _at(stats: pa.RecordBatch, part: str, path: ColumnPath) -> Any:
    return pc.struct_field(stats.column(part), list(path))


def _lower(bound: Any, data_type: DataType) -> Any:
    if data_type == FLOAT:
        return bound.cast(pa.float32()).cast(pa.float64())
    if data_type == DATE:
        return bound.cast(pa.date32())
    if data_type == TIMESTAMP:
        return bound.cast(pa.timestamp("us", "UTC"))
    return bound.cast(pa.timestamp("us")) if data_type == TIMESTAMP_NTZ else bound


def _upper(bound: Any, data_type: DataType) -> Any:
    """Loosened as `file_bounds.upper_bound` does."""
    typed = _lower(bound, data_type)
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return pc.add(typed, _CUT_US)
    if data_type == STRING:
        cut = pc.ends_with(typed, _REPLACEMENT)
        above = pc.replace_substring_regex(typed, rf"\??{_REPLACEMENT}$", _UNICODE_MAX)
        return pc.if_else(cut, above, typed)
    return typed


def _literal(value: Any, data_type: DataType) -> Any:
    if data_type in INTEGER_RANGES:
        return pa.scalar(value, pa.int64())
    if data_type in (FLOAT, DOUBLE):
        return pa.scalar(value, pa.float64())
    if data_type == TIMESTAMP:
        return pa.scalar(value, pa.timestamp("us", "UTC"))
    return pa.scalar(value)
