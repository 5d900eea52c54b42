"""Table properties: what `metaData.configuration` asks of whoever writes or maintains the table.

Source: PROTOCOL.md, "Table Properties"; names, defaults and value texts as in the reference
implementation, where the text is silent.

A property that is there and cannot be understood is an error, never the default: a retention that
was taken for another deletes what somebody still needs. Properties that are not listed here are
left alone. Who only reads rows needs none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Literal, NoReturn, TypeVar

from delta_ops.clock import DAY_MS, HOUR_MS, MINUTE_MS
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.stats import DEFAULT_STATS, ColumnPath, StatsSettings

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
"""Far longer than any engine knows; with it, times before it are whole numbers of 64 bits still."""
_INTERVAL_WORD = re.compile(r"^interval(?:\s+|$)")
_INTERVAL_PART = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s+([a-z]+)(?:\s+|$)")
_SIZE = re.compile(r"([0-9]+)\s*([kmgtp]?)b?")
_SIZE_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_NAME_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`.,]+))\s*([.,]|$)")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """The properties of a table that we act on; what is not set has its default."""

    append_only: bool = False
    """`delta.appendOnly`: rows may be rearranged, not changed or removed."""
    checkpoint_interval: int = 10
    """`delta.checkpointInterval`: commits from one checkpoint to the next."""
    checkpoint_policy: CheckpointPolicy = "classic"
    """`delta.checkpointPolicy`."""
    write_stats_as_json: bool = True
    """`delta.checkpoint.writeStatsAsJson`."""
    write_stats_as_struct: bool = False
    """`delta.checkpoint.writeStatsAsStruct`."""
    log_retention_ms: int = 30 * DAY_MS
    """`delta.logRetentionDuration`: how long versions can be read."""
    enable_expired_log_cleanup: bool = True
    """`delta.enableExpiredLogCleanup`: whether clean-up may run unasked."""
    deleted_file_retention_ms: int = 7 * DAY_MS
    """`delta.deletedFileRetentionDuration`: how long removed files and tombstones stay."""
    set_transaction_retention_ms: int | None = None
    """`delta.setTransactionRetentionDuration`; None: transaction identifiers stay for ever."""
    checkpoint_protection_version: int = 0
    """`delta.requireCheckpointProtectionBeforeVersion`, of effect with the feature only."""
    isolation_level: IsolationLevel = "Serializable"
    """`delta.isolationLevel`."""
    in_commit_timestamps: bool = False
    """`delta.enableInCommitTimestamps`: each commit carries its time, later than the one before."""
    stats: StatsSettings = DEFAULT_STATS
    """`delta.dataSkipping...`: which statistics data files get."""
    target_file_size_bytes: int | None = None
    """`delta.targetFileSize`; None: whoever writes chooses."""
    compression_codec: CompressionCodec = "zstd"
    """`delta.parquet.compression.codec`, in lower case, `none` as `uncompressed`."""


def table_properties_from_configuration(configuration: Mapping[str, str]) -> TableProperties:
    """Read the properties of a table.

    Raises:
        InvalidRequestError: One of them cannot be understood; the message names it, its value and
            what is allowed.
    """
    for name, value in configuration.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequestError(
                f"Table property {name!r} is {value!r}: name and value must be texts, such as "
                "'true' or '5'."
            )
    return _parse(tuple(sorted(configuration.items())))


@lru_cache(maxsize=64)
def _parse(configuration: tuple[tuple[str, str], ...]) -> TableProperties:
    read = _Reader(dict(configuration))
    defaults = TableProperties()
    return TableProperties(
        append_only=read("delta.appendOnly", _flag, defaults.append_only),
        checkpoint_interval=read(
            "delta.checkpointInterval", _positive_integer, defaults.checkpoint_interval
        ),
        checkpoint_policy=read(
            "delta.checkpointPolicy", _checkpoint_policy, defaults.checkpoint_policy
        ),
        write_stats_as_json=read(
            "delta.checkpoint.writeStatsAsJson", _flag, defaults.write_stats_as_json
        ),
        write_stats_as_struct=read(
            "delta.checkpoint.writeStatsAsStruct", _flag, defaults.write_stats_as_struct
        ),
        log_retention_ms=read(
            "delta.logRetentionDuration", parse_interval, defaults.log_retention_ms
        ),
        enable_expired_log_cleanup=read(
            "delta.enableExpiredLogCleanup", _flag, defaults.enable_expired_log_cleanup
        ),
        deleted_file_retention_ms=read(
            "delta.deletedFileRetentionDuration", parse_interval, defaults.deleted_file_retention_ms
        ),
        set_transaction_retention_ms=read(
            "delta.setTransactionRetentionDuration", parse_interval, None
        ),
        checkpoint_protection_version=read(
            "delta.requireCheckpointProtectionBeforeVersion",
            _natural_number,
            defaults.checkpoint_protection_version,
        ),
        isolation_level=read("delta.isolationLevel", _isolation_level, defaults.isolation_level),
        in_commit_timestamps=read(
            "delta.enableInCommitTimestamps", _flag, defaults.in_commit_timestamps
        ),
        stats=StatsSettings(
            num_indexed_columns=read(
                "delta.dataSkippingNumIndexedCols", _count, defaults.stats.num_indexed_columns
            ),
            columns=read("delta.dataSkippingStatsColumns", parse_column_list, None),
            string_prefix_length=read(
                "delta.dataSkippingStringPrefixLength",
                _positive_integer,
                defaults.stats.string_prefix_length,
            ),
        ),
        target_file_size_bytes=read("delta.targetFileSize", _size_bytes, None),
        compression_codec=read(
            "delta.parquet.compression.codec", _codec, defaults.compression_codec
        ),
    )


def parse_interval(text: str) -> int:
    """Read an interval such as `interval 7 days` or `1 day 2 hours`, in milliseconds.

    Any case, with or without the word `interval`; units from weeks to microseconds. A part of a
    millisecond counts as a whole one, since a retention may be too long but not too short.

    Raises:
        InvalidRequestError: The text is no such interval, or a negative one, or has months or
            years, which are of no fixed length, or is of hundreds of millions of years.
    """
    rest = _INTERVAL_WORD.sub("", text.strip().lower())
    microseconds = Decimal(0)
    if not rest:
        _refuse_interval(text, "it names no unit of time")
    while rest:
        part = _INTERVAL_PART.match(rest)
        if part is None:
            what = "it" if rest == text.strip().lower() else repr(rest)
            _refuse_interval(text, f"{what} is no number with a unit")
        number, unit = Decimal(part[1]), part[2].removesuffix("s")
        if unit in ("month", "year"):
            _refuse_interval(text, "a month or a year has no fixed length")
        if unit not in _MICROSECONDS:
            _refuse_interval(text, f"{part[2]!r} is no unit of time")
        if number != int(number) and unit != "second":
            _refuse_interval(text, "only seconds can have a fraction")
        if number < 0:
            _refuse_interval(text, "it is negative")
        microseconds += number * _MICROSECONDS[unit]
        rest = rest[part.end() :]
    milliseconds = (microseconds / 1000).to_integral_value(rounding=ROUND_CEILING)
    if milliseconds > _LONGEST_MS:
        _refuse_interval(text, "it is too long for the times of a log")
    return int(milliseconds)


def parse_column_list(text: str) -> tuple[ColumnPath, ...]:
    """Read a list of columns such as ``id, address.city, `a.b` ``.

    Raises:
        InvalidRequestError: The text is no such list.
    """
    columns: list[ColumnPath] = []
    path: ColumnPath = ()
    position = 0
    while position < len(text.rstrip()):
        part = _NAME_PART.match(text, position)
        if part is None:
            raise InvalidRequestError(
                f"{text!r} is no list of columns; separate names by commas, fields of a struct by "
                "dots, and put names with other characters in backticks."
            )
        path = (*path, part[1].replace("``", "`") if part[1] else part[2])
        position = part.end()
        if part[3] != ".":
            columns.append(path)
            path = ()
    if path or text.rstrip().endswith(","):
        raise InvalidRequestError(f"{text!r} is no list of columns: it ends in the middle.")
    return tuple(columns)


class _Reader:
    """Reads one property after the other and says in errors which one."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._configuration = configuration

    def __call__(self, name: str, parse: Callable[[str], _T], default: _T) -> _T:
        text = self._configuration.get(name)
        if text is None:
            return default
        try:
            return parse(text)
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"Table property {name} is {text!r}: {error} Set the property to a valid value."
            ) from error


