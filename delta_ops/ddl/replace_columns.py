"""Replace columns: state all columns of a table anew, in their order and with their comments.

The new list may move columns, add columns and fields of structs, and set comments. It cannot
remove, rename or retype a column, because files and other writers rely on the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from delta_ops.ddl.alter import Alteration
from delta_ops.ddl.column_changes import field_json
from delta_ops.ddl.new_columns import NewColumn, new_field
from delta_ops.errors import InvalidRequestError, ReplacedColumnsError
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from delta_ops.protocol.schema.char_types import SQL_TYPE
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.schema.type_text import type_text
from delta_ops.transaction import Transaction
from delta_ops.transaction.table_change import SetColumns


def replace_columns(transaction: Transaction, columns: Sequence[NewColumn]) -> Alteration | None:
    """State all columns anew.

    Raises:
        ReplacedColumnsError: A column would be removed or retyped.
        InvalidRequestError: A name is repeated or is the path of a field.
    """
    given = StructType(tuple(new_field(_name_of(each), each) for each in columns))
    merged = _merge(transaction.schema, given, ())
    if merged == transaction.schema:
        return None
    transaction.change_table(SetColumns(schema=merged))
    shown = [field_json((), each) for each in transaction.schema.fields]
    return Alteration(operation="REPLACE COLUMNS", parameters={"columns": shown})


def _name_of(column: NewColumn) -> str:
    path = path_of_name(column.name, StructType())
    if len(path) > 1:
        raise InvalidRequestError(
            f"{column.name} is a field; write the whole column with a type such as STRUCT<a: INT>"
        )
    return path[0]


def _merge(known: StructType, given: StructType, parent: tuple[str, ...]) -> StructType:
    """Columns in the new order; existing fields keep their metadata and nullability."""
    names = [each.name.lower() for each in given.fields]
    if len(set(names)) < len(names):
        raise InvalidRequestError("a column is named twice; name it once")
    missing = [each.name for each in known.fields if each.name.lower() not in names]
    if missing:
        shown = ", ".join(name_of_path((*parent, each)) for each in missing)
        raise ReplacedColumnsError(
            f"the new list lacks {shown}; name all columns, and remove columns with DROP COLUMNS"
        )
    fields: list[StructField] = []
    for field in given.fields:
        existing = known.fields_by_lower_name.get(field.name.lower(), ())
        fields += [_merge_field(each, field, parent) for each in existing] or [field]
    return StructType(tuple(fields))


def _merge_field(known: StructField, given: StructField, parent: tuple[str, ...]) -> StructField:
    path = (*parent, known.name)
    types = [each.metadata.get(SQL_TYPE, type_text(each.data_type)) for each in (known, given)]
    if SQL_TYPE in {*known.metadata, *given.metadata} and types[0] != types[1]:
        raise ReplacedColumnsError(
            f"column {name_of_path(path)} of type {types[0]} cannot become {types[1]}; change "
            "types with ALTER COLUMN ... TYPE"
        )
    data_type = _merge_type(known.data_type, given.data_type, path)
    comment = {key: given.metadata[key] for key in ("comment",) if key in given.metadata}
    return replace(known, data_type=data_type, metadata={**known.metadata, **comment})


def _merge_type(known: DataType, given: DataType, path: tuple[str, ...]) -> DataType:
    match known, given:
        case StructType(), StructType():
            return _merge(known, given, path)
        case ArrayType(), ArrayType():
            element = _merge_type(known.element_type, given.element_type, (*path, "element"))
            return replace(known, element_type=element)
        case MapType(), MapType():
            return replace(
                known,
                key_type=_merge_type(known.key_type, given.key_type, (*path, "key")),
                value_type=_merge_type(known.value_type, given.value_type, (*path, "value")),
            )
    if known != given:
        raise ReplacedColumnsError(
            f"column {name_of_path(path)} of type {known.name} cannot become {given.name}; change "
            "types with ALTER COLUMN ... TYPE"
        )
    return known
