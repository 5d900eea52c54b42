"""A predicate over files: whether some row of a file can match, or every row must match.

`might_match` is true for every file with a matching row, and `must_match` only for files whose rows
all match. A file without statistics might match, but need not.

Both follow from the possible outcomes of the predicate for the rows of a file. They include
the outcome of every row, and possibly more. The operands of `&` and `|` are evaluated
independently, with one exception: a maximum may hide NaN (see `file_bounds`). For each column that
may hide NaN, the whole predicate is evaluated twice: for NaN, and for values within the bounds.
Without this, no range on a floating-point column would skip a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from itertools import chain, combinations
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.arrow_values import FALSE_SCALAR, TRUE_SCALAR, scalar
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
    leaves_of,
)
from delta_ops.protocol.predicate.resolution import resolved_type
from delta_ops.protocol.schema import ColumnPath, DataType, StructType
from delta_ops.protocol.stats.file_domains import (
    Domain,
    LeafTypes,
    PartitionColumn,
    domain_of_partitions,
    domains_at_once,
    domains_one_by_one,
    sort_keys,
)

Partitions = Mapping[str, PartitionColumn]
_MAX_NAN_COLUMNS = 4
"""Each column doubles the work; with more columns, any value may be NaN."""

_Domains = Mapping[ColumnPath, Domain]
"""Domains by column; nothing is known of a missing column."""


class Kept(NamedTuple):
    """For each file, whether it may hold a matching row, after each step of data skipping."""

    by_partition_values: pa.BooleanArray
    by_statistics: pa.BooleanArray
    """After both steps."""


def might_match(predicate: Predicate, partitions: Partitions, stats: pa.Array) -> pa.BooleanArray:
    """For each file, false only if the predicate is true for no row.

    Args:
        predicate: Resolved by `resolve`.
        partitions: The partition columns that the predicate names.
        stats: `add.stats` of each file; null: nothing is known of the other columns.
    """
    return might_match_by_step(predicate, partitions, stats).by_statistics


def might_match_by_step(predicate: Predicate, partitions: Partitions, stats: pa.Array) -> Kept:
    """Return `might_match`, and what partition values alone prove; args are the same."""
    domains = _partition_domains(predicate, partitions)
    if domains or not _leaf_types(predicate, domains):
        mask = _outcomes(predicate, domains, len(stats)).can_be_true
    else:
        mask = pa.repeat(TRUE_SCALAR, len(stats))  # no column has a domain yet
    by_partition_values = keep = mask
    # Reading statistics is slow, most of all statistics that Arrow cannot read.
    for read in (domains_at_once, domains_one_by_one):
        unknown = _leaf_types(predicate, domains)
        if not unknown:
            break
        stats = stats.filter(mask)
        domains = {path: domain.filter(mask) for path, domain in domains.items()}
        domains |= read(stats, unknown)
        mask = _outcomes(predicate, domains, len(stats)).can_be_true
        keep = pc.replace_with_mask(keep, keep, mask)
    return Kept(by_partition_values, keep)


def might_match_domains(
    predicate: Predicate, domains: Mapping[ColumnPath, Domain], count: int
) -> pa.BooleanArray:
    """For each entry of the domains, false only if the predicate is true for no row.

    Args:
        predicate: Resolved by `resolve`.
        domains: Domains by column; nothing is known of a missing column.
        count: Number of entries of each domain.
    """
    return _outcomes(predicate, domains, count).can_be_true


def leaf_types(predicate: Predicate) -> LeafTypes:
    """The compared columns that can have a domain, with their types."""
    return _leaf_types(predicate, {})


def count_unbounded(
    predicate: Predicate, partitions: Collection[str], stats: pa.Array
) -> Mapping[ColumnPath, int]:
    """Count the files that have values but no bounds, for each compared column with statistics.

    Args:
        predicate: Resolved by `resolve`.
        partitions: Names of the partition columns.
        stats: `add.stats` of each file.
    """
    types = {
        path: data_type
        for path, data_type in _leaf_types(predicate, {}).items()
        if data_type is not None and path[0] not in partitions
    }
    found = dict(domains_at_once(stats, types))
    missing = {path: data_type for path, data_type in types.items() if path not in found}
    found |= domains_one_by_one(stats, missing)
    return {
        path: pc.and_(
            found[path].has_values, pc.and_(found[path].low.is_null(), found[path].high.is_null())
        ).true_count
        for path in types
    }


def must_match(predicate: Predicate, partitions: Partitions, stats: pa.Array) -> pa.BooleanArray:
    """For each file, true only if the predicate is true for every row.

    Rounded or truncated bounds are ignored: an operation that removes a file without reading it
    must not depend on how its writer rounds.

    Args are the same as for `might_match`.
    """
    domains = _partition_domains(predicate, partitions)
    unknown = _leaf_types(predicate, domains)
    domains |= domains_one_by_one(stats, unknown, exact_only=True)
    found = _outcomes(predicate, domains, len(stats))
    return pc.and_not(found.can_be_true, pc.or_(found.can_be_false, found.can_be_null))


def _partition_domains(predicate: Predicate, partitions: Partitions) -> dict[ColumnPath, Domain]:
    types = {leaf.column: resolved_type(leaf) for leaf in leaves_of(predicate)}
    return {
        path: domain_of_partitions(partitions[path[0]], data_type)
        for path, data_type in types.items()
        if path[0] in partitions
    }


def _leaf_types(predicate: Predicate, known: Mapping[ColumnPath, Domain]) -> LeafTypes:
    """Columns with statistics; a struct has none, only the null counts of its fields."""
    types: dict[ColumnPath, DataType | None] = {}
    for leaf in leaves_of(predicate):
        data_type = resolved_type(leaf)
        if leaf.column in known or isinstance(data_type, StructType):
            continue
        if isinstance(leaf, IsNull):
            types.setdefault(leaf.column, None)
        else:
            types[leaf.column] = data_type
    return types


class _Outcomes(NamedTuple):
    """Possible results of a predicate, for each file."""

    can_be_true: pa.BooleanArray
    can_be_false: pa.BooleanArray
    can_be_null: pa.BooleanArray


def _outcomes(predicate: Predicate, domains: _Domains, num_files: int) -> _Outcomes:
    """The possible outcomes, combined over all cases of hidden NaN.

    Args:
        predicate: Resolved by `resolve`.
        domains: Domain of each column, valid for every file.
        num_files: Number of files in the domains.
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
            num_files,
        )
        for subset in subsets
    ]
    return _Outcomes(*(reduce(pc.or_, each) for each in zip(*cases, strict=True)))


