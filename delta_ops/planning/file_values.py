"""File values: columns that are constant in a file and recorded in the log.

Source: PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError, LogCorruptError
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.schema import StructField
from delta_ops.protocol.values.partition_values import parse


def parse_partition_values(
    columns: Iterable[StructField],
    partition_values: Mapping[str, str | None],
    *,
    is_mapped: bool,
    time_zone: str,
    table: str,
    path: str,
) -> dict[str, Any]:
    """Parse a file's values of these partition columns, by column name.

    Args:
        columns: Partition columns, by their logical names.
        partition_values: Partition values in the log's format.
        is_mapped: Whether the values are recorded under physical names.
        time_zone: Time zone for partition timestamps without a zone.
        table: The table's root, for messages.
        path: The file's path, for messages.

    Raises:
        LogCorruptError: A value is not valid for its column's type.
    """
    found = {}
    for each in columns:
        text = partition_values.get(physical_name(each) if is_mapped else each.name)
        try:
            found[each.name] = parse(text, each.data_type, time_zone=time_zone)
        except InvalidRequestError as error:
            reason = error.message.rstrip(".")
            raise LogCorruptError(
                table, f"data file {path}", f"{reason}, the type of column {each.name}"
            ) from error
    return found
