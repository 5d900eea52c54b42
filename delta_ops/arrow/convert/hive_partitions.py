"""Hive partitions: read partition values from directory names of the form `column=value`.

A value is the unescaped text; `__HIVE_DEFAULT_PARTITION__` is null. All files must have the same
partition columns in the same order, or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.schema import DATE, LONG, STRING, DataType, StructField
from delta_ops.protocol.values.partition_values import HIVE_DEFAULT_PARTITION, parse, serialize
from delta_ops.storage import FileInfo

_LONG = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Texts = tuple[str | None, ...]
"""Values of a file's partition columns, in directory order."""


class FoundFile(NamedTuple):
    """A file with the partition values in its path."""

    info: FileInfo
    texts: Texts


class Partitions(NamedTuple):
    """The partition columns, and the files."""

    names: tuple[str, ...]
    files: list[FoundFile]


def find_partitions(files: Iterable[FileInfo], table: str) -> Partitions:
    """Read partition values from the paths of files.

    Raises:
        InvalidRequestError: Two files have different partition columns; the message names both.
    """
    found: list[FoundFile] = []
    names: tuple[str, ...] | None = None
    for info in files:
        own, texts = _directories(info.path, table)
        if names is not None and own != names:
            raise InvalidRequestError(
                f"{table}: {info.path} is partitioned by {', '.join(own) or 'nothing'}, and "
                f"{found[0].info.path} by {', '.join(names) or 'nothing'}; move the files so that "
                "all have the same partition columns"
            )
        names = own
        found.append(FoundFile(info, texts))
    return Partitions(names or (), found)


def partition_fields(
    partitions: Partitions, types: Mapping[str, DataType | None]
) -> tuple[StructField, ...]:
    """Return the partition columns with their types.

    Args:
        types: Types by name. Without a type, the column gets the type that fits all its values:
            long, date or string.
    """
    fields = []
    for i, name in enumerate(partitions.names):
        data_type = types.get(name)
        if data_type is None:
            data_type = _common_type(file.texts[i] for file in partitions.files)
        fields.append(StructField(name, data_type))
    return tuple(fields)


def values_of(file: FoundFile, fields: Sequence[StructField], table: str) -> dict[str, str | None]:
    """Return the partition values of a file in the log's format.

    Raises:
        InvalidRequestError: A value does not fit its column's type.
    """
    values = {}
    for text, field in zip(file.texts, fields, strict=True):
        try:
            values[field.name] = serialize(parse(text, field.data_type), field.data_type)
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"{table}: {file.info.path}, partition column {field.name!r}: {error} Give the "
                f"column another type with {option('partition_by')}"
            ) from error
    return values


def _directories(path: str, table: str) -> tuple[tuple[str, ...], Texts]:
    parts = path.split("/")[:-1]
    if not any("=" in part for part in parts):
        return (), ()
    names: list[str] = []
    texts: list[str | None] = []
    for part in parts:
        name, equals, text = (_unescape(each, path, table) for each in part.partition("="))
        if not equals or not name:
            raise InvalidRequestError(
                f"{table}: {path} lies in {part!r}, which is not a partition directory; name it "
                "column=value, or move it"
            )
        names.append(name)
        texts.append(None if text == HIVE_DEFAULT_PARTITION else text)
    return tuple(names), tuple(texts)


def _common_type(texts: Iterable[str | None]) -> DataType:
    """Return the type that fits all values; a number with leading zeros is a string."""
    are_longs = are_dates = True
    is_known = False
    for text in texts:
        if text is None:
            continue
        is_known = True
        are_longs = are_longs and _LONG.fullmatch(text) is not None
        are_dates = are_dates and _is_date(text)
        if not (are_longs or are_dates):
            return STRING
    if not is_known:
        return STRING
    return LONG if are_longs else DATE


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and parse(text, DATE) is not None
    except InvalidRequestError:
        return False


def _unescape(text: str, path: str, table: str) -> str:
    """Unescape a directory name: percent-encoded UTF-8, as Spark and other engines write it."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"{table}: {path} lies in {text!r}, whose escaped characters are not UTF-8; rename it"
        ) from error
