"""Sort key: the columns by which writers sort the rows of each data file.

Sorted files have narrow row groups, so reads by the key skip most of them, and an ordered scan
merges files instead of sorting all rows. The property is one of delta_ops: other engines ignore it,
so no reader may rely on it. A file says by itself that it is sorted: in its footer, for each row
group, or in a tag of its add action, for the whole file. The engine that writes the file sets the
tag, so a file that another engine made of its rows has none.

Source: Parquet's `RowGroup.sorting_columns`; PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.properties.known import SORT_KEY
from delta_ops.protocol.schema import (
    DOUBLE,
    FLOAT,
    ColumnPath,
    DecimalType,
    PrimitiveType,
    StructField,
)
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.literals import is_comparable

SORTED_BY = "delta_ops.sortedBy"
"""Tag of a file whose rows are sorted: JSON with the names that columns have in files."""


class SortColumn(NamedTuple):
    """A column of the sort key."""

    name: str
    """As users see it."""
    stored_name: str
    """The name in files."""
    field: StructField


def sort_columns(definition: TableDefinition) -> tuple[SortColumn, ...]:
    """The sort key; () if the table has none, or another engine has dropped one of its columns."""
    try:
        return find_sort_columns(definition, definition.properties.sort_key)
    except InvalidRequestError:
        return ()


def find_sort_columns(
    definition: TableDefinition, paths: Sequence[ColumnPath]
) -> tuple[SortColumn, ...]:
    """Find columns that rows can be sorted by.

    Raises:
        InvalidRequestError: A column does not exist, is named twice, or has no order.
    """
    found: list[SortColumn] = []
    for path in paths:
        name = name_of_path(path)
        fields = definition.schema.fields_by_lower_name.get(path[0].lower(), ())
        if not fields or len(path) > 1:
            reason = "is a field of a struct" if fields else "does not exist"
            raise InvalidRequestError(f"Column {name} {reason}; sort by top-level columns.")
        field = fields[0]
        is_value = isinstance(field.data_type, PrimitiveType | DecimalType)
        if not is_value or not is_comparable(field.data_type):
            raise InvalidRequestError(
                f"Column {name} is of type {field.data_type.name}, which has no order; leave it "
                "out."
            )
        if any(each.name == field.name for each in found):
            raise InvalidRequestError(f"Column {name} is named twice; name it once.")
        found.append(SortColumn(field.name, physical_name(field), field))
    return tuple(found)


def find_order(
    definition: TableDefinition, order_by: str | Sequence[str], table: str
) -> list[StructField]:
    """Find the columns that a scan is ordered by.

    Raises:
        InvalidRequestError: As `find_sort_columns`, or there are none.
    """
    names = [order_by] if isinstance(order_by, str) else order_by
    with naming_table(table):
        paths = [path_of_name(name, definition.schema) for name in names]
        fields = [each.field for each in find_sort_columns(definition, paths)]
    if not fields:
        raise InvalidRequestError(
            f"{table}: {option('order_by')} names no column; name one, or leave it out"
        )
    return fields


def sorted_tags(definition: TableDefinition) -> dict[str, str | None] | None:
    """The tags of a file whose rows are sorted by the sort key; None without a sort key."""
    names = [each.stored_name for each in sort_columns(definition)]
    return {SORTED_BY: json.dumps(names, ensure_ascii=False)} if names else None


def stated_order(add: AddFile) -> list[str]:
    """The columns that a file's tag says its rows are sorted by, by their names in files."""
    text = (add.tags or {}).get(SORTED_BY)
    if text is None:
        return []
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return names if isinstance(names, list) else []


def validate_sort_key(definition: TableDefinition, table: str) -> None:
    """Reject a sort key that the table cannot have.

    Raises:
        InvalidRequestError: As `find_sort_columns`, or a column is a partition column, or has
            floating-point numbers: Parquet defines no order for NaN.
    """
    try:
        for each in find_sort_columns(definition, definition.properties.sort_key):
            if each.name in definition.partition_columns:
                raise InvalidRequestError(
                    f"Column {each.name} is a partition column, and each file has one value of it; "
                    "leave it out."
                )
            if each.field.data_type in (FLOAT, DOUBLE):
                raise InvalidRequestError(
                    f"Column {each.name} is of type {each.field.data_type.name}, and Parquet "
                    "defines no order for NaN; sort by columns of other types."
                )
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{table}: {SORT_KEY.name}: {error}") from error
