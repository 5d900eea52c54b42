"""Column ids: permanent ids and physical names for the columns of a mapped table.

Source: PROTOCOL.md, "Column Mapping", "Writer Requirements for Column Mapping".

Each column, and each struct field at any depth, has an id and a physical name. Elements of arrays,
keys and values of maps have neither. A table never assigns an id twice, even after its column is
dropped: `delta.columnMapping.maxColumnId` only grows. If an existing table becomes mapped, its
columns keep their names in files, since existing files already use them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.columns.mapping import (
    ID,
    PHYSICAL_NAME,
    field_id,
    is_mapped,
    mapping_mode,
)
from delta_ops.protocol.properties.known import MAX_COLUMN_ID
from delta_ops.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    map_structs,
    schema_from_json,
    schema_to_json,
)

_NewName = Callable[[StructField], str]


def new_physical_name() -> str:
    """Make a unique name, in the form of the reference."""
    return f"col-{uuid.uuid4()}"


def assign_column_ids(
    metadata: Metadata,
    before: Metadata | None,
    table: str,
    new_name: Callable[[], str] = new_physical_name,
) -> Metadata:
    """Add an id and a physical name to every column; unchanged without column mapping.

    A new column without both takes them from the table's column at the same path, if the types are
    equal. As in the reference, an overwritten schema thus keeps as much as possible.

    Args:
        before: The table's metadata; None for a new table.
        table: For messages.

    Raises:
        InvalidRequestError: The mode changes other than from none to name, or two columns share an
            id or a physical name.
    """
    if before is not None:
        _validate_mode(before, metadata, table)
    if not is_mapped(metadata):
        return metadata
    schema = schema_from_json(metadata.schema_string)
    becomes_mapped = before is not None and not is_mapped(before)
    numbers = _Numbers(max(_max_id(each) for each in (metadata, before) if each is not None))
    data_ids = frozenset(field_id(each) for _, each in _fields(schema))
    keep = _Kept(None if before is None else schema_from_json(before.schema_string), data_ids)
    name_of: _NewName = (lambda each: each.name) if becomes_mapped else (lambda _: new_name())
    assigned = _assign(schema, keep, numbers, name_of)
    _validate_distinct(assigned, table)
    return replace(
        metadata,
        schema_string=schema_to_json(assigned),
        configuration={**metadata.configuration, MAX_COLUMN_ID.name: str(numbers.last)},
    )


def name_as_stored(schema: StructType) -> StructType:
    """The schema with column names as physical names, for files without column mapping."""

    def name_fields(struct: StructType) -> StructType:
        named = (
            replace(each, metadata={**each.metadata, PHYSICAL_NAME: each.name})
            for each in struct.fields
        )
        return StructType(tuple(named))

    return map_structs(schema, name_fields)


class _Numbers:
    """Generates ids after the last assigned id."""

    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


class _Kept:
    """Existing columns of the table, at one path of its schema.

    Args:
        given: Ids that the new schema already has, such as the id of a renamed column.
    """

    def __init__(self, data_type: DataType | None, data_ids: frozenset[int | None]) -> None:
        self._type, self._data_ids = data_type, data_ids

    def field(self, name: str) -> StructField | None:
        if not isinstance(self._type, StructType):
            return None
        found = self._type.fields_by_lower_name.get(name.lower(), ())
        return next((each for each in found if each.name == name), found[0] if found else None)

    def mapping_of(self, field: StructField) -> Mapping[str, object]:
        """Id and physical name of the table's column with this name and type."""
        found = self.field(field.name)
        if found is None or field_id(found) in self._data_ids:
            return {}
        if bare_type(found.data_type) != bare_type(field.data_type):
            return {}
        return {key: found.metadata[key] for key in (ID, PHYSICAL_NAME) if key in found.metadata}

    def child(self, name: str) -> _Kept:
        found = self.field(name)
        return _Kept(found.data_type if found else None, self._data_ids)

    def member(self, of: str) -> _Kept:
        match self._type, of:
            case ArrayType(element_type=inner), "element":
                return _Kept(inner, self._data_ids)
            case MapType(key_type=inner), "key":
                return _Kept(inner, self._data_ids)
            case MapType(value_type=inner), "value":
                return _Kept(inner, self._data_ids)
        return _Kept(None, self._data_ids)


