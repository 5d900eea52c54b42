"""Property values: parse the texts of `metaData.configuration` as the reference does.

Source: the reference implementation, where PROTOCOL.md, "Table Properties", gives no format. Each
parser raises `InvalidRequestError` with the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Literal, NoReturn, TypeVar

from delta_ops.clock import DAY_MS, HOUR_MS, MINUTE_MS
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import ColumnPath

IsolationLevel = Literal["Serializable", "WriteSerializable"]
CheckpointPolicy = Literal["classic", "v2"]
CompressionCodec = Literal["uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "zstd"]

_ISOLATION_LEVELS: Mapping[str, IsolationLevel] = {
    "serializable": "Serializable",
    "writeserializable": "WriteSerializable",
}
_CHECKPOINT_POLICIES: Mapping[str, CheckpointPolicy] = {"classic": "classic", "v2": "v2"}
_CODECS: Mapping[str, CompressionCodec] = {
    "uncompressed": "uncompressed",
    "none": "uncompressed",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4_raw",
    "zstd": "zstd",
}
_MAPPING_MODES = {mode: mode for mode in ("none", "name", "id")}
_FORMATS = {"iceberg", "hudi"}
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": MINUTE_MS * 1_000,
    "hour": HOUR_MS * 1_000,
    "day": DAY_MS * 1_000,
    "week": 7 * DAY_MS * 1_000,
}
_LONGEST_MS = 2**62
"""Far above any engine's limit, but small enough that times minus this value fit into 64 bits."""
_INTERVAL_WORD = re.compile(r"^interval(?:\s+|$)")
_INTERVAL_PART = re.compile(r"([+-]?)\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s+([a-z]+)(?:\s+|$)")
_MOST_DECIMALS = 9
# Python rejects integers with thousands of digits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_SIZE = re.compile(r"([0-9]{1,19})\s*([kmgtp]?)b?")
_SIZE_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_NAME_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`.,]+))\s*([.,]|$)")

_T = TypeVar("_T")


def parse_interval(text: str) -> int:
    """Parse an interval such as `interval 7 days` or `1 day 2 hours`, in milliseconds.

    Case does not matter, and the word `interval` is optional; units range from weeks to
    microseconds. Parts may be negative if the whole is not. A fraction of a millisecond is rounded
    up, since a retention may be too long but not too short.

    Raises:
        InvalidRequestError: The text is no interval, or is negative, or has months or years, which
            have no fixed length, or exceeds the times of a log.
    """
    rest = _INTERVAL_WORD.sub("", text.strip().lower())
    microseconds = Decimal(0)
    if not rest:
        _refuse_interval(text, "it has no unit of time")
    while rest:
        part = _INTERVAL_PART.match(rest)
        if part is None:
            what = "it" if rest == text.strip().lower() else repr(rest)
            _refuse_interval(text, f"{what} is not a number with a unit")
        number, unit = Decimal(part[1] + part[2]), part[3].removesuffix("s")
        if unit in ("month", "year"):
            _refuse_interval(text, "a month or a year has no fixed length")
        if unit not in _MICROSECONDS:
            _refuse_interval(text, f"{part[3]!r} is no unit of time")
        if "." in part[2] and unit != "second":
            _refuse_interval(text, "only seconds can have a fraction")
        if len(part[2].partition(".")[2]) > _MOST_DECIMALS:
            _refuse_interval(text, f"a fraction has at most {_MOST_DECIMALS} digits")
        microseconds += number * _MICROSECONDS[unit]
        rest = rest[part.end() :]
    if microseconds < 0:
        _refuse_interval(text, "it is negative")
    milliseconds = (microseconds / 1000).to_integral_value(rounding=ROUND_CEILING)
    if milliseconds > _LONGEST_MS:
        _refuse_interval(text, "it is too long for the times of a log")
    return int(milliseconds)


def parse_column_list(text: str) -> tuple[ColumnPath, ...]:
    """Parse a list of columns such as ``id, address.city, `a.b` ``.

    Raises:
        InvalidRequestError: The text is no list of columns.
    """
    columns: list[ColumnPath] = []
    path: ColumnPath = ()
    position = 0
    while position < len(text.rstrip()):
        part = _NAME_PART.match(text, position)
        if part is None:
            raise InvalidRequestError(
                f"{text!r} is not a list of columns; separate names by commas and struct fields "
                "by dots, and put other names in backticks."
            )
        path = (*path, part[1].replace("``", "`") if part[1] else part[2])
        position = part.end()
        if part[3] != ".":
            columns.append(path)
            path = ()
    if path or text.rstrip().endswith(","):
        raise InvalidRequestError(f"{text!r} is no list of columns: it ends in the middle.")
    return tuple(columns)


