"""File columns: converts between the columns of a table and the columns of its data files.

Source: PROTOCOL.md, "Column Mapping".

In mode `name`, files use the physical names. In mode `id`, Spark gets field ids, and column names
that no file has. Spark skips row groups by name, and a file by another program may use the same
name for another column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from delta_ops.protocol.columns.mapping import field_id, physical_name, rename_columns
from delta_ops.protocol.schema import (
    BINARY,
    STRING,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    T,
    map_structs,
)
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import named_column, select_columns
from delta_ops.spark.schema import spark_schema_from_schema, validate_levels

_SPARKS_ID = "parquet.field.id"


def scan_options(definition: TableDefinition) -> Mapping[str, str]:
    """Options that Spark's Parquet reader needs to find the columns."""
    by_id = definition.mapping_mode == "id"
    return {"spark.sql.parquet.fieldId.read.enabled": "true"} if by_id else {}


def stored_schema(
    definition: TableDefinition, fields: Sequence[StructField]
) -> spark_types.StructType:
    """Columns for a scan of the table's files: all nullable, by their names in the files.

    Fields of type void are in no file and are left out at every depth.
    """
    kept = (_SPARKS_ID,) if definition.mapping_mode == "id" else ()
    return spark_schema_from_schema(_drop_void(_rename_as_stored(definition, fields)), kept)


def log_schema(
    definition: TableDefinition, fields: Sequence[StructField]
) -> spark_types.StructType:
    """Columns whose values come from the log, named as `stored_schema` names columns."""
    typed = [
        replace(each, data_type=STRING) if is_void(each.data_type) else each for each in fields
    ]
    return spark_schema_from_schema(_rename_as_stored(definition, typed), ())


def columns_by_stored_path(definition: TableDefinition) -> Mapping[ColumnPath, ColumnPath]:
    """Columns and their fields of structs, by their names in `stored_schema` and `log_schema`."""
    fields = definition.schema.fields
    return dict(_paired_paths(_rename_as_stored(definition, fields).fields, fields))


def _paired_paths(
    stored: Sequence[StructField], fields: Sequence[StructField]
) -> Iterator[tuple[ColumnPath, ColumnPath]]:
    for source, field in zip(stored, fields, strict=True):
        yield (source.name,), (field.name,)
        if isinstance(source.data_type, StructType) and isinstance(field.data_type, StructType):
            inner = _paired_paths(source.data_type.fields, field.data_type.fields)
            yield from (((source.name, *old), (field.name, *new)) for old, new in inner)


def columns_of_files(definition: TableDefinition) -> list[Column]:
    """Convert table columns to the columns of new files: physical names, with field ids."""
    fields = definition.file_columns.fields
    if not definition.is_mapped:
        return [_value(each, definition).alias(each.name) for each in fields]
    renamed = rename_columns(_attach_ids(StructType(fields)), physical_name)
    stored = spark_schema_from_schema(renamed, (_SPARKS_ID,))
    return [
        _stored_column(_value(each, definition), each, wanted)
        for each, wanted in zip(fields, stored, strict=True)
    ]


def _value(field: StructField, definition: TableDefinition) -> Column:
    """The column of a field. An empty string in a partition column becomes null, as in the log."""
    column = named_column(field.name)
    if field.name in definition.partition_columns and field.data_type in (STRING, BINARY):
        return sf.nullif(column, sf.lit("").cast(_spark_type(field.data_type)))
    return column


def _stored_column(column: Column, field: StructField, wanted: spark_types.StructField) -> Column:
    if isinstance(field.data_type, StructType | ArrayType | MapType):
        column = column.cast(wanted.dataType)  # a cast renames struct fields by position
    return column.alias(wanted.name, metadata=wanted.metadata)


