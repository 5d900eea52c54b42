"""The first actions of a table: its protocol and its metadata.

Source: PROTOCOL.md, "Change Metadata" and "Protocol Evolution".
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.columns.defaults import validate_defaults
from delta_ops.protocol.columns.generated import validate_generated
from delta_ops.protocol.properties.known import COLUMN_MAPPING_MODE
from delta_ops.protocol.protocol_upgrade import OLDEST, add_features
from delta_ops.protocol.schema import (
    NO_COLUMNS,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructType,
    schema_to_json,
    walk,
)
from delta_ops.protocol.schema.column_names import find_named
from delta_ops.protocol.schema.nesting import MAX_LEVELS, levels
from delta_ops.protocol.table_definition import TableDefinition, needed_features

# Parquet readers of other engines fail on these where column mapping is off; the reference refuses
# them too.
_FORBIDDEN = set(" ,;{}()\n\t=")
_SHOWN_PARTS = 8
"""Parts of a name that a message has room for."""


def new_metadata(
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    created_ms: int,
) -> Metadata:
    """The metadata of a new table.

    Raises:
        InvalidRequestError: A name, partition column or property cannot be used.
    """
    for what, text in (("name", name), ("description", description)):
        if not isinstance(text, str | None):
            raise InvalidRequestError(f"the table's {what} is {text!r}; give a text or None")
    validate_names(schema, is_mapped=_asks_for_mapping(configuration or {}))
    partition_by = _partition_columns(schema, partition_by)
    _validate_partitioning(schema, partition_by)
    validate_generated(schema)
    validate_defaults(schema, schema)
    return Metadata(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        schema_string=schema_to_json(schema),
        partition_columns=tuple(partition_by),
        configuration=dict(configuration or {}),
        created_time=created_ms,
    )


def new_protocol(metadata: Metadata, asked: Iterable[str] = ()) -> Protocol:
    """The lowest protocol that the table's types, properties and constraints allow.

    Args:
        asked: Features that were asked for by name.
    """
    definition = TableDefinition(protocol=OLDEST, metadata=metadata)
    return add_features(OLDEST, (*needed_features(definition), *asked))


def validate_names(
    schema: StructType, known: StructType = NO_COLUMNS, *, is_mapped: bool = False
) -> None:
    """Refuse columns that cannot be made.

    Args:
        known: Columns of a table, which has their names, whatever these are.
        is_mapped: Files have other names, and so columns may have any.

    Raises:
        InvalidRequestError: There is none, one is there twice, or one has a name that other
            engines cannot read, or a type that files cannot have: variants for the keys of a map,
            a struct without fields, levels beyond those that readers take.
    """
    if not schema.fields:
        raise InvalidRequestError("a table needs at least one column")
    known_types = [data_type for _, data_type in walk(known)]
    for path, data_type in walk(schema):
        fault = _fault_of_type(data_type, is_column=len(path) == 1)
        if fault and data_type not in known_types:
            raise InvalidRequestError(f"column {'.'.join(path[:_SHOWN_PARTS])!r} is {fault}")
    forbidden = set() if is_mapped else _FORBIDDEN
    kept = {f.name for t in _types(known) if isinstance(t, StructType) for f in t.fields}
    for struct in (t for t in _types(schema) if isinstance(t, StructType)):
        folded = Counter(field.name.lower() for field in struct.fields)
        for field in struct.fields:
            if folded[field.name.lower()] > 1:
                raise InvalidRequestError(
                    f"column {field.name!r} stands there twice (case does not count); rename one"
                )
            if not field.name:
                raise InvalidRequestError("a column has no name; give it one")
            if field.name not in kept and forbidden & set(field.name):
                raise InvalidRequestError(
                    f"column {field.name!r} has a character that Delta tables forbid in names "
                    "(space , ; { } ( ) = tab or line end); rename it, or set "
                    "delta.columnMapping.mode to name for the table"
                )


def _asks_for_mapping(configuration: Mapping[str, str]) -> bool:
    return COLUMN_MAPPING_MODE.value_in(configuration) != "none"


def _partition_columns(schema: StructType, names: Sequence[str]) -> tuple[str, ...]:
    found = []
    for name in names:
        try:
            found.append(find_named(schema, name).name)
        except UnknownColumnError as error:
            raise InvalidRequestError(
                f"partition column {name!r} is not in the data; its columns are "
                f"{', '.join(field.name for field in schema.fields)}"
            ) from error
    return tuple(found)


def _validate_partitioning(schema: StructType, partition_by: Sequence[str]) -> None:
    by_name = {field.name: field.data_type for field in schema.fields}
    for name in partition_by:
        if isinstance(by_name[name], StructType | ArrayType | MapType):
            raise InvalidRequestError(
                f"partition column {name!r} is nested; partition by a column of a primitive type"
            )
        if by_name[name] == VARIANT:
            raise InvalidRequestError(
                f"partition column {name!r} is a variant, of which no path can tell the value; "
                "partition by a column taken out of it"
            )
    if len(set(partition_by)) < len(partition_by):
        raise InvalidRequestError("a partition column is named twice")
    if len(partition_by) == len(by_name):
        raise InvalidRequestError("every column is a partition column; leave one for the files")


def _fault_of_type(data_type: DataType, *, is_column: bool) -> str:
    """Why files cannot have a type; "" where they can."""
    if isinstance(data_type, MapType) and VARIANT in _types(data_type.key_type):
        return (
            "a map whose keys hold variants, which cannot be compared; take another type for the "
            "keys"
        )
    if data_type == NO_COLUMNS:
        return "a struct without fields, which Parquet has not; add one, or leave out the column"
    if is_column and levels(data_type) > MAX_LEVELS:
        return (
            f"nested too deeply: a file would have more than {MAX_LEVELS} levels, two for each "
            "array or map and one for each struct, and readers would refuse it"
        )
    return ""


def _types(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    match data_type:
        case StructType(fields=fields):
            for field in fields:
                yield from _types(field.data_type)
        case ArrayType(element_type=element):
            yield from _types(element)
        case MapType(key_type=key, value_type=value):
            yield from _types(key)
            yield from _types(value)
