"""Stored names: give rows the names and ids that their columns have in files.

Source: PROTOCOL.md, "Writer Requirements for Column Mapping".

Only names change, at every depth; values are not copied. Every column has its id in the file, both
in mapping mode `id` and in mode `name`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delta_ops.protocol.columns.mapping import field_id
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.table_definition import TableDefinition

_PARQUET_ID = "PARQUET:field_id"


def stored_schema(definition: TableDefinition) -> pa.Schema:
    """Return the schema of data files, with column ids in the metadata if the table is mapped."""
    columns = definition.file_schema
    plain = arrow_schema_from_schema(columns)
    if not definition.is_mapped:
        return plain
    return pa.schema(map(_field_with_id, plain, columns.fields))


def rename_stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rename the columns of rows by a schema that differs only in names."""
    batches = [pa.record_batch(_Renamed(batch, schema)) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, schema)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A batch in Arrow's C interface that combines its values with another schema."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        _, values = self.batch.__arrow_c_array__()
        return self.schema.__arrow_c_schema__(), values


def _field_with_id(field: pa.Field, column: StructField) -> pa.Field:
    field = field.with_type(_type_with_ids(field.type, column.data_type))
    number = field_id(column)
    return field if number is None else field.with_metadata({_PARQUET_ID: str(number)})


def _type_with_ids(arrow_type: pa.DataType, data_type: DataType) -> pa.DataType:
    match data_type:
        case StructType(fields=fields):
            return pa.struct(
                [_field_with_id(each, c) for each, c in zip(arrow_type, fields, strict=True)]
            )
        case ArrayType(element_type=element_type):
            element = arrow_type.value_field
            return pa.list_(element.with_type(_type_with_ids(element.type, element_type)))
        case MapType(key_type=key_type, value_type=value_type):
            key, value = arrow_type.key_field, arrow_type.item_field
            return pa.map_(
                key.with_type(_type_with_ids(key.type, key_type)),
                value.with_type(_type_with_ids(value.type, value_type)),
            )
    return arrow_type
