"""File values: columns that are constant in a file, as Arrow scalars.

Source: PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.planning.file_values import parse_partition_values
from delta_ops.protocol.arrow_values import scalar
from delta_ops.protocol.schema import StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.table_definition import TableDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The wanted partition columns, and how their values are stored."""

    columns: tuple[StructField, ...]
    is_mapped: bool
    """Whether values are stored under physical names."""
    time_zone: str
    """Time zone for timestamps without a zone."""

    def values(
        self, partition_values: Mapping[str, str | None], table: str, path: str
    ) -> dict[str, pa.Scalar]:
        """Return the typed values of a file by column name.

        Args:
            partition_values: The values in the log.
            table: The table's root, for messages.
            path: The file's path, for messages.

        Raises:
            LogCorruptError: A value is not valid for its column's type.
        """
        values = parse_partition_values(
            self.columns,
            partition_values,
            is_mapped=self.is_mapped,
            time_zone=self.time_zone,
            table=table,
            path=path,
        )
        return {
            each.name: scalar(values[each.name], arrow_type_from_type(each.data_type))
            for each in self.columns
        }


def plan_partitioning(
    schema: StructType, definition: TableDefinition, time_zone: str
) -> Partitioning:
    """Return the partition columns among the wanted columns."""
    names = set(definition.partition_columns)
    return Partitioning(
        columns=tuple(each for each in schema.fields if each.name in names),
        is_mapped=definition.is_mapped,
        time_zone=time_zone,
    )