def _evaluate(predicate: Predicate, domains: _Domains, num_files: int) -> _Outcomes:
    match predicate:
        case And(operands):
            return reduce(_and, (_evaluate(each, domains, num_files) for each in operands))
        case Or(operands):
            denied = (_not(_evaluate(each, domains, num_files)) for each in operands)
            return _not(reduce(_and, denied))
        case Not(operand):
            return _not(_evaluate(operand, domains, num_files))
        case Always(value):
            return _constant(value, not value, False, num_files)
    domain = domains.get(predicate.column)
    if domain is None:
        return _constant(True, True, True, num_files)
    if not isinstance(predicate, IsNull) and predicate.padded_to is not None:
        domain = domain.pad(predicate.padded_to)
    found = _evaluate_leaf(predicate, domain)
    return (
        found if domain.codes is None else _Outcomes(*(each.take(domain.codes) for each in found))
    )


def _evaluate_leaf(leaf: Leaf, domain: Domain) -> _Outcomes:
    nothing = pc.and_(domain.has_nulls, FALSE_SCALAR)
    match leaf:
        case IsNull():
            return _Outcomes(domain.has_nulls, domain.has_values, nothing)
        case Comparison(_, operator, value):
            return _compare(domain, operator, _key(leaf, value))
        case In(_, values):
            keys = sort_keys([v for v in values if v is not None], resolved_type(leaf))
            found = _compare_with_any(domain, keys.take(pc.sort_indices(keys)))
    if None in values:
        null = pc.or_(domain.has_nulls, found.can_be_false)
        return _Outcomes(found.can_be_true, nothing, null)
    return found


def _key(leaf: Leaf, value: Any) -> pa.Scalar:
    return sort_keys([value], resolved_type(leaf))[0]


def _compare(domain: Domain, operator: Operator, key: pa.Scalar) -> _Outcomes:
    low, high = domain.low, domain.high
    match operator:
        case "!=":
            return _not(_compare(domain, "==", key))
        case ">=":
            return _not(_compare(domain, "<", key))
        case ">":
            return _not(_compare(domain, "<=", key))
        case "==":
            holds = pc.and_(_might_fail(pc.greater, low, key), _might_fail(pc.less, high, key))
            fails = pc.invert(
                pc.and_(_holds_surely(pc.equal, low, key), _holds_surely(pc.equal, high, key))
            )
        case "<":
            holds, fails = _might_fail(pc.greater_equal, low, key), _might_fail(pc.less, high, key)
        case "<=":
            holds, fails = _might_fail(pc.greater, low, key), _might_fail(pc.less_equal, high, key)
    return _Outcomes(
        pc.and_(domain.has_values, holds), pc.and_(domain.has_values, fails), domain.has_nulls
    )


def _compare_with_any(domain: Domain, keys: pa.Array) -> _Outcomes:
    """Compare values with many keys for equality; the keys are ascending."""
    count = len(domain.has_values)
    below = _num_first(keys, domain.low, pc.less, count)
    up_to = _num_first(keys, domain.high, pc.less_equal, count)
    is_high = pc.is_valid(domain.high)
    some = pc.less(below, pc.if_else(is_high, up_to, scalar(len(keys))))
    only = pc.and_(some, pc.fill_null(pc.equal(domain.low, domain.high), FALSE_SCALAR))
    return _Outcomes(
        pc.and_(domain.has_values, some), pc.and_not(domain.has_values, only), domain.has_nulls
    )


def _num_first(
    keys: pa.Array, bounds: Any, compare: Callable[[Any, Any], Any], count: int
) -> pa.Array:
    """Number of leading keys that satisfy the comparison with each bound; 0 for a null bound."""
    found = pa.repeat(scalar(0), count)
    for step in (1 << bit for bit in reversed(range(len(keys).bit_length()))):
        further = pc.add(found, scalar(step))
        last = keys.take(pc.subtract(pc.min_element_wise(further, scalar(len(keys))), scalar(1)))
        is_so = pc.and_(
            pc.less_equal(further, scalar(len(keys))), _holds_surely(compare, last, bounds)
        )
        found = pc.if_else(is_so, further, found)
    return found


def _holds_surely(compare: Callable[[Any, Any], Any], bound: Any, key: Any) -> Any:
    return pc.fill_null(compare(bound, key), FALSE_SCALAR)


def _might_fail(compare: Callable[[Any, Any], Any], bound: Any, key: Any) -> Any:
    """Whether the comparison may fail; a missing bound excludes nothing."""
    return pc.invert(_holds_surely(compare, bound, key))


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


def _constant(can_be_true: bool, can_be_false: bool, can_be_null: bool, count: int) -> _Outcomes:
    each = (can_be_true, can_be_false, can_be_null)
    return _Outcomes(*(pa.repeat(scalar(value), count) for value in each))
