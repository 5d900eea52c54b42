"""Field metadata: takes column metadata of a new table from the fields of data.

Comments, defaults, invariants, generation expressions and identities have a fixed type in Delta,
while data hold them as texts; they are converted. Keys that describe the storage in other files are
dropped. Keys that a column cannot have are rejected. All other keys are kept unchanged.

Source: PROTOCOL.md, "Generated Columns", "Default Columns", "Identity Columns", "Column
Invariants".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import CURRENT_DEFAULT, ColumnPath

_IDENTITY = "delta.identity."
_GENERATED = "delta.generationExpression"
_OF_FILES = frozenset(
    {
        "PARQUET:field_id",
        "parquet.field.id",
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.columnMapping.nested.ids",
        "delta.typeChanges",
    }
)
"""Keys that describe how another table's files store a column."""
_OF_COLUMNS = (CURRENT_DEFAULT, _GENERATED, _IDENTITY)
"""Prefixes of keys that struct fields cannot have."""
_RESERVED = ("delta.", "delta_ops.", "__COLLATIONS")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _whole_number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value))


_KNOWN: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "comment": (lambda value: value if isinstance(value, str) else None, "a string"),
    CURRENT_DEFAULT: (_text, "a SQL string"),
    _GENERATED: (_text, "a SQL string"),
    "delta.invariants": (_text, 'a string such as {"expression": {"expression": "a > 0"}}'),
    f"{_IDENTITY}start": (_whole_number, "a whole number"),
    f"{_IDENTITY}step": (_whole_number, "a whole number"),
    f"{_IDENTITY}highWaterMark": (_whole_number, "a whole number"),
    f"{_IDENTITY}allowExplicitInsert": (_flag, "true or false"),
}
"""Converter of each known key, and a description of its valid values."""


def column_metadata(metadata: Mapping[Any, Any], path: ColumnPath) -> dict[str, Any]:
    """The metadata of a column of a new table.

    Args:
        metadata: The metadata of a field of data; Arrow keys and values are bytes.
        path: The column or struct field.

    Raises:
        InvalidRequestError: A column cannot have the key or value.
    """
    column = ".".join(path)
    found: dict[str, Any] = {}
    for raw_key, raw_value in metadata.items():
        key, value = (_decode(each, column) for each in (raw_key, raw_value))
        if key in _OF_FILES:
            continue
        if len(path) > 1 and key.startswith(_OF_COLUMNS):
            raise InvalidRequestError(
                f"Field {column} has the metadata {key}, which only columns can have; leave it "
                "out, or make the field a column."
            )
        if key in _KNOWN:
            convert, wanted = _KNOWN[key]
            if (converted := convert(value)) is None:
                raise InvalidRequestError(
                    f"Column {column} has the metadata {key}: {value!r}; give {wanted}."
                )
            value = converted
        elif key.startswith(_RESERVED):
            raise InvalidRequestError(
                f"Column {column} has the metadata {key}, a reserved key that data cannot set; "
                "leave it out."
            )
        found[key] = value
    return found


def refuse_metadata(metadata: Mapping[Any, Any], path: ColumnPath) -> None:
    """Reject Delta's metadata keys on array elements, map keys and map values.

    Raises:
        InvalidRequestError: The message names the key.
    """
    for key in column_metadata(metadata, path[:1]):
        if key in _KNOWN:
            raise InvalidRequestError(
                f"{'.'.join(path)} has the metadata {key}, which only columns and fields of "
                "structs can have; leave it out."
            )


def _decode(value: Any, column: str) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"Column {column} has the metadata {value!r}, which is not valid UTF-8; leave it out."
        ) from error
