"""Row tracking: the permanent id of a row, and the version that last changed it.

Source: PROTOCOL.md, "Row Tracking", "Writer Requirements for Row Tracking".

By default a file's rows have consecutive ids from `baseRowId` on. A hidden column of the file
overrides them: rows that came from other files keep their ids there. Likewise a row's default
version is the version of the commit that added the file, and another hidden column overrides it.
The high-water mark, a domain of the log, records the greatest assigned id and only grows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import Action, AddFile, DomainMetadata, Metadata
from delta_ops.protocol.columns.mapping import PHYSICAL_NAME
from delta_ops.protocol.properties.known import (
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
)
from delta_ops.protocol.schema import HIDDEN, LONG, StructField, StructType, schema_to_json
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.protocol.table_definition import TableDefinition

ROW_TRACKING_DOMAIN = "delta.rowTracking"
ROW_TRACKING_PRESERVED = "delta.rowTracking.preserved"
"""Tag of a commit that keeps the ids of all rows."""
_MARK = "rowIdHighWaterMark"
_NO_MARK = -1
"""The mark of a table without ids; the first id is 0."""


class RowColumns(NamedTuple):
    """Hidden columns of data files that hold row ids and versions."""

    row_id: str
    commit_version: str
    """Null in a row that the commit of its file has changed."""


def counts_rows(definition: TableDefinition) -> bool:
    """Whether the rows of each added file get ids."""
    suspended = ROW_TRACKING_SUSPENDED.value_in(definition.metadata.configuration)
    return definition.has("rowTracking") and not suspended


def tracks_rows(definition: TableDefinition) -> bool:
    """Whether rows keep their ids when they are rewritten."""
    return definition.has("rowTracking") and bool(
        ROW_TRACKING.value_in(definition.metadata.configuration)
    )


def row_columns(definition: TableDefinition, table: str) -> RowColumns | None:
    """The columns that hold row ids and versions; None if the table tracks no rows.

    Args:
        table: For messages.

    Raises:
        InvalidRequestError: The table's properties do not name the columns.
    """
    if not tracks_rows(definition):
        return None
    configuration = definition.metadata.configuration
    names = [each.value_in(configuration) for each in (ROW_ID_COLUMN, ROW_COMMIT_VERSION_COLUMN)]
    if not all(names):
        raise InvalidRequestError(
            f"{table} has delta.enableRowTracking but does not name its columns "
            f"({ROW_ID_COLUMN.name}, {ROW_COMMIT_VERSION_COLUMN.name}); set the property to false"
        )
    return RowColumns(*map(str, names))


def version_column(definition: TableDefinition, table: str) -> str | None:
    """The column that holds row versions; None as in `row_columns`."""
    names = row_columns(definition, table)
    return None if names is None else names.commit_version


def validate_tracking(metadata: Metadata, table: str) -> None:
    """Reject row tracking while the assignment of ids is suspended.

    Raises:
        InvalidRequestError: Both properties are true.
    """
    both = (ROW_TRACKING, ROW_TRACKING_SUSPENDED)
    if all(each.value_in(metadata.configuration) for each in both):
        raise InvalidRequestError(
            f"{table}: {ROW_TRACKING.name} and {ROW_TRACKING_SUSPENDED.name} cannot both be true: "
            "new rows would have no ids; set one of them to false"
        )


def name_row_columns(metadata: Metadata) -> Metadata:
    """Add names for the hidden columns if a row-tracking table has none."""
    configuration = metadata.configuration
    if not ROW_TRACKING.value_in(configuration) or ROW_ID_COLUMN.value_in(configuration):
        return metadata
    names = {
        ROW_ID_COLUMN.name: f"_row-id-col-{uuid.uuid4()}",
        ROW_COMMIT_VERSION_COLUMN.name: f"_row-commit-version-col-{uuid.uuid4()}",
    }
    return replace(metadata, configuration={**configuration, **names})


def tracked_definition(definition: TableDefinition, table: str) -> TableDefinition:
    """The definition with hidden columns for row ids and versions, if the table has them."""
    names = row_columns(definition, table)
    if names is None:
        return definition
    columns = (
        StructField(name, LONG, metadata={PHYSICAL_NAME: name, HIDDEN: True}) for name in names
    )
    schema = StructType((*definition.schema.fields, *columns))
    metadata = replace(definition.metadata, schema_string=schema_to_json(schema))
    return replace(definition, metadata=metadata)


def validate_ids(add: AddFile, table: str) -> None:
    """Reject a file without row ids in the log; its rows could not keep their ids.

    Raises:
        InvalidRequestError: The message names the file.
    """
    if add.base_row_id is None or add.default_row_commit_version is None:
        raise InvalidRequestError(
            f"{table} has row tracking (delta.enableRowTracking), but file {add.path} has no row "
            "ids; set the property to false, or overwrite the rows of the file"
        )


def high_water_mark(domains: Mapping[str, DomainMetadata], table: str) -> int:
    """The greatest assigned row id; -1 if none is assigned.

    Raises:
        InvalidRequestError: The domain cannot be read.
    """
    domain = domains.get(ROW_TRACKING_DOMAIN)
    return _NO_MARK if domain is None or domain.removed else _mark_of(domain, table)


def later_mark(mark: int, domains: Sequence[DomainMetadata], table: str) -> int:
    """The high-water mark of row ids after a commit with these domains.

    Raises:
        InvalidRequestError: The domain cannot be read.
    """
    return max(
        [mark, *(_mark_of(each, table) for each in domains if each.domain == ROW_TRACKING_DOMAIN)]
    )


def assign_row_ids(
    actions: Sequence[Action], version: int, mark: int, table: str
) -> tuple[Action, ...]:
    """Assign ids to the rows of a commit's new files.

    Files that have ids keep them, for example the files of a clone, and the mark moves past them.

    Args:
        actions: All actions of the commit except commitInfo.
        version: Version of the commit.
        mark: The greatest id assigned before.
        table: For messages.

    Raises:
        InvalidRequestError: The statistics of a file lack its number of rows.
    """
    known = (each for each in actions if isinstance(each, AddFile) and each.base_row_id is not None)
    first = max((mark + 1, *(_id_after(each, mark, table) for each in known)))
    assigned: list[Action] = []
    for action in actions:
        if not isinstance(action, AddFile) or action.base_row_id is not None:
            assigned.append(action)
            continue
        assigned.append(replace(action, base_row_id=first, default_row_commit_version=version))
        first += _num_records(action, table)
    if first > mark + 1:
        configuration = json.dumps({_MARK: first - 1}, separators=(",", ":"))
        assigned.append(DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration))
    return tuple(assigned)


def _id_after(add: AddFile, mark: int, table: str) -> int:
    """The first id after a file's rows; 0 if the file starts at or below the mark."""
    assert add.base_row_id is not None
    return 0 if add.base_row_id <= mark else add.base_row_id + _num_records(add, table)


def _num_records(add: AddFile, table: str) -> int:
    stats = parse_stats(add.stats)
    if stats is None or stats.num_records is None:
        raise InvalidRequestError(
            f"{table}: the statistics of file {add.path} lack numRecords, which row tracking "
            "needs to assign ids; add the file with statistics"
        )
    return stats.num_records


def _mark_of(domain: DomainMetadata, table: str) -> int:
    try:
        mark: Any = json.loads(domain.configuration)[_MARK]
    except (ValueError, KeyError, TypeError):
        mark = None
    if type(mark) is not int:
        raise InvalidRequestError(
            f"{table}: the domain {ROW_TRACKING_DOMAIN} does not contain the last row id "
            f"({domain.configuration[:200]!r}); repair the log, because no id can be assigned"
        )
    return mark