def bare_type(data_type: DataType) -> DataType:
    """The type of the values alone: without nullability, metadata and the case of names."""
    match data_type:
        case StructType(fields=fields):
            return StructType(
                tuple(StructField(f.name.lower(), bare_type(f.data_type)) for f in fields)
            )
        case ArrayType(element_type=element):
            return ArrayType(bare_type(element))
        case MapType(key_type=key, value_type=value):
            return MapType(bare_type(key), bare_type(value))
    return data_type


def _assign(schema: StructType, keep: _Kept, numbers: _Numbers, name_of: _NewName) -> StructType:
    return StructType(tuple(_assign_field(f, keep, numbers, name_of) for f in schema.fields))


def _assign_field(
    field: StructField, keep: _Kept, numbers: _Numbers, name_of: _NewName
) -> StructField:
    metadata = {**keep.mapping_of(field), **field.metadata}
    if type(metadata.get(ID)) is not int:
        metadata[ID] = numbers.next()
    if not isinstance(metadata.get(PHYSICAL_NAME), str):
        metadata[PHYSICAL_NAME] = name_of(field)
    inner = _assign_type(field.data_type, keep.child(field.name), numbers, name_of)
    return replace(field, data_type=inner, metadata=metadata)


def _assign_type(
    data_type: DataType, keep: _Kept, numbers: _Numbers, name_of: _NewName
) -> DataType:
    match data_type:
        case StructType():
            return _assign(data_type, keep, numbers, name_of)
        case ArrayType(element_type=element):
            inner = _assign_type(element, keep.member("element"), numbers, name_of)
            return replace(data_type, element_type=inner)
        case MapType(key_type=key, value_type=value):
            return replace(
                data_type,
                key_type=_assign_type(key, keep.member("key"), numbers, name_of),
                value_type=_assign_type(value, keep.member("value"), numbers, name_of),
            )
    return data_type


def _max_id(metadata: Metadata) -> int:
    """The highest id in the metadata of a table."""
    fields = _fields(schema_from_json(metadata.schema_string))
    ids = [number for _, each in fields if (number := field_id(each)) is not None]
    return max(MAX_COLUMN_ID.value_in(metadata.configuration), *ids, 0)


def _fields(data_type: DataType, path: tuple[str, ...] = ()) -> Iterator[_Placed]:
    """Every field at every depth, with its path of physical names."""
    match data_type:
        case StructType(fields=fields):
            for each in fields:
                name = each.metadata.get(PHYSICAL_NAME, each.name)
                inner = (*path, str(name))
                yield inner, each
                yield from _fields(each.data_type, inner)
        case ArrayType(element_type=element):
            yield from _fields(element, (*path, "element"))
        case MapType(key_type=key, value_type=value):
            yield from _fields(key, (*path, "key"))
            yield from _fields(value, (*path, "value"))


_Placed = tuple[tuple[str, ...], StructField]


def _validate_mode(before: Metadata, after: Metadata, table: str) -> None:
    old, new = mapping_mode(before), mapping_mode(after)
    if old != new and (old, new) != ("none", "name"):
        raise InvalidRequestError(
            f"{table}: delta.columnMapping.mode cannot change from {old} to {new}, because the "
            "data files would have to be rewritten. Only none can become name; drop the feature "
            "columnMapping to return to none, or write the rows to a new table",
            "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        )


def _validate_distinct(schema: StructType, table: str) -> None:
    places: dict[object, StructField] = {}
    for path, each in _fields(schema):
        for what in (each.metadata[ID], path):
            other = places.setdefault(what, each)
            if other is not each:
                raise InvalidRequestError(
                    f"{table}: columns {other.name!r} and {each.name!r} have the same id or "
                    f"physical name ({what}); leave the delta.columnMapping metadata out, so that "
                    "new values are assigned"
                )
