"""What a predicate can come to for the rows of each of many files.

The domains of its columns leave a set of outcomes that holds those of all rows; it may be too
large, never too small. The operands of `&` and `|` are judged apart, except for the NaN that a
maximum may hide (see `file_bounds`): whether a column's value is one is decided for the whole
predicate at once, without which no range of a floating-point column would leave out a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.file_domains import Domain, sort_keys
from delta_ops.protocol.predicate.nodes import (
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
)
from delta_ops.protocol.predicate.resolution import resolved_type
from delta_ops.protocol.stats import ColumnPath

_MAX_NAN_COLUMNS = 4
"""Each doubles the work; a predicate with more is judged as if every row could be NaN."""

Domains = Mapping[ColumnPath, Domain]
"""What is known, by column; a column that is absent is not known."""


class Outcomes(NamedTuple):
    """What a predicate may come to, for each file: arrays of NumPy, which takes a fraction of the
    time that Arrow does, or one truth for all."""

    can_be_true: Any
    can_be_false: Any
    can_be_null: Any


def outcomes(predicate: Predicate, domains: Domains, num_files: int) -> Outcomes:
    """Over all ways in which values can be NaN.

    Args:
        predicate: As `resolve` returns it.
        domains: What is known of each column; what is known of its nulls and values holds for
            every file.
        num_files: What the domains have entries for.
    """
    floats = [path for path, domain in domains.items() if domain.hides_nan]
    if len(floats) > _MAX_NAN_COLUMNS:
        domains = {**domains, **{path: domains[path].drop_high() for path in floats}}
        floats = []
    subsets = chain.from_iterable(combinations(floats, n) for n in range(len(floats) + 1))
    cases = [
        _evaluate(
            predicate,
            {**domains, **{path: domains[path].limit_to_nan() for path in subset}},
        )
        for subset in subsets
    ]
    united = (reduce(np.logical_or, each) for each in zip(*cases, strict=True))
    return Outcomes(*(np.broadcast_to(each, num_files) for each in united))


def _evaluate(predicate: Predicate, domains: Domains) -> Outcomes:
    match predicate:
        case And(operands):
            return reduce(_and, (_evaluate(each, domains) for each in operands))
        case Or(operands):
            denied = (_not(_evaluate(each, domains)) for each in operands)
            return _not(reduce(_and, denied))
        case Not(operand):
            return _not(_evaluate(operand, domains))
        case Always(value):
            return Outcomes(value, not value, False)
    domain = domains.get(predicate.column)
    if domain is None:
        return Outcomes(True, True, True)
    if not isinstance(predicate, IsNull) and predicate.padded_to is not None:
        domain = domain.pad(predicate.padded_to)
    found = _evaluate_leaf(predicate, domain)
    if domain.codes is None:
        return found
    codes, count = domain.codes.to_numpy(), len(domain.has_values)
    return Outcomes(*(np.broadcast_to(each, count)[codes] for each in found))


def _evaluate_leaf(leaf: Leaf, domain: Domain) -> Outcomes:
    match leaf:
        case IsNull():
            return Outcomes(_truths(domain.has_nulls), _truths(domain.has_values), False)
        case Comparison(_, operator, value):
            return _compare(domain, operator, _key(leaf, value))
        case In(_, values):
            keys = sort_keys([v for v in values if v is not None], resolved_type(leaf))
            found = _compare_with_any(domain, keys.take(pc.sort_indices(keys)))
    if None in values:
        return Outcomes(found.can_be_true, False, found.can_be_null | found.can_be_false)
    return found


def _key(leaf: Leaf, value: Any) -> pa.Scalar:
    return sort_keys([value], resolved_type(leaf))[0]


def _compare(domain: Domain, operator: Operator, key: pa.Scalar) -> Outcomes:
    low, high = domain.low, domain.high
    match operator:
        case "!=":
            return _not(_compare(domain, "==", key))
        case ">=":
            return _not(_compare(domain, "<", key))
        case ">":
            return _not(_compare(domain, "<=", key))
        case "==":
            holds = _might_fail(pc.greater, low, key) & _might_fail(pc.less, high, key)
            fails = ~(_holds_surely(pc.equal, low, key) & _holds_surely(pc.equal, high, key))
        case "<":
            holds, fails = _might_fail(pc.greater_equal, low, key), _might_fail(pc.less, high, key)
        case "<=":
            holds, fails = _might_fail(pc.greater, low, key), _might_fail(pc.less_equal, high, key)
    has_values = _truths(domain.has_values)
    return Outcomes(has_values & holds, has_values & fails, _truths(domain.has_nulls))


def _compare_with_any(domain: Domain, keys: pa.Array) -> Outcomes:
    """Whether a value equals one of the keys, of which there may be very many; they ascend."""
    has_values = _truths(domain.has_values)
    below = _num_first(keys, domain.low, pc.less, len(has_values))
    up_to = _num_first(keys, domain.high, pc.less_equal, len(has_values))
    some = below < np.where(_truths(pc.is_valid(domain.high)), up_to, len(keys))
    only = some & _holds_surely(pc.equal, domain.low, domain.high)
    return Outcomes(has_values & some, has_values & ~only, _truths(domain.has_nulls))


def _num_first(keys: pa.Array, bounds: Any, compare: Callable[[Any, Any], Any], count: int) -> Any:
    """How many keys, from the first on, compare so with each of the bounds; none with null."""
    found = np.zeros(count, dtype=np.int64)
    for step in (1 << bit for bit in reversed(range(len(keys).bit_length()))):
        further = found + step
        last = keys.take(pa.array(np.minimum(further, len(keys)) - 1))
        is_so = (further <= len(keys)) & _holds_surely(compare, last, bounds)
        found = np.where(is_so, further, found)
    return found


def _holds_surely(compare: Callable[[Any, Any], Any], bound: Any, key: Any) -> Any:
    return _truths(pc.fill_null(compare(bound, key), False))


def _might_fail(compare: Callable[[Any, Any], Any], bound: Any, key: Any) -> Any:
    """Not where the comparison surely holds; a bound that is missing rules out nothing."""
    return ~_holds_surely(compare, bound, key)


def _truths(values: Any) -> Any:
    """As NumPy has them; those of bounds that are the same for all files are one."""
    return np.bool_(values.as_py()) if isinstance(values, pa.Scalar) else np.asarray(values)


def _and(a: Outcomes, b: Outcomes) -> Outcomes:
    return Outcomes(
        a.can_be_true & b.can_be_true,
        a.can_be_false | b.can_be_false,
        a.can_be_null & (b.can_be_null | b.can_be_true) | a.can_be_true & b.can_be_null,
    )


def _not(a: Outcomes) -> Outcomes:
    return Outcomes(a.can_be_false, a.can_be_true, a.can_be_null)
