"""Field metadata: what the fields of data say of the columns of a table that is made of them.

Comments, defaults, invariants, generation expressions and identities are Delta's, which has a type
for each; data have texts. Other keys are kept as they are. What says only where other files hold a
column is left behind, and what a column cannot have is refused.

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
"""Keys that say how the files of another table hold a column."""
_OF_COLUMNS = (CURRENT_DEFAULT, _GENERATED, _IDENTITY)
"""Beginnings of keys that no field of a struct can have."""
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
    "comment": (lambda value: value if isinstance(value, str) else None, "a text"),
    CURRENT_DEFAULT: (_text, "a text of SQL"),
    _GENERATED: (_text, "a text of SQL"),
    "delta.invariants": (_text, 'a text such as {"expression": {"expression": "a > 0"}}'),
    f"{_IDENTITY}start": (_whole_number, "a whole number"),
    f"{_IDENTITY}step": (_whole_number, "a whole number"),
    f"{_IDENTITY}highWaterMark": (_whole_number, "a whole number"),
    f"{_IDENTITY}allowExplicitInsert": (_flag, "true or false"),
}
"""What Delta knows, as it has it, and what to give."""


def column_metadata(given: Mapping[Any, Any], path: ColumnPath) -> dict[str, Any]:
    """The metadata of a column of a new table.

    Args:
        given: The metadata of a field of data; in Arrow keys and values are bytes.
        path: The column or the field of a struct.

    Raises:
        InvalidRequestError: A key or value is none that a column can have.
    """
    column = ".".join(path)
    found: dict[str, Any] = {}
    for raw_key, raw_value in given.items():
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
                f"Column {column} has the metadata {key}, of which delta_ops knows nothing that "
                "data may say; leave it out."
            )
        found[key] = value
    return found


def refuse_metadata(given: Mapping[Any, Any], path: ColumnPath) -> None:
    """Refuse metadata of elements of arrays, or of keys and values of maps, that Delta would have.

    Raises:
        InvalidRequestError: With the key.
    """
    for key in column_metadata(given, path[:1]):
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
            f"Column {column} has the metadata {value!r}, which is no text of UTF-8; leave it out."
        ) from error
