"""Stored columns: a table's columns as its data files have them, and back.

Source: PROTOCOL.md, "Column Mapping".

By mode `name` files have the physical names. By mode `id` Spark is given ids, and of columns names
that no file has: Spark leaves out row groups by name, and a file of another program may have
another column by that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import types as spark_types

from delta_ops.protocol.column_mapping import field_id, physical_name, rename_columns
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions import named_column
from delta_ops.spark.schema import spark_schema_from_schema

_SPARKS_ID = "parquet.field.id"


def scan_options(definition: TableDefinition) -> Mapping[str, str]:
    """What Spark's Parquet reader must be told to find the columns."""
    by_id = definition.mapping_mode == "id"
    return {"spark.sql.parquet.fieldId.read.enabled": "true"} if by_id else {}


def stored_schema(
    definition: TableDefinition, fields: Sequence[StructField]
) -> spark_types.StructType:
    """Columns of the table for a scan of its files: all nullable, by names that files have."""
    kept = (_SPARKS_ID,) if definition.mapping_mode == "id" else ()
    return spark_schema_from_schema(_rename_as_stored(definition, fields), kept)


def table_column(definition: TableDefinition, field: StructField) -> Column:
    """The table's column, of the columns of `stored_schema`."""
    stored = _rename_as_stored(definition, (field,))
    column = named_column(stored.fields[0].name)
    given, wanted = (
        spark_schema_from_schema(each, ())[0].dataType for each in (stored, StructType((field,)))
    )
    # Fields of structs change their names by their places.
    return (column if given == wanted else column.cast(wanted)).alias(field.name)


def _rename_as_stored(definition: TableDefinition, fields: Sequence[StructField]) -> StructType:
    match definition.mapping_mode:
        case "name":
            return rename_columns(StructType(tuple(fields)), physical_name)
        case "id":
            return StructType(
                tuple(replace(_attach_id(each), name=_name_of_no_file(each)) for each in fields)
            )
    return StructType(tuple(fields))


def _name_of_no_file(field: StructField) -> str:
    number = field_id(field)
    return field.name if number is None else f"delta_ops id {number}"


def _attach_id(field: StructField) -> StructField:
    number = field_id(field)
    metadata = field.metadata if number is None else {**field.metadata, _SPARKS_ID: number}
    return replace(field, data_type=_attach_ids(field.data_type), metadata=metadata)


def _attach_ids(data_type: DataType) -> DataType:
    """The type, with Spark's ids of its fields at every depth."""
    match data_type:
        case StructType(fields=fields):
            return StructType(tuple(map(_attach_id, fields)))
        case ArrayType():
            return replace(data_type, element_type=_attach_ids(data_type.element_type))
        case MapType():
            key_type, value_type = (
                _attach_ids(data_type.key_type),
                _attach_ids(data_type.value_type),
            )
            return replace(data_type, key_type=key_type, value_type=value_type)
    return data_type
