"""Given settings: values that metadata have under our keys, and what they must be.

Metadata hold whatever a user likes. A key that begins with `delta/` or `delta.`, or that is one of
ours in another spelling, is meant for us; where it is none that we know, it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import dagster as dg

from delta_ops.errors import InvalidRequestError

Metadata = Mapping[str, Any]
ReadMetadata = Callable[[Metadata, str], Metadata]
"""Puts metadata into our words; the text names their place, for errors."""
_PREFIXES = ("delta/", "delta.")


class Given(NamedTuple):
    """A value, and where it stands."""

    key: str
    value: Any
    place: str
    rank: int = 0
    """The place is this far away; 0 is the nearest."""

    def refuse(self, wanted: str, outcome: str = "Nothing was written") -> InvalidRequestError:
        """The error that says what the value is and what it should be."""
        return InvalidRequestError(
            f"{self.place} have the {self.key} {self.value!r}, of type {type(self.value).__name__};"
            f" give {wanted}. {outcome}"
        )


def first_given(key: str, places: Sequence[tuple[str, Metadata]]) -> Given:
    """The value of a key in the first place that has it; None where none has.

    Args:
        places: How errors call each, and its metadata.
    """
    for rank, (place, metadata) in enumerate(places):
        if key in metadata:
            value = metadata[key]
            value = value.value if isinstance(value, dg.MetadataValue) else value
            return Given(key, value, place, rank)
    return Given(key, None, places[-1][0], len(places) - 1)


def validate_keys(
    place: str,
    metadata: Metadata,
    known: Collection[str],
    *,
    only_ours: bool = False,
    outcome: str = "Nothing was written",
) -> None:
    """Reject a key that is meant for us and is none of ours.

    Args:
        place: Where it was found, in the plural, for errors: "the metadata of asset orders".
        only_ours: Whether the metadata hold nothing else.
        outcome: Ends the error.

    Raises:
        InvalidRequestError: With the key and the nearest that is known.
    """
    for key in metadata:
        if key in known or not (only_ours or _is_meant_for_us(key, known)):
            continue
        (nearest,) = get_close_matches(key, known, n=1, cutoff=0)
        cure = f"the nearest that does is {nearest!r}"
        if key.startswith("delta."):
            cure += ", and properties of a new table go into 'delta/configuration'"
        raise InvalidRequestError(
            f"{place} have the key {key!r}, which says nothing; {cure}. {outcome}"
        )


def _is_meant_for_us(key: str, known: Collection[str]) -> bool:
    if key.strip().lower().startswith(_PREFIXES):
        return True
    return _spelling(key) in map(_spelling, known)


def _spelling(key: str) -> str:
    """Letters alone: `partitionExpr` and `delta-mode` are spellings of keys."""
    return re.sub("[^a-z]", "", key.lower())


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
