"""Bloom filters: the columns for which data files hold Parquet Bloom filters.

A Bloom filter shows that a row group certainly lacks a value. Statistics cannot show it if each
file has values from the whole range, such as random identifiers.

Source: Parquet's BloomFilter.md. The property that names the columns is one of delta_ops; other
engines ignore it and write their files without filters.
"""

from __future__ import annotations

from contextlib import suppress

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.properties.known import BLOOM_FILTERS
from delta_ops.protocol.schema import (
    BOOLEAN,
    VARIANT,
    VOID,
    ColumnPath,
    DecimalType,
    PrimitiveType,
)
from delta_ops.protocol.schema.changes import find_by_path
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.table_definition import TableDefinition

FALSE_POSITIVES = 0.01
"""The share of look-ups of absent values that a filter does not recognize."""
_WITHOUT = (BOOLEAN, VARIANT, VOID)


def filtered_columns(definition: TableDefinition) -> tuple[ColumnPath, ...]:
    """The columns with Bloom filters, by their names in files.

    A column that cannot have a filter any more is left out: another engine may have dropped it.
    """
    found = []
    for path in definition.properties.bloom_filters:
        with suppress(InvalidRequestError):
            exact_path = _find_column(path, definition)
            found.append(physical_path(exact_path, definition.schema))
    return tuple(found)


def validate_bloom_filters(definition: TableDefinition, table: str) -> None:
    """Reject columns that cannot have a Bloom filter.

    Raises:
        InvalidRequestError: A column does not exist, is in no data file, or has a type without
            filters.
    """
    for path in definition.properties.bloom_filters:
        try:
            _find_column(path, definition)
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"{table}: {BLOOM_FILTERS.name} names {name_of_path(path)}: {error}"
            ) from error


def _find_column(path: ColumnPath, definition: TableDefinition) -> ColumnPath:
    exact_path, field = find_by_path(definition.schema, path)
    if exact_path[0] in definition.partition_columns:
        raise InvalidRequestError("A partition column needs no Bloom filter; leave it out.")
    if not isinstance(field.data_type, PrimitiveType | DecimalType) or field.data_type in _WITHOUT:
        raise InvalidRequestError(
            f"Its type is {field.data_type.name}, and Parquet has Bloom filters of numbers, "
            "strings, bytes, dates and timestamps only; leave it out."
        )
    return exact_path
