"""File values: columns that are the same in all rows of a file, as Arrow has them.

Source: PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.planning.file_values import parse_partition_values
from delta_ops.protocol.schema import StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.table_definition import TableDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The partition columns that are wanted, and how their values are written."""

    columns: tuple[StructField, ...]
    is_mapped: bool
    """Whether values stand under physical names."""
    time_zone: str
    """Time zone of timestamps that name none."""

    def values(
        self, partition_values: Mapping[str, str | None], table: str, path: str
    ) -> dict[str, pa.Scalar]:
        """The typed values of a file by the columns' names.

        Args:
            partition_values: As the log has them.
            table: The table's root, for messages.
            path: The file's, for messages.

        Raises:
            LogCorruptError: One of them is none of its column's type.
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
            each.name: pa.scalar(values[each.name], arrow_type_from_type(each.data_type))
            for each in self.columns
        }


def plan_partitioning(
    schema: StructType, definition: TableDefinition, time_zone: str
) -> Partitioning:
    """The partition columns among the columns wanted."""
    names = set(definition.partition_columns)
    return Partitioning(
        columns=tuple(each for each in schema.fields if each.name in names),
        is_mapped=definition.is_mapped,
        time_zone=time_zone,
    )
