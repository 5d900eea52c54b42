"""Column mapping: the names that columns have in files, where these are not the table's names.

Source: PROTOCOL.md, "Column Mapping". Partition values and statistics go by physical names at every
depth of structs; all else that users see goes by logical ones.
"""

from __future__ import annotations

from dataclasses import replace

from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.predicate_nodes import And, Comparison, In, IsNull, Not, Or, Predicate
from delta_ops.protocol.schema import StructField, StructType, find_field
from delta_ops.protocol.stats import ColumnPath

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def is_mapped(metadata: Metadata) -> bool:
    """Whether the table's columns have names of their own in files."""
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower() != "none"


def physical_name(field: StructField) -> str:
    """The field's name in the files of a mapped table."""
    name = field.metadata.get(_PHYSICAL_NAME)
    return name if isinstance(name, str) else field.name


def physical_predicate(predicate: Predicate, schema: StructType) -> Predicate:
    """A predicate, resolved in the logical schema, over physical names."""
    match predicate:
        case Comparison() | In() | IsNull():
            return replace(predicate, column=_physical_path(predicate.column, schema))
        case And(operands):
            return And(tuple(physical_predicate(each, schema) for each in operands))
        case Or(operands):
            return Or(tuple(physical_predicate(each, schema) for each in operands))
        case Not(operand):
            return Not(physical_predicate(operand, schema))
    return predicate


def _physical_path(path: ColumnPath, schema: StructType) -> ColumnPath:
    field = find_field(schema, path[0])
    if len(path) == 1 or not isinstance(field.data_type, StructType):
        return (physical_name(field), *path[1:])
    return (physical_name(field), *_physical_path(path[1:], field.data_type))
