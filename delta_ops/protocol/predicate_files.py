"""A predicate over files: whether some row of a file can match, whether every row must.

Partition values and statistics leave a set of outcomes that holds those of all rows; it may be too
large, never too small. So `might_match` never misses a row, and `must_match` never claims one too
many. The operands of `&` and `|` are judged apart, except for the NaN that a maximum may hide (see
`file_bounds`): whether a column's value is one is decided for the whole predicate at once, without
which no range of a floating-point column would leave out a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import chain, combinations
from math import isnan, nan
from typing import Any, NamedTuple

from delta_ops.protocol.file_bounds import is_exact, lower_bound, null_count, upper_bound
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
from delta_ops.protocol.predicate_resolution import ensure_resolved, resolved_type
from delta_ops.protocol.schema import DOUBLE, FLOAT, DataType, StructType
from delta_ops.protocol.stats import ColumnPath, FileStats

_NO_STATS = FileStats()
_MAX_NAN_COLUMNS = 4
"""Each doubles the work; a predicate with more is judged as if every row could be NaN."""


def might_match(
    predicate: Predicate,
    *,
    partition_values: Mapping[str, Any],
    stats: FileStats | None,
    schema: StructType,
) -> bool:
    """False only if for no row of the file the predicate is true.

    Args:
        predicate: As `resolve` returns it, or not yet resolved, which takes longer.
        partition_values: As `partition_values.parse` returns them, by the column's name.
        stats: None: nothing is known of the other columns.
        schema: The table's columns.

    Raises:
        InvalidRequestError: As `resolve` does.
    """
    facts = _Facts(partition_values, stats or _NO_STATS, exact_only=False)
    return _outcomes(ensure_resolved(predicate, schema), facts).can_be_true


def must_match(
    predicate: Predicate,
    *,
    partition_values: Mapping[str, Any],
    stats: FileStats | None,
    schema: StructType,
) -> bool:
    """True only if for every row of the file the predicate is true.

    Bounds count only where they are values of the file's rows, not rounded or cut ones: who removes
    a file without reading it must not depend on how its writer rounds.

    Args and errors are those of `might_match`.
    """
    usable = stats if stats is not None and stats.tight_bounds else _NO_STATS
    facts = _Facts(partition_values, usable, exact_only=True)
    outcomes = _outcomes(ensure_resolved(predicate, schema), facts)
    return outcomes == _Outcomes(True, False, False)


def constant_outcomes(leaf: Leaf, value: Any) -> tuple[bool, bool, bool]:
    """Whether a leaf can be true, false or null where its column has the same value in all rows.

    Args:
        leaf: Of a resolved predicate.
        value: None is null.
    """
    return _of_domain(leaf, _constant(value))


class _Outcomes(NamedTuple):
    """What a predicate can come to for the rows of a file."""

    can_be_true: bool
    can_be_false: bool
    can_be_null: bool


class _Domain(NamedTuple):
    """What a column's values can be in a file; bounds are sort keys, None is unbounded."""

    has_nulls: bool
    has_values: bool
    low: Any
    high: Any


class _Facts(NamedTuple):
    """All that is known of a file."""

    partition_values: Mapping[str, Any]
    stats: FileStats
    exact_only: bool
    nan_columns: frozenset[ColumnPath] | None = None
    """Columns whose value is taken to be NaN, where in the others it is not; None: any may be."""


def _outcomes(predicate: Predicate, facts: _Facts) -> _Outcomes:
    """Over all ways in which values can be NaN."""
    paths = _float_columns(predicate, facts)
    if len(paths) > _MAX_NAN_COLUMNS:
        return _evaluate(predicate, facts)
    subsets = chain.from_iterable(combinations(paths, n) for n in range(len(paths) + 1))
    cases = [_evaluate(predicate, facts._replace(nan_columns=frozenset(s))) for s in subsets]
    return _Outcomes(*map(any, zip(*cases, strict=True)))


