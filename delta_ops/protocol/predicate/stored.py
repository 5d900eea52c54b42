"""Stored values: what a predicate says of rows once they are in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from delta_ops.protocol.partition_values import parse
from delta_ops.protocol.predicate import Always, Or, Predicate, all_of, col, resolve
from delta_ops.protocol.predicate.resolution import columns
from delta_ops.protocol.schema import (
    BINARY,
    STRING,
    DataType,
    StructField,
    StructType,
    find_field,
)

_EMPTY: Mapping[DataType, str | bytes] = {STRING: "", BINARY: b""}


def stored_predicate(
    predicate: Predicate, schema: StructType, partition_columns: Sequence[str]
) -> Predicate:
    """True of rows for which the predicate is still true when they are read back.

    An empty partition value is stored as null.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    for name in sorted(columns(resolve(predicate, schema)) & set(partition_columns)):
        empty = _EMPTY.get(find_field(schema, name).data_type)
        if empty is not None:
            predicate &= col(name).is_null() | (col(name) != empty)
    return predicate


def partitions_predicate(
    partitions: Iterable[Mapping[str, str | None]], fields: Mapping[str, StructField]
) -> Predicate:
    """True of the rows of these partitions.

    Args:
        partitions: Values as the log has them, by their names there; each as often as it likes.
        fields: The partition columns by these names.
    """
    given = {tuple(values[name] for name in fields): None for values in partitions}
    # Each alternative is judged for each file: the column with the most values goes into lists.
    num_values = [len(set(texts)) for texts in zip(*given, strict=True)]
    order = sorted(range(len(num_values)), key=num_values.__getitem__)
    *outer, last = (list(fields.values())[i] for i in order or range(len(fields)))
    found: dict[tuple[str | None, ...], dict[str | None, None]] = {}
    for partition in given:
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
    is_value = col(field.name).isin([value for value in values if value is not None])
    return is_value | col(field.name).is_null() if None in values else is_value
