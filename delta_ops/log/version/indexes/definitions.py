"""Definitions of the inverted indexes of a table.

`_delta_ops/indexes/<name>.json` defines an index, and `_delta_ops/indexes/<name>` is a Delta table
of its runs. The definition only leads to the runs: each run repeats the identity of its column, and
a run of another column or table is never used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.predicate.resolution import locate
from delta_ops.protocol.schema import (
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    LONG,
    MAX_DECIMAL_PRECISION,
    ColumnPath,
    DataType,
    DecimalType,
    StructType,
    collation,
    find_field,
)
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.values.literals import is_comparable
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.paths import OWN_DIRECTORY

INDEXES_DIRECTORY = f"{OWN_DIRECTORY}/indexes"
_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_SUFFIX = ".json"
_NARROW_DIGITS = 18
"""Decimals of at most this precision are stored in 8 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """An inverted index on one column of a table."""

    name: str
    id: str
    """Chosen at random when the index was created."""
    table_id: str
    """The id of the table in its metadata."""
    column: ColumnPath
    """The names of the column in data files; they outlive a renaming."""

    @property
    def path(self) -> str:
        """The definition's file, relative to the table's root."""
        return definition_path(self.name)

    @property
    def directory(self) -> str:
        """The directory of the runs, relative to the table's root."""
        return f"{INDEXES_DIRECTORY}/{self.name}"

    def to_json(self) -> bytes:
        """The content of the definition's file."""
        values = {
            "formatVersion": _FORMAT,
            "name": self.name,
            "id": self.id,
            "tableId": self.table_id,
            "column": list(self.column),
        }
        return json.dumps(values, ensure_ascii=False).encode()


def definition_path(name: str) -> str:
    """The file that defines an index, relative to the table's root."""
    return f"{INDEXES_DIRECTORY}/{name}{_SUFFIX}"


def validate_index_name(name: str) -> str:
    """Return the name of an index.

    Raises:
        InvalidRequestError: The name has other characters, or is too long.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{name!r} cannot name an index; use at most 100 letters, digits, '_' and '-', and "
            "begin with a letter or digit"
        )
    return name


def list_definitions(storage: Storage) -> tuple[list[IndexDefinition], list[str]]:
    """The indexes of a table, by name; also returns a sentence for each unreadable definition.

    Raises:
        StorageError: The store failed.
    """
    found = [each for each in storage.list_from(INDEXES_DIRECTORY, "") if _is_definition(each)]
    read = run_parallel(lambda file: _read(storage, file), found)
    problems = [each for each in read if isinstance(each, str)]
    return [each for each in read if isinstance(each, IndexDefinition)], problems


def has_definitions(storage: Storage) -> bool:
    """Whether a table has an index, readable or not.

    Raises:
        StorageError: The store failed.
    """
    return any(map(_is_definition, storage.list_from(INDEXES_DIRECTORY, "")))


def load_definition(storage: Storage, name: str) -> IndexDefinition | None:
    """The index of that name; None if there is none.

    Raises:
        InvalidRequestError: The name cannot name an index, or its definition is damaged.
        StorageError: The store failed.
    """
    validate_index_name(name)
    try:
        return _parse(storage.read(definition_path(name)), name)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InvalidRequestError(f"{storage.uri}: {_damage_sentence(name, error)}") from error


def find_column(column: ColumnPath, schema: StructType) -> tuple[ColumnPath, DataType]:
    """The physical names and the type of a column that can have an index.

    Args:
        column: The names of a column and of fields below it, as a user writes them.

    Raises:
        InvalidRequestError: The column does not exist, or its values have no order.
    """
    path, field = locate(column, schema)
    if not is_comparable(field.data_type):
        cure = "one of its fields" if isinstance(field.data_type, StructType) else "another column"
        raise InvalidRequestError(
            f"Column {name_of_path(path)} is of type {field.data_type.name}, whose values have no "
            f"order, so it cannot have an index; index {cure}"
        )
    if (name := collation(field)) is not None:
        raise InvalidRequestError(
            f"Column {name_of_path(path)} has the collation {name}, which delta_ops cannot "
            "compare, so it cannot have an index; index another column"
        )
    if char_length(path, find_field(schema, path[0])) is not None:
        raise InvalidRequestError(
            f"Column {name_of_path(path)} is of type CHAR, which compares as if padded with "
            "spaces, so it cannot have an index; change it to VARCHAR or STRING"
        )
    return physical_path(path, schema), field.data_type


def key_type(data_type: DataType) -> DataType:
    """The type of the values in an index; equal for types that widen without other values."""
    if data_type in INTEGER_RANGES:
        return LONG
    if data_type == FLOAT:
        return DOUBLE
    if isinstance(data_type, DecimalType):
        is_narrow = data_type.precision <= _NARROW_DIGITS
        return DecimalType(_NARROW_DIGITS if is_narrow else MAX_DECIMAL_PRECISION, data_type.scale)
    return data_type


def _is_definition(file: FileInfo) -> bool:
    name = file.path.rpartition("/")[2]
    return name.endswith(_SUFFIX) and bool(_NAME.fullmatch(name.removesuffix(_SUFFIX)))


def _read(storage: Storage, file: FileInfo) -> IndexDefinition | str | None:
    name = file.path.rpartition("/")[2].removesuffix(_SUFFIX)
    try:
        return _parse(storage.read(file.path), name)
    except FileNotFoundError:  # dropped since it was listed
        return None
    except ValueError as error:
        return _damage_sentence(name, error)


def _damage_sentence(name: str, error: ValueError) -> str:
    return (
        f"The definition of index {name} is damaged ({error}), so the index is not used; drop the "
        "index and create it again."
    )


def _parse(data: bytes, name: str) -> IndexDefinition:
    values: Any = json.loads(data)
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    if values.get("formatVersion") != _FORMAT:
        raise ValueError(f"its formatVersion is {values.get('formatVersion')!r}, not {_FORMAT}")
    texts = [values.get(key) for key in ("name", "id", "tableId")]
    column = values.get("column")
    if not all(isinstance(each, str) for each in texts) or not _is_path(column):
        raise ValueError("a field is missing")
    if values["name"] != name:
        raise ValueError(f"it names the index {values['name']!r}")
    return IndexDefinition(
        name=name, id=values["id"], table_id=values["tableId"], column=tuple(values["column"])
    )


def _is_path(column: Any) -> bool:
    return isinstance(column, Sequence) and bool(column) and all(isinstance(c, str) for c in column)
