"""Change data: files with the rows that a commit deleted, updated and inserted.

Source: PROTOCOL.md, "Change Data Files", "Add CDC File".

By default, readers of the feed derive changes from added and removed files. If a removed file has
rows that stay in the table, a new file holds them, and they would appear as deleted and inserted.
Such a commit therefore records every changed row, and readers use only these records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.columns.mapping import PHYSICAL_NAME
from delta_ops.protocol.schema import HIDDEN, STRING, StructField, StructType, schema_to_json
from delta_ops.protocol.table_definition import TableDefinition

CHANGE_TYPE_COLUMN = "_change_type"
"""insert, delete, update_preimage or update_postimage, in each row of a change data file."""
CHANGE_DATA_DIRECTORY = "_change_data"
_FEED_COLUMNS = (CHANGE_TYPE_COLUMN, "_commit_version", "_commit_timestamp")


def validate_feed_columns(definition: TableDefinition, table: str) -> None:
    """Reject a column with the name of a feed column, if the table has a feed.

    Raises:
        InvalidRequestError: The message names the column.
    """
    if name := mistaken_feed_column(definition):
        raise InvalidRequestError(
            f"{table}: column {name} has the name of a column of the change data feed; rename "
            "it, or switch delta.enableChangeDataFeed off"
        )


def mistaken_feed_column(definition: TableDefinition) -> str | None:
    """The first feed column whose name the table uses; None if the table has no feed."""
    names = _FEED_COLUMNS if definition.has_change_feed else ()
    return next((name for name in names if name in definition.schema.fields_by_lower_name), None)


def change_files(adds: Iterable[AddFile]) -> tuple[AddCdcFile, ...]:
    """Convert adds of files written with `feed_definition` to `cdc` actions."""
    return tuple(
        AddCdcFile(path=each.path, size=each.size, partition_values=each.partition_values)
        for each in adds
    )


def feed_definition(definition: TableDefinition) -> TableDefinition:
    """The definition with the hidden change type column, which has no column id."""
    hidden = {PHYSICAL_NAME: CHANGE_TYPE_COLUMN, HIDDEN: True}
    column = StructField(CHANGE_TYPE_COLUMN, STRING, metadata=hidden)
    schema = StructType((*definition.schema.fields, column))
    metadata = replace(definition.metadata, schema_string=schema_to_json(schema))
    return replace(definition, metadata=metadata)
