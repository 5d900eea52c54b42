"""A predicate over files: whether some row of a file can match, or every row must match.

`might_match` never misses a row, and `must_match` never includes a row too many. If nothing is
known of a file, it might match and need not match.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.predicate.nodes import IsNull, Predicate, leaves_of
from delta_ops.protocol.predicate.outcomes import outcomes
from delta_ops.protocol.predicate.resolution import resolved_type
from delta_ops.protocol.schema import ColumnPath, DataType, StructType
from delta_ops.protocol.stats.file_domains import (
    Domain,
    LeafTypes,
    PartitionColumn,
    domain_of_partitions,
    domains_at_once,
    domains_one_by_one,
)

Partitions = Mapping[str, PartitionColumn]


def might_match(predicate: Predicate, partitions: Partitions, stats: pa.Array) -> pa.BooleanArray:
    """For each file, false only if the predicate is true for no row.

    Args:
        predicate: Resolved by `resolve`.
        partitions: The partition columns that the predicate names.
        stats: `add.stats` of each file; null: nothing is known of the other columns.
    """
    domains = _partition_domains(predicate, partitions)
    if domains or not _leaf_types(predicate, domains):
        mask = outcomes(predicate, domains, len(stats)).can_be_true
    else:
        mask = pa.repeat(True, len(stats))  # no column has a domain yet
    keep = mask
    # Reading statistics is slow, most of all statistics that Arrow cannot read.
    for read in (domains_at_once, domains_one_by_one):
        unknown = _leaf_types(predicate, domains)
        if not unknown:
            break
        stats = stats.filter(mask)
        domains = {path: domain.filter(mask) for path, domain in domains.items()}
        domains |= read(stats, unknown)
        mask = outcomes(predicate, domains, len(stats)).can_be_true
        keep = pc.replace_with_mask(keep, keep, mask)
    return keep


def must_match(predicate: Predicate, partitions: Partitions, stats: pa.Array) -> pa.BooleanArray:
    """For each file, true only if the predicate is true for every row.

    Rounded or cut bounds are ignored: an operation that removes a file without reading it must not
    depend on how its writer rounds.

    Args are the same as for `might_match`.
    """
    domains = _partition_domains(predicate, partitions)
    unknown = _leaf_types(predicate, domains)
    domains |= domains_one_by_one(stats, unknown, exact_only=True)
    found = outcomes(predicate, domains, len(stats))
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
