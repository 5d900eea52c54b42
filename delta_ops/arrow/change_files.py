"""Change files: which rows a commit took away, changed and brought, for the change data feed.

Source: PROTOCOL.md, "Change Data Files", "Add CDC File".

Readers of the feed follow files that were added or removed as a whole. Where a removed file had
rows that stay, they are in a new file, and would look as if they were gone and came again: such a
commit tells every row that it changed, and readers take nothing else of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from delta_ops.arrow.data_file_write import DataFileWriter, discard, row_groups
from delta_ops.arrow.scan import read_files
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.column_mapping import PHYSICAL_NAME
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import HIDDEN, STRING, StructField, StructType, schema_to_json
from delta_ops.protocol.table_definition import TableDefinition

_CHANGE_TYPE = "_change_type"
_FEED_COLUMNS = (_CHANGE_TYPE, "_commit_version", "_commit_timestamp")


def validate_feed_columns(definition: TableDefinition, table: str) -> None:
    """Refuse columns of a table with a feed that have the name of one of the feed's.

    Raises:
        InvalidRequestError: With the column.
    """
    for name in _FEED_COLUMNS if definition.has_change_feed else ():
        if name in definition.schema.fields_by_lower_name:
            raise InvalidRequestError(
                f"{table}: column {name} has the name of a column of the change data feed; rename "
                "it, or switch delta.enableChangeDataFeed off"
            )


def write_change_files(
    snapshot: Snapshot,
    definition: TableDefinition,
    replaced: Iterable[AddFile],
    predicate: Predicate,
    added: Iterable[AddFile],
) -> tuple[AddCdcFile, ...]:
    """Write the rows that an overwrite replaces and those that it adds; all of them or none.

    Args:
        definition: The table as the commit will leave it.
        replaced: Live files; their rows for which the predicate is true are gone.
        added: New files of the new rows.
    """
    deleted = _FeedWriter(snapshot, snapshot.definition, "delete")
    inserted = _FeedWriter(snapshot, definition, "insert")
    try:
        for files in _group_by_partition(replaced).values():
            deleted.write(files, predicate)
        for files in _group_by_partition(added).values():
            inserted.write(files, None)
    except BaseException:  # an interrupt too would leave files that nobody names
        discard(snapshot.storage, (*deleted.adds, *inserted.adds))
        raise
    return change_files(deleted.adds, inserted.adds)


def change_files(*adds: Iterable[AddFile]) -> tuple[AddCdcFile, ...]:
    """What a commit says of files that were written as `feed_definition` has it."""
    return tuple(
        AddCdcFile(path=each.path, size=each.size, partition_values=each.partition_values)
        for each in chain(*adds)
    )


def feed_definition(definition: TableDefinition) -> TableDefinition:
    """The table with the column that only files of changes have; it has no id."""
    column = StructField(_CHANGE_TYPE, STRING, metadata={PHYSICAL_NAME: _CHANGE_TYPE, HIDDEN: True})
    schema = StructType((*definition.schema.fields, column))
    metadata = replace(definition.metadata, schema_string=schema_to_json(schema))
    return replace(definition, metadata=metadata)


def mark_rows(batch: pa.RecordBatch, change_type: str) -> pa.RecordBatch:
    """The rows with what became of them: insert, delete, update_preimage or update_postimage."""
    types = pa.repeat(pa.scalar(change_type), len(batch))
    return batch.append_column(_CHANGE_TYPE, types)


class _FeedWriter:
    """Writes rows with one type of change, a file for each partition."""

    def __init__(self, snapshot: Snapshot, definition: TableDefinition, change_type: str) -> None:
        self._snapshot, self._definition, self._type = snapshot, definition, change_type
        self._names = [each.name for each in definition.data_schema.fields]
        stored = feed_definition(definition)
        schema = arrow_schema_from_schema(stored.data_schema)
        self._writer = DataFileWriter(snapshot.storage, schema, stored, is_of_changes=True)
        self.adds: list[AddFile] = []

    def write(self, files: Sequence[AddFile], predicate: Predicate | None) -> None:
        """Write the rows of files of one partition; nothing, where no row matches."""
        batches = self._changed_rows(files, predicate)
        first = next(batches, None)
        if first is None:
            return
        values = _logical_values(self._definition, files[0].partition_values)
        groups = row_groups(chain([first], batches))
        self.adds.append(self._writer.write(groups, values, data_change=False))

    def _changed_rows(
        self, files: Sequence[AddFile], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        rows = read_files(self._snapshot, files, self._names, predicate, self._definition)
        for batch in rows:
            if len(batch):
                yield mark_rows(batch, self._type)


def _group_by_partition(files: Iterable[AddFile]) -> Mapping[object, list[AddFile]]:
    found: dict[object, list[AddFile]] = {}
    for each in files:
        found.setdefault(frozenset(each.partition_values.items()), []).append(each)
    return found


def _logical_values(
    definition: TableDefinition, stored: Mapping[str, str | None]
) -> dict[str, str | None]:
    return {name: stored.get(in_log) for name, in_log in definition.partition_names.items()}
