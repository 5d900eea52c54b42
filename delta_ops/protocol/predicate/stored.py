"""Stored values: make predicates from partition values in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delta_ops.protocol.predicate import Always, Column, Or, Predicate, all_of
from delta_ops.protocol.schema import StructField
from delta_ops.protocol.values.partition_values import parse


def partitions_predicate(
    partitions: Iterable[Mapping[str, str | None]], fields: Mapping[str, StructField]
) -> Predicate:
    """A predicate that is true for the rows of these partitions.

    Args:
        partitions: Partition values by their names in the log; duplicates are allowed.
        fields: The partition columns by the same names.
    """
    distinct = {tuple(values[name] for name in fields): None for values in partitions}
    # Each alternative is evaluated for each file, so the column with the most values becomes a
    # list.
    num_values = [len(set(texts)) for texts in zip(*distinct, strict=True)]
    order = sorted(range(len(num_values)), key=num_values.__getitem__)
    *outer, last = (list(fields.values())[i] for i in order or range(len(fields)))
    found: dict[tuple[str | None, ...], dict[str | None, None]] = {}
    for partition in distinct:
        *texts, text = (partition[i] for i in order)
        found.setdefault(tuple(texts), {})[text] = None
    named = tuple(
        all_of((*map(_equals, outer, texts), _membership(last, lasts)))
        for texts, lasts in found.items()
    )
    return Or(named) if named else Always(False)


def _equals(field: StructField, text: str | None) -> Predicate:
    return _membership(field, (text,))


def _membership(field: StructField, texts: Iterable[str | None]) -> Predicate:
    values = [parse(text, field.data_type) for text in texts]
    column = Column((field.name,))
    is_value = column.isin([value for value in values if value is not None])
    return is_value | column.is_null() if None in values else is_value
