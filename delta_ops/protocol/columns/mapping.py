"""Column mapping: names and ids of columns in files, where they differ from the table's names.

Source: PROTOCOL.md, "Column Mapping". Partition values and statistics use physical names at every
depth of structs; `table_definition` has the columns under both names. Data files use physical names
in mode `name`, and field ids in mode `id`. Everything else that users see uses logical names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.predicate.nodes import And, Comparison, In, IsNull, Not, Or, Predicate
from delta_ops.protocol.schema import (
    ColumnPath,
    StructField,
    StructType,
    find_field,
    leaves,
    map_structs,
)

ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
"""Keys of field metadata."""


def mapping_mode(metadata: Metadata) -> str:
    """`delta.columnMapping.mode` in lower case; "none" if it is not set."""
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower()


def is_mapped(metadata: Metadata) -> bool:
    """Whether the table's columns have separate names in files."""
    return mapping_mode(metadata) != "none"


def physical_name(field: StructField) -> str:
    """The field's name in the files of a mapped table."""
    name = field.metadata.get(PHYSICAL_NAME)
    return name if isinstance(name, str) else field.name


def field_id(field: StructField) -> int | None:
    """The field's id in the files of a table mapped by id."""
    value = field.metadata.get(ID)
    return value if type(value) is int else None


def rename_columns(schema: StructType, name_of: Callable[[StructField], str]) -> StructType:
    """Rename the columns at every depth."""

    def rename(struct: StructType) -> StructType:
        return StructType(tuple(replace(each, name=name_of(each)) for each in struct.fields))

    return map_structs(schema, rename)


def physical_predicate(predicate: Predicate, schema: StructType) -> Predicate:
    """Convert a resolved predicate from logical to physical names."""
    match predicate:
        case Comparison() | In() | IsNull():
            return replace(predicate, column=physical_path(predicate.column, schema))
        case And(operands):
            return And(tuple(physical_predicate(each, schema) for each in operands))
        case Or(operands):
            return Or(tuple(physical_predicate(each, schema) for each in operands))
        case Not(operand):
            return Not(physical_predicate(operand, schema))
    return predicate


def physical_path(path: ColumnPath, schema: StructType) -> ColumnPath:
    """The physical names from a top-level column down to a field of structs."""
    field = find_field(schema, path[0])
    if len(path) == 1 or not isinstance(field.data_type, StructType):
        return (physical_name(field), *path[1:])
    return (physical_name(field), *physical_path(path[1:], field.data_type))


def logical_path(path: ColumnPath, schema: StructType) -> ColumnPath:
    """The names of a leaf column as users see them; the path itself if no column has it."""
    found = (each for each, _ in leaves(schema) if physical_path(each, schema) == path)
    return next(found, path)