def _refuse_interval(text: str, reason: str) -> NoReturn:
    raise InvalidRequestError(
        f"{text!r} is no interval: {reason}; write it like 'interval 7 days' or '1 day 2 hours', "
        "in units from weeks to microseconds."
    )


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise InvalidRequestError("it must be true or false.")
    return text.strip().lower() == "true"


def _integer(text: str, lowest: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()) or int(text) < lowest:
        raise InvalidRequestError(f"it must be a whole number from {lowest} on.")
    return int(text)


def _positive_integer(text: str) -> int:
    return _integer(text, 1)


def _natural_number(text: str) -> int:
    return _integer(text, 0)


def _count(text: str) -> int:
    return _integer(text, -1)


def _size_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or int(found[1]) == 0:
        raise InvalidRequestError('it must be a number of bytes, or a size such as "128mb".')
    return int(found[1]) << _SIZE_SHIFTS[found[2]]


def _isolation_level(text: str) -> IsolationLevel:
    return _one_of(text, _ISOLATION_LEVELS)


def _checkpoint_policy(text: str) -> CheckpointPolicy:
    return _one_of(text, _CHECKPOINT_POLICIES)


def _codec(text: str) -> CompressionCodec:
    return _one_of(text, _CODECS)


def _one_of(text: str, allowed: Mapping[str, _T]) -> _T:
    found = allowed.get(text.strip().lower())
    if found is None:
        names = ", ".join(dict.fromkeys(map(str, allowed.values())))
        raise InvalidRequestError(f"it must be one of {names}.")
    return found
