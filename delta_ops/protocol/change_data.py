"""Change data: files that tell which rows a commit took away, changed and brought.

Source: PROTOCOL.md, "Change Data Files", "Add CDC File".

Readers of the feed follow files that were added or removed as a whole. Where a removed file had
rows that stay, they are in a new file, and would look as if they were gone and came again: such a
commit tells every row that it changed, and readers take nothing else of it.
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
"""insert, delete, update_preimage or update_postimage, in each row of such a file."""
CHANGE_DATA_DIRECTORY = "_change_data"
_FEED_COLUMNS = (CHANGE_TYPE_COLUMN, "_commit_version", "_commit_timestamp")


def validate_feed_columns(definition: TableDefinition, table: str) -> None:
    """Refuse columns of a table with a feed that have the name of one of the feed's.

    Raises:
        InvalidRequestError: With the column.
    """
    if name := mistaken_feed_column(definition):
        raise InvalidRequestError(
            f"{table}: column {name} has the name of a column of the change data feed; rename "
            "it, or switch delta.enableChangeDataFeed off"
        )


def mistaken_feed_column(definition: TableDefinition) -> str | None:
    """The first column of the feed of which a table with a feed has one of the same name."""
    names = _FEED_COLUMNS if definition.has_change_feed else ()
    return next((name for name in names if name in definition.schema.fields_by_lower_name), None)


def change_files(adds: Iterable[AddFile]) -> tuple[AddCdcFile, ...]:
    """What a commit says of files that were written as `feed_definition` has it."""
    return tuple(
        AddCdcFile(path=each.path, size=each.size, partition_values=each.partition_values)
        for each in adds
    )


def feed_definition(definition: TableDefinition) -> TableDefinition:
    """The table with the column that only files of changes have; it has no id."""
    hidden = {PHYSICAL_NAME: CHANGE_TYPE_COLUMN, HIDDEN: True}
    column = StructField(CHANGE_TYPE_COLUMN, STRING, metadata=hidden)
    schema = StructType((*definition.schema.fields, column))
    metadata = replace(definition.metadata, schema_string=schema_to_json(schema))
    return replace(definition, metadata=metadata)
