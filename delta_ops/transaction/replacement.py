"""Replacement: the rows that an overwrite replaces, and the files that it removes or rewrites.

A file whose rows all match is removed without reading it. A file with some matching rows is removed
too, and its other rows are written to a new file. If the predicate is null for a row, the row does
not match and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.log import Snapshot, plan_scan
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files
from delta_ops.protocol.predicate import TRUE, Always, Column, Or, Predicate, all_of
from delta_ops.protocol.schema import StructField
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import parse
from delta_ops.transaction.requests import WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The live files that may hold replaced rows."""

    matched: pa.Table
    """Files whose rows all match, as `arrow_schemas.ADD`; possibly all files of the table."""
    mixed: tuple[AddFile, ...]
    """Files with rows that may match and rows that survive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedRows:
    """Rows that an overwrite replaces."""

    snapshot: Snapshot
    """The table before the commit."""
    files: Iterable[AddFile]
    """Live files with such rows. Read once."""
    predicate: Predicate
    """True for the replaced rows of these files."""


def replaced_rows(
    request: WriteRequest, adds: Sequence[AddFile], definition: TableDefinition
) -> Predicate:
    """The rows of the table that an overwrite replaces."""
    if request.replace_where is not None:
        return request.replace_where
    # Like the reference, overwrite all rows of a table without partitions.
    if request.partition_overwrite_mode == "dynamic" and definition.partition_columns:
        names = definition.partition_names.values()
        fields = dict(zip(names, definition.partition_fields, strict=True))
        return partitions_predicate((add.partition_values for add in adds), fields)
    return TRUE


def plan_replacement(
    snapshot: Snapshot, predicate: Predicate, *, partition_time_zone: str = "UTC"
) -> Replacement:
    """Find the files with matching rows, and split them by whether all of their rows match.

    Args:
        partition_time_zone: Time zone for partition timestamps without one. The mixed files must be
            read with the same zone.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    plan = plan_scan(snapshot, predicate, partition_time_zone=partition_time_zone)
    matched, mixed = plan.split_by_match()
    return Replacement(matched=matched, mixed=tuple(add_files(mixed)))


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
