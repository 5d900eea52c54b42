"""Replacement: which files an overwrite by predicate removes, and which it must read first.

A file of which every row matches is removed as a whole. One of which some rows may match is removed
too, and its other rows are written again with the new ones. A row for which the predicate is null
does not match and stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.log import Snapshot
from delta_ops.log.pruning import partition_types
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_domains import PartitionColumn
from delta_ops.protocol.partition_values import parse
from delta_ops.protocol.predicate import Predicate, col, columns, must_match, resolve
from delta_ops.protocol.schema import BINARY, STRING, DataType, StructType, find_field

_EMPTY: Mapping[DataType, str | bytes] = {STRING: "", BINARY: b""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The live files that an overwrite concerns."""

    matched: tuple[AddFile, ...]
    """Every row matches."""
    mixed: tuple[AddFile, ...]
    """Some rows may match; the others survive."""

    @property
    def removed(self) -> tuple[AddFile, ...]:
        """All files that leave the table."""
        return self.matched + self.mixed


def true_when_stored(
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


def plan_replacement(
    snapshot: Snapshot, predicate: Predicate, *, partition_time_zone: str = "UTC"
) -> Replacement:
    """Sort the files that may hold matching rows.

    Args:
        partition_time_zone: Of partition values of type timestamp that name none; the one in which
            the rows of the mixed files are read.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    resolved = resolve(predicate, snapshot.schema)
    zone = partition_time_zone
    adds = snapshot.add_files(predicate, partition_time_zone=zone)
    looked_at = columns(resolved)
    partitions = {
        name: _partition_column(name, data_type, adds, zone)
        for name, data_type in partition_types(snapshot).items()
        if name in looked_at
    }
    stats = pa.array([add.stats for add in adds], pa.string())
    is_whole = must_match(resolved, partitions, stats).to_pylist()
    matched = [add for add, whole in zip(adds, is_whole, strict=True) if whole]
    mixed = [add for add, whole in zip(adds, is_whole, strict=True) if not whole]
    return Replacement(matched=tuple(matched), mixed=tuple(mixed))


def _partition_column(
    name: str, data_type: DataType, adds: Sequence[AddFile], time_zone: str
) -> PartitionColumn:
    """The column's value of each file; each distinct text is parsed once."""
    texts = pa.array([add.partition_values.get(name) for add in adds], pa.string())
    encoded = texts.dictionary_encode(null_encoding="encode")
    values = [
        parse(text, data_type, time_zone=time_zone) for text in encoded.dictionary.to_pylist()
    ]
    return PartitionColumn(codes=encoded.indices, values=values)