def _float_columns(predicate: Predicate, facts: _Facts) -> list[ColumnPath]:
    """The columns that a NaN may hide in, each once."""
    found = {
        leaf.column: None
        for leaf in leaves_of(predicate)
        if resolved_type(leaf) in (FLOAT, DOUBLE) and leaf.column[0] not in facts.partition_values
    }
    return list(found)


def _evaluate(predicate: Predicate, facts: _Facts) -> _Outcomes:
    match predicate:
        case And(operands):
            return reduce(_and, (_evaluate(each, facts) for each in operands))
        case Or(operands):
            return _not(reduce(_and, (_not(_evaluate(each, facts)) for each in operands)))
        case Not(operand):
            return _not(_evaluate(operand, facts))
        case Always(value):
            return _Outcomes(value, not value, False)
    return _of_domain(predicate, _domain(predicate, facts))


def _of_domain(leaf: Leaf, domain: _Domain) -> _Outcomes:
    match leaf:
        case Comparison(_, operator, value):
            return _compare(domain, operator, _sort_key(value))
        case In(_, values):
            return _is_in(domain, values)
        case IsNull():
            return _Outcomes(domain.has_nulls, domain.has_values, False)


def _and(a: _Outcomes, b: _Outcomes) -> _Outcomes:
    return _Outcomes(
        a.can_be_true and b.can_be_true,
        a.can_be_false or b.can_be_false,
        (a.can_be_null and (b.can_be_null or b.can_be_true)) or (a.can_be_true and b.can_be_null),
    )


def _not(a: _Outcomes) -> _Outcomes:
    return _Outcomes(a.can_be_false, a.can_be_true, a.can_be_null)


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
            holds = (low is None or low <= key) and (high is None or key <= high)
            fails = low is None or high is None or not low == key == high
        case "<":
            holds = low is None or low < key
            fails = high is None or high >= key
        case "<=":
            holds = low is None or low <= key
            fails = high is None or high > key
    return _Outcomes(domain.has_values and holds, domain.has_values and fails, domain.has_nulls)


def _is_in(domain: _Domain, values: tuple[Any, ...]) -> _Outcomes:
    cases = [_compare(domain, "==", _sort_key(v)) for v in values if v is not None]
    holds = any(case.can_be_true for case in cases)
    fails = all(case.can_be_false for case in cases)
    if None in values:
        return _Outcomes(holds, False, domain.has_nulls or fails)
    return _Outcomes(holds, fails, domain.has_nulls)


def _domain(leaf: Leaf, facts: _Facts) -> _Domain:
    path = leaf.column
    if path[0] in facts.partition_values:
        return _constant(facts.partition_values[path[0]])
    nulls, rows = null_count(facts.stats, path), facts.stats.num_records
    has_values = nulls is None or nulls != rows
    if facts.nan_columns is not None and path in facts.nan_columns:
        return _constant(nan)._replace(has_values=has_values)
    low, high = _range(path, resolved_type(leaf), facts)
    return _Domain(has_nulls=nulls != 0, has_values=has_values, low=low, high=high)


def _constant(value: Any) -> _Domain:
    key = None if value is None else _sort_key(value)
    return _Domain(has_nulls=value is None, has_values=value is not None, low=key, high=key)


def _range(path: ColumnPath, data_type: DataType, facts: _Facts) -> tuple[Any, Any]:
    low = lower_bound(facts.stats, path, data_type)
    high = upper_bound(facts.stats, path, data_type)
    if facts.exact_only and not (is_exact(low, data_type) and is_exact(high, data_type)):
        return None, None
    if data_type in (FLOAT, DOUBLE) and facts.nan_columns is None:
        high = None
    return (None if low is None else _sort_key(low), None if high is None else _sort_key(high))


def _sort_key(value: Any) -> Any:
    """What orders values of one type as Spark does."""
    if isinstance(value, float):
        return (True, 0.0) if isnan(value) else (False, value)
    return value
