"""Given settings: values that metadata have under our keys, and what they must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg

from delta_ops.errors import InvalidRequestError

Metadata = Mapping[str, Any]


class Given(NamedTuple):
    """A value, and where it stands."""

    key: str
    value: Any
    place: str

    def refuse(self, wanted: str) -> InvalidRequestError:
        """The error that says what the value is and what it should be."""
        return InvalidRequestError(
            f"{self.place} have the {self.key} {self.value!r}, of type {type(self.value).__name__};"
            f" give {wanted}. Nothing was written"
        )


def first_given(key: str, places: Sequence[tuple[str, Metadata]]) -> Given:
    """The value of a key in the first place that has it; None where none has.

    Args:
        places: How errors call each, and its metadata.
    """
    for place, metadata in places:
        if key in metadata:
            value = metadata[key]
            return Given(key, value.value if isinstance(value, dg.MetadataValue) else value, place)
    return Given(key, None, places[-1][0])


def read_flag(given: Given) -> bool:
    """True or False."""
    if given.value is None or isinstance(given.value, bool):
        return bool(given.value)
    raise given.refuse("True or False")


def read_columns(given: Given) -> tuple[str, ...] | None:
    """A column or several."""
    match given.value:
        case None:
            return None
        case str() as column:
            return (column,)
        case [*columns] if all(isinstance(column, str) for column in columns):
            return tuple(columns)
    raise given.refuse("a column or a list of columns")


def read_texts(given: Given, wanted: str) -> Mapping[str, str] | None:
    """Texts by texts."""
    value = given.value
    if value is None:
        return None
    if isinstance(value, Mapping) and all(isinstance(t, str) for i in value.items() for t in i):
        return value
    raise given.refuse(f"a mapping of {wanted}")


def are_texts(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
