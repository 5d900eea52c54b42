"""Words: settings under the names that other integrations have for them, in our own. Pure.

A reader makes of a value the settings that it stands for. A word that asks for nothing that would
not be done anyway stands for none; one that asks for what we do not do is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError

Reader = Callable[[Any, str], Mapping[str, Any]]
"""Takes a value, and the place and the name under which it was found, for errors."""
Words = Mapping[str, Reader]
"""Readers by the names that another integration has."""


def read_words(given: Mapping[str, Any], place: str, words: Words) -> dict[str, Any]:
    """What is given, with other integrations' words in ours; whatever is no such word stays.

    Args:
        place: Where it was found, in the plural, for errors: "the metadata of asset orders".

    Raises:
        InvalidRequestError: A word asks for what is not done, or two say the same.
    """
    read = {name: value for name, value in given.items() if name not in words}
    for name in given:
        value = _plain_value(given[name])
        if name not in words or value is None:
            continue
        for ours, setting in words[name](value, f"{place} have {name}").items():
            if ours in read:
                raise InvalidRequestError(
                    f"{place} have {name} beside another word for {ours}; leave one of them out"
                )
            read[ours] = setting
    return read


def rename(ours: str) -> Reader:
    """The reader of a word that has the same values as ours."""
    return lambda value, _said: {ours: value}


def need_nothing(*_given: object) -> Mapping[str, Any]:
    """The reader of a word that asks for what is done anyway."""
    return {}


def refuse(
    reason: str,
    *,
    unless: tuple[Any, ...] = (False, {}),
    outcome: str = "Nothing was written",
) -> Reader:
    """The reader of a word that asks for what is not done.

    Args:
        reason: A half-sentence that says why, and what to do.
        unless: Values that ask for nothing.
        outcome: Ends the error.
    """

    def read(value: Any, said: str) -> Mapping[str, Any]:
        if value in unless:
            return {}
        raise InvalidRequestError(f"{said}: {reason}. {outcome}")

    return read


def read_schema_mode(value: Any, said: str) -> Mapping[str, Any]:
    """The reader of `schema_mode`, "merge" or "overwrite"."""
    if value not in ("merge", "overwrite"):
        raise InvalidRequestError(f"{said} {value!r}; choose merge or overwrite")
    return {
        "delta/merge_schema": value == "merge",
        "delta/overwrite_schema": value == "overwrite",
    }


def read_commit_properties(value: Any, said: str) -> Mapping[str, Any]:
    """The reader of `commit_properties`, of which `custom_metadata` are known."""
    if not isinstance(value, Mapping) or set(value) - {"custom_metadata"}:
        raise InvalidRequestError(
            f"{said}, of which only custom_metadata are known here; a commit is tried again, and "
            "has its identity, without being told to"
        )
    texts = value.get("custom_metadata")
    return {} if texts is None else {"delta/user_metadata": texts}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dg.MetadataValue):
        value = value.value
    return value.value if isinstance(value, Enum) else value
