"""Translations: settings of other integrations, translated to settings of delta_ops. No I/O.

A translation turns one foreign setting into settings of delta_ops. A setting without effect is
dropped. A setting for something that delta_ops does not support is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError

Translate = Callable[[Any, str], Mapping[str, Any]]
"""Takes a value, and a text for errors that names its place and key."""
Translations = Mapping[str, Translate]
"""Translations by the names of foreign settings."""


def translate(given: Mapping[str, Any], place: str, translations: Translations) -> dict[str, Any]:
    """Translate the foreign settings in a mapping, and keep the others.

    Args:
        place: Name of the mapping for errors, in the plural: "the metadata of asset orders".

    Raises:
        InvalidRequestError: A setting is not supported, or two settings mean the same.
    """
    read = {name: value for name, value in given.items() if name not in translations}
    for name in given:
        value = _plain_value(given[name])
        if name not in translations or value is None:
            continue
        for ours, setting in translations[name](value, f"{place} have {name}").items():
            if ours in read:
                raise InvalidRequestError(
                    f"{place} have {name} beside another word for {ours}; leave one of them out"
                )
            read[ours] = setting
    return read


def rename(ours: str) -> Translate:
    """Translation to a setting with the same values."""
    return lambda value, _where: {ours: value}


def ignore_setting(*_given: object) -> Mapping[str, Any]:
    """Translation of a setting that changes nothing."""
    return {}


def reject(
    reason: str,
    *,
    unless: tuple[Any, ...] = (False, {}),
    outcome: str = "Nothing was written",
) -> Translate:
    """Translation that rejects a setting.

    Args:
        reason: The reason, and the alternative.
        unless: Accepted values, which have no effect.
        outcome: The end of the error.
    """

    def read(value: Any, where: str) -> Mapping[str, Any]:
        if value in unless:
            return {}
        raise InvalidRequestError(f"{where}: {reason}. {outcome}")

    return read


def translate_schema_mode(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `schema_mode`, "merge" or "overwrite"."""
    if value not in ("merge", "overwrite"):
        raise InvalidRequestError(f"{where} {value!r}; choose merge or overwrite")
    return {
        "delta/merge_schema": value == "merge",
        "delta/overwrite_schema": value == "overwrite",
    }


def translate_commit_properties(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `commit_properties`, which may have `custom_metadata`."""
    if not isinstance(value, Mapping) or set(value) - {"custom_metadata"}:
        raise InvalidRequestError(
            f"{where}, of which only custom_metadata are known here; a commit is tried again, and "
            "has its identity, without being told to"
        )
    texts = value.get("custom_metadata")
    return {} if texts is None else {"delta/user_metadata": texts}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dg.MetadataValue):
        value = value.value
    return value.value if isinstance(value, Enum) else value
