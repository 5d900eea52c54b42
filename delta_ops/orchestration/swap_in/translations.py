"""Translations: settings of other integrations, translated to settings of delta_ops. No I/O.

A translation turns one foreign setting into settings of delta_ops. A setting without effect is
dropped. A setting for something that delta_ops does not support is rejected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.properties.known import COMPRESSION_CODEC
from delta_ops.protocol.properties.values import parse_codec
from delta_ops.transaction.commit.info import RESERVED_NAMES

Translate = Callable[[Any, str], Mapping[str, Any]]
"""Takes a value, and a text for errors that names its place and key."""
Translations = Mapping[str, Translate]
"""Translations by the names of foreign settings."""
WORDS_OF_SCHEMA_MODE: Mapping[str, str] = {
    "delta/merge_schema: True": 'schema_mode: "merge"',
    "delta/overwrite_schema: True": 'schema_mode: "overwrite"',
}
"""Settings that `schema_mode` translates to, in messages."""
_PROPERTIES = "delta/configuration"
_WRITER_PROPERTIES = (
    "data_page_size_limit",
    "dictionary_page_size_limit",
    "data_page_row_count_limit",
    "write_batch_size",
    "max_row_group_size",
    "compression_level",
    "statistics_truncate_length",
    "default_column_properties",
    "column_properties",
)
"""Properties of deltalake's writer, apart from `compression`."""


def translate(
    settings: Mapping[str, Any], place: str, translations: Translations
) -> dict[str, Any]:
    """Translate the foreign settings in a mapping, and keep the others.

    Args:
        place: Name of the mapping for errors, in the plural: "the metadata of asset orders".

    Raises:
        InvalidRequestError: A setting is not supported, or two settings mean the same.
    """
    read = {name: value for name, value in settings.items() if name not in translations}
    for name in settings:
        value = _plain_value(settings[name])
        if name not in translations or value is None:
            continue
        for ours, setting in translations[name](value, f"{place} have {name}").items():
            if ours == _PROPERTIES and isinstance(read.get(ours), Mapping):
                setting = _unite(read[ours], setting, f"{place} have {name}")  # noqa: PLW2901
            elif ours in read and read[ours] != setting:
                raise InvalidRequestError(
                    f"{place} have {name}, which sets {ours}, and another value for {ours}; leave "
                    "one of them out"
                )
            read[ours] = setting
    return read


def _unite(first: Mapping[str, Any], second: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Unite table properties of two settings."""
    twice = [name for name in first if second.get(name, first[name]) != first[name]]
    if twice:
        raise InvalidRequestError(
            f"{where} and another value of the table property {twice[0]}; leave one of them out"
        )
    return {**first, **second}


def rename(ours: str) -> Translate:
    """Translation to a setting with the same values."""
    return lambda value, _where: {ours: value}


def ignore_setting(*_given: object) -> Mapping[str, Any]:
    """Translation of a setting that changes nothing."""
    return {}


def ignore_with_warning(reason: str) -> Translate:
    """Translation of a setting that changes no row, and that delta_ops does not support.

    Args:
        reason: The reason, and the alternative.
    """

    def read(_value: Any, where: str) -> Mapping[str, Any]:
        warnings.warn(f"{where}, which changes nothing: {reason}", stacklevel=2)
        return {}

    return read


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
    properties = vars(value) if hasattr(value, "custom_metadata") else value
    known = {"custom_metadata", "max_commit_retries"}
    if not isinstance(properties, Mapping) or set(properties) - known - _absent(properties):
        raise InvalidRequestError(
            f"{where}, but delta_ops supports only custom_metadata, because it retries and "
            "identifies every commit by itself; leave the other properties out"
        )
    if properties.get("max_commit_retries") is not None:
        warnings.warn(
            f"{where} with max_commit_retries, which changes nothing: a commit that another writer "
            "overtakes is retried until a time limit",
            stacklevel=2,
        )
    texts = properties.get("custom_metadata")
    return {} if texts is None else translate_custom_metadata(texts, where)


def translate_custom_metadata(value: Any, _where: str) -> Mapping[str, Any]:
    """Translation of `custom_metadata`: user metadata, and fields of the commit as in deltalake."""
    if not isinstance(value, Mapping):
        return {"delta/user_metadata": value}
    texts = {name: text for name, text in value.items() if name not in RESERVED_NAMES}
    return {"delta/user_metadata": value, **({"delta/commit_info": texts} if texts else {})}


def translate_writer_properties(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `writer_properties`: the codec is a property of a new table.

    Raises:
        InvalidRequestError: A property or the codec is unknown.
    """
    properties = vars(value) if hasattr(value, "compression") else value
    known = ("compression", *_WRITER_PROPERTIES)
    unknown = [properties]
    if isinstance(properties, Mapping):
        unknown = [name for name in properties if name not in known]
    if unknown:
        raise InvalidRequestError(
            f"{where} {unknown[0]!r}; choose from {', '.join(known)}. Nothing was written"
        )
    ignored = [name for name in _WRITER_PROPERTIES if properties.get(name) is not None]
    if ignored:
        warnings.warn(
            f"{where} {', '.join(ignored)}, which changes nothing: delta_ops has its own writer",
            stacklevel=2,
        )
    compression = properties.get("compression")
    if compression is None:
        return {}
    try:
        codec = parse_codec(str(compression))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{where} with the compression {compression!r}: {error} Nothing was written"
        ) from error
    return {_PROPERTIES: {COMPRESSION_CODEC.name: codec}}


def _absent(values: Mapping[str, Any]) -> set[str]:
    return {name for name, value in values.items() if value is None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dg.MetadataValue):
        value = value.value
    return value.value if isinstance(value, Enum) else value