def select_table_columns(
    rows: DataFrame,
    definition: TableDefinition,
    fields: Sequence[StructField],
    extra: Sequence[tuple[str, str]] = (),
) -> DataFrame:
    """Select the table's columns from rows with the columns of `stored_schema` and `log_schema`.

    Args:
        extra: Further columns to keep, as pairs of old and new name.
    """
    stored = [_drop_void(_rename_as_stored(definition, (each,))).fields for each in fields]
    renamed = [
        (source[0].name, each.name)
        for source, each in zip(stored, fields, strict=True)
        if source and _is_as_stored(source[0].data_type, each.data_type)
    ]
    if len(renamed) == len(fields):
        return select_columns(rows, [*renamed, *extra])
    return rows.select(
        *(_table_column(source, each) for source, each in zip(stored, fields, strict=True)),
        *(named_column(stored).alias(name) for stored, name in extra),
    )


def _table_column(stored: Sequence[StructField], field: StructField) -> Column:
    if not stored:
        return _null(field.data_type).alias(field.name)
    (source,) = stored
    column = _convert(named_column(source.name), source.data_type, field.data_type)
    return column.alias(field.name)


def is_void(data_type: DataType) -> bool:
    """Whether no file can store the type, because none of its leaf fields has a type."""
    match data_type:
        case StructType(fields=fields):
            return all(is_void(each.data_type) for each in fields)
        case ArrayType(element_type=element_type):
            return is_void(element_type)
        case MapType(key_type=key_type, value_type=value_type):
            return is_void(key_type) or is_void(value_type)
    return data_type == VOID


def _drop_void(data_type: T) -> T:
    """The type without void fields, at every depth."""

    def drop(struct: StructType) -> StructType:
        return StructType(tuple(each for each in struct.fields if not is_void(each.data_type)))

    return map_structs(data_type, drop)


def _is_as_stored(source: DataType, wanted: DataType) -> bool:
    return _drop_void(wanted) == wanted and _spark_type(source) == _spark_type(wanted)


def _convert(column: Column, source: DataType, wanted: DataType) -> Column:
    """Convert a column to the table's field names, and add its void fields as null."""
    if _is_as_stored(source, wanted):
        return column
    if _drop_void(wanted) == wanted:
        return column.cast(_spark_type(wanted))  # a cast renames struct fields by position
    match source, wanted:
        case StructType(), StructType():
            stored = iter(source.fields)
            members = [
                _null(each.data_type).alias(each.name)
                if is_void(each.data_type)
                else _member(column, next(stored), each)
                for each in wanted.fields
            ]
            return sf.when(column.isNotNull(), sf.struct(*members))
        case ArrayType(element_type=element), ArrayType(element_type=wanted_element):
            return sf.transform(column, lambda each: _convert(each, element, wanted_element))
        case MapType(), MapType():
            keys, values = (
                (source.key_type, wanted.key_type),
                (source.value_type, wanted.value_type),
            )
            column = sf.transform_keys(column, lambda key, _: _convert(key, *keys))
            return sf.transform_values(column, lambda _, item: _convert(item, *values))
    return column


def _member(parent: Column, source: StructField, wanted: StructField) -> Column:
    member = _convert(parent.getField(source.name), source.data_type, wanted.data_type)
    return member.alias(wanted.name)


def _null(data_type: DataType) -> Column:
    return sf.lit(None).cast(_spark_type(data_type))


def _spark_type(data_type: DataType) -> spark_types.DataType:
    return spark_schema_from_schema(StructType((StructField("_", data_type),)), ())[0].dataType


def _rename_as_stored(definition: TableDefinition, fields: Sequence[StructField]) -> StructType:
    validate_levels(StructType(tuple(fields)))
    match definition.mapping_mode:
        case "name":
            return rename_columns(StructType(tuple(fields)), physical_name)
        case "id":
            stored = _attach_ids(StructType(tuple(fields))).fields
            return StructType(tuple(replace(each, name=_name_of_no_file(each)) for each in stored))
    return StructType(tuple(fields))


def _name_of_no_file(field: StructField) -> str:
    number = field_id(field)
    return field.name if number is None else f"delta_ops id {number}"


def _attach_ids(schema: StructType) -> StructType:
    """Add Spark's field ids to the columns, at every depth."""

    def attach(struct: StructType) -> StructType:
        return StructType(tuple(map(_attach_id, struct.fields)))

    return map_structs(schema, attach)


def _attach_id(field: StructField) -> StructField:
    number = field_id(field)
    return (
        field if number is None else replace(field, metadata={**field.metadata, _SPARKS_ID: number})
    )
