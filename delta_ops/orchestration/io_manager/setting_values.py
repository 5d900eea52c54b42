"""Setting values: reads and validates metadata with keys of delta_ops.

Metadata may hold any keys. A key is meant for delta_ops if it begins with `delta/`, `delta.` or
`delta_ops/`, or if it is another spelling of a known key. Such a key is an error if it is unknown.

Only IO managers read the metadata of an input, so a name near a known key is an error there, such
as `colums` or `predicate`. Metadata of an asset may belong to anybody: a known key without its
prefix, such as `mode`, is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, NamedTuple

import dagster as dg

from delta_ops.errors import InvalidRequestError

Metadata = Mapping[str, Any]
ReadMetadata = Callable[[Metadata, str], Metadata]
"""Translates metadata to keys of delta_ops; the text names the metadata in errors."""
_PREFIX = re.compile(r"\s*delta([_-]?ops)?\s*[/.:]", re.IGNORECASE)
_CLOSE, CLOSE_OF_INPUTS = 0.95, 0.8
"""Similarity of a misspelt key, such as `partition_exprs`, to a key of ours.

A name near a short key, such as `column`, may be a key of somebody else, except in an input.
"""
_SYNONYMS = {"properties": "configuration", "tableproperties": "configuration"}
"""Other words for our keys, without punctuation."""


class Setting(NamedTuple):
    """The value of a key, and the metadata that have it."""

    key: str
    value: Any
    place: str
    rank: int = 0
    """Number of nearer places; 0 for the nearest place."""

    def rejection(self, wanted: str, outcome: str = "Nothing was written") -> InvalidRequestError:
        """The error for a wrong value.

        Args:
            wanted: The expected value, to follow "give".
            outcome: The end of the error.
        """
        return InvalidRequestError(
            f"{self.place} have the {self.key} {self.value!r}, of type {type(self.value).__name__};"
            f" give {wanted}. {outcome}"
        )


def first_setting(key: str, places: Sequence[tuple[str, Metadata]]) -> Setting:
    """The setting of the first place that has the key; its value is None if no place has it.

    Args:
        places: Name of each place for errors, and its metadata.
    """
    for rank, (place, metadata) in enumerate(places):
        if key in metadata:
            value = metadata[key]
            value = value.value if isinstance(value, dg.MetadataValue) else value
            return Setting(key, value, place, rank)
    return Setting(key, None, places[-1][0], len(places) - 1)


def validate_keys(
    place: str,
    metadata: Metadata,
    known: Collection[str],
    *,
    only_ours: bool = False,
    close: float = _CLOSE,
    outcome: str = "Nothing was written",
) -> None:
    """Reject an unknown key that is meant for delta_ops.

    Args:
        place: Name of the metadata for errors, in the plural: "the metadata of asset orders".
        only_ours: Whether the metadata may have no other keys.
        close: Similarity of a name without our prefix that counts as a misspelt key.
        outcome: The end of the error.

    Raises:
        InvalidRequestError: A key is unknown; the error names the nearest known key.
    """
    for key in metadata:
        if key in known:
            continue
        may_lack_prefix = only_ours or close < _CLOSE
        nearest, similarity = _nearest(key, tuple(known), may_lack_prefix=may_lack_prefix)
        if not (only_ours or _PREFIX.match(key) or similarity >= close):
            continue
        cure = f"the closest key is {nearest!r}"
        if key.startswith("delta."):
            cure += ", and properties of a new table go into 'delta/configuration'"
        raise InvalidRequestError(
            f"{place} have the key {key!r}, which is unknown; {cure}. {outcome}"
        )


def keys_without_prefix(metadata: Metadata, known: Collection[str]) -> Mapping[str, str]:
    """Known keys by the keys of the metadata that lack only their prefix, such as `mode`."""
    by_name = {_bare_name(key): key for key in known if _bare_name(key) != _spelling(key)}
    return {key: by_name[_spelling(key)] for key in metadata if _spelling(key) in by_name}


@lru_cache(maxsize=1000)  # the assets of a code location have the same keys
def _nearest(key: str, known: Sequence[str], *, may_lack_prefix: bool) -> tuple[str, float]:
    """The known key that is most like a key, and how similar they are."""
    names = (_spelling, _bare_name) if may_lack_prefix or _PREFIX.match(key) else (_spelling,)
    found = {each: max(_similarity(n(key), n(each)) for n in names) for each in known}
    return max(found.items(), key=lambda each: each[1])


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _bare_name(key: str) -> str:
    """The letters of a key without our prefix; a synonym has the letters of our key."""
    spelling = _spelling(_PREFIX.sub("", key, count=1))
    return _SYNONYMS.get(spelling, spelling)


def _spelling(key: str) -> str:
    """The letters of a key; `partitionExpr` and `delta-mode` are spellings of our keys."""
    return re.sub("[^a-z]", "", key.lower())


def read_flag(setting: Setting) -> bool:
    """Read True or False; the default is False."""
    if setting.value is None or isinstance(setting.value, bool):
        return bool(setting.value)
    raise setting.rejection("True or False")


def read_columns(setting: Setting) -> tuple[str, ...] | None:
    """Read one or several column names."""
    match setting.value:
        case None:
            return None
        case str() as column:
            return (column,)
        case [*columns] if all(isinstance(column, str) for column in columns):
            return tuple(columns)
    raise setting.rejection("a column or a list of columns")


def read_texts(setting: Setting, wanted: str) -> Mapping[str, str] | None:
    """Read a mapping of strings to strings."""
    value = setting.value
    if value is None:
        return None
    if isinstance(value, Mapping) and all(isinstance(t, str) for i in value.items() for t in i):
        return value
    raise setting.rejection(f"a mapping of {wanted}")


def are_texts(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