def parse_flag(text: str) -> bool:
    """Parse true or false, ignoring case."""
    if text.strip().lower() not in ("true", "false"):
        raise InvalidRequestError("it must be true or false.")
    return text.strip().lower() == "true"


def parse_auto_compact(text: str) -> bool:
    """Parse whether files are compacted: true, false, `auto` or `legacy`."""
    return text.strip().lower() in ("auto", "legacy") or parse_flag(text)


def _integer(text: str, lowest: int) -> int:
    if not _INTEGER.fullmatch(text.strip()) or int(text) < lowest:
        raise InvalidRequestError(
            f"it must be a whole number of {lowest} or more, with at most 19 digits."
        )
    return int(text)


def parse_positive_integer(text: str) -> int:
    """Parse a whole number of at least 1."""
    return _integer(text, 1)


def parse_natural_number(text: str) -> int:
    """Parse a whole number of at least 0."""
    return _integer(text, 0)


def parse_count(text: str) -> int:
    """Parse a whole number of at least -1; -1 means all."""
    return _integer(text, -1)


def parse_size_bytes(text: str) -> int:
    """Parse a number of bytes, or a size such as `128mb`, to bytes."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or int(found[1]) == 0:
        raise InvalidRequestError('it must be a number of bytes, or a size such as "128mb".')
    return int(found[1]) << _SIZE_SHIFTS[found[2]]


def parse_isolation_level(text: str) -> IsolationLevel:
    """Parse the isolation level, ignoring case."""
    return _one_of(text, _ISOLATION_LEVELS)


def parse_checkpoint_policy(text: str) -> CheckpointPolicy:
    """Parse the checkpoint policy, ignoring case."""
    return _one_of(text, _CHECKPOINT_POLICIES)


def parse_codec(text: str) -> CompressionCodec:
    """Parse the compression codec, ignoring case; `none` is `uncompressed`."""
    return _one_of(text, _CODECS)


def parse_mapping_mode(text: str) -> str:
    """Parse the mode of column mapping, ignoring case."""
    return _one_of(text, _MAPPING_MODES)


def parse_formats(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of distinct formats."""
    names = tuple(name.strip().lower() for name in text.split(",")) if text.strip() else ()
    if len(set(names)) < len(names) or not set(names) <= _FORMATS:
        raise InvalidRequestError(f"it must be a list of {', '.join(sorted(_FORMATS))}.")
    return names


def parse_text(text: str) -> str:
    """Return the text unchanged."""
    return text


def _one_of(text: str, allowed: Mapping[str, _T]) -> _T:
    found = allowed.get(text.strip().lower())
    if found is None:
        names = ", ".join(dict.fromkeys(map(str, allowed.values())))
        raise InvalidRequestError(f"it must be one of {names}.")
    return found


def _refuse_interval(text: str, reason: str) -> NoReturn:
    raise InvalidRequestError(
        f"{text!r} is not an interval: {reason}; write it like 'interval 7 days' or '1 day 2 "
        "hours', in units from weeks to microseconds."
    )
