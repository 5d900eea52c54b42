"""Options of `format("delta")`: lists all options and which of them delta_ops supports.

Source: delta-io/delta, `DeltaOptions`.

The reference ignores unknown options. Here they are rejected, because a misspelt `replaceWhere`
would replace the whole table, and a misspelt `versionAsOf` would read other rows. Options of
other operations are rejected too, and options of Spark's file formats that select files or change
values. Options of Spark's file formats without an effect on a table are accepted. Names are
case-insensitive.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.properties.values import CompressionCodec, parse_codec
from delta_ops.protocol.schema import TIMESTAMP
from delta_ops.protocol.values.partition_values import parse

logger = logging.getLogger(__name__)

PROPERTY = "delta."
"""Prefix of options that set a property of a new table."""
_IGNORE_DEFAULTS = "delta.ignoreprotocoldefaults"
"""Ignored: a session has no defaults of protocol versions."""
_HADOOP = ("fs.", "dfs.")
_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)b?", re.IGNORECASE)
_CLOSE = 0.8
"""Minimum similarity between a misspelled name and an option name; 1 means equal."""


class Use(Enum):
    """Operations that take options."""

    READ = "spark.read"
    WRITE = "df.write"
    STREAM_READ = "spark.readStream"
    STREAM_WRITE = "df.writeStream"


_READS = frozenset({Use.READ, Use.STREAM_READ})
_WRITES = frozenset({Use.WRITE, Use.STREAM_WRITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the reference."""

    name: str
    used_by: frozenset[Use] = frozenset()
    """Operations that apply the option."""
    ignored_by: frozenset[Use] = frozenset()
    """Operations that accept the option, where it has no effect on rows."""
    refused_by: frozenset[Use] = frozenset()
    cure: str = ""
    """Alternative for operations that reject the option."""


_OF_SCHEMA_TRACKING = "start the stream again after a change of the columns"

OPTIONS = (
    Option(name="path", used_by=_READS | _WRITES),
    Option(
        name="versionAsOf",
        used_by=frozenset({Use.READ}),
        refused_by=frozenset({Use.STREAM_READ}),
        cure="a stream begins at startingVersion",
    ),
    Option(
        name="timestampAsOf",
        used_by=frozenset({Use.READ}),
        refused_by=frozenset({Use.STREAM_READ}),
        cure="a stream begins at startingTimestamp",
    ),
    Option(
        name="ref",
        used_by=frozenset({Use.READ}),
        refused_by=frozenset({Use.STREAM_READ}),
        cure="a stream begins at startingVersion",
    ),
    Option(name="readChangeFeed", used_by=_READS),
    Option(name="readChangeData", used_by=_READS),
    Option(name="startingVersion", used_by=_READS),
    Option(name="startingTimestamp", used_by=_READS),
    Option(name="endingVersion", used_by=frozenset({Use.READ})),
    Option(name="endingTimestamp", used_by=frozenset({Use.READ})),
    Option(name="maxFilesPerTrigger", used_by=frozenset({Use.STREAM_READ})),
    Option(name="maxBytesPerTrigger", used_by=frozenset({Use.STREAM_READ})),
    Option(name="ignoreDeletes", used_by=frozenset({Use.STREAM_READ})),
    Option(name="ignoreChanges", used_by=frozenset({Use.STREAM_READ})),
    Option(name="skipChangeCommits", used_by=frozenset({Use.STREAM_READ})),
    Option(name="excludeRegex", used_by=frozenset({Use.STREAM_READ})),
    Option(
        name="ignoreFileDeletion",
        refused_by=frozenset({Use.STREAM_READ}),
        cure="use ignoreDeletes or skipChangeCommits",
    ),
    Option(name="failOnDataLoss", used_by=frozenset({Use.STREAM_READ})),
    *(
        Option(name=name, refused_by=frozenset({Use.STREAM_READ}), cure=_OF_SCHEMA_TRACKING)
        for name in (
            "schemaTrackingLocation",
            "schemaLocation",
            "streamingSourceTrackingId",
            "allowSourceColumnDrop",
            "allowSourceColumnRename",
            "allowSourceColumnTypeChange",
        )
    ),
    Option(
        name="replaceWhere",
        used_by=frozenset({Use.WRITE}),
        refused_by=frozenset({Use.STREAM_WRITE}),
        cure="write in foreachBatch",
    ),
    Option(name="mergeSchema", used_by=_WRITES, ignored_by=_READS),
    Option(name="overwriteSchema", used_by=_WRITES),
    Option(
        name="partitionOverwriteMode",
        used_by=frozenset({Use.WRITE}),
        refused_by=frozenset({Use.STREAM_WRITE}),
        cure="write in foreachBatch",
    ),
    Option(name="userMetadata", used_by=_WRITES),
    *(
        Option(
            name=name,
            used_by=frozenset({Use.WRITE}),
            refused_by=frozenset({Use.STREAM_WRITE}),
            cure="a stream writes each batch once by its checkpoint",
        )
        for name in ("txnAppId", "txnVersion")
    ),
    Option(
        name="dataChange",
        used_by=frozenset({Use.WRITE}),
        ignored_by=frozenset({Use.STREAM_WRITE}),
    ),
    Option(name="maxRecordsPerFile", used_by=_WRITES),
    Option(name="compression", used_by=_WRITES),
    Option(name="optimizeWrite", ignored_by=_WRITES),
    *(
        Option(name=name, refused_by=_WRITES, cure=cure)
        for name, cure in {
            "replaceOn": "merge by the condition, with ds.merge",
            "replaceUsing": "merge by these columns, with ds.merge",
            "targetAlias": "name columns in replaceWhere without an alias",
            "useNullIntolerantEqualityWithDPO": "null partitions are replaced like others",
            "writePartitionColumns": "data files do not store partition columns",
        }.items()
    ),
    Option(name="checkpointLocation", used_by=frozenset({Use.STREAM_WRITE})),
    Option(name="queryName", used_by=frozenset({Use.STREAM_WRITE})),
    # Options of all of Spark's file formats.
    *(
        Option(name=name, ignored_by=_READS)
        for name in ("inferSchema", "basePath", "recursiveFileLookup")
    ),
    *(
        Option(name=name, refused_by=_READS, cure=cure)
        for name, cure in {
            "pathGlobFilter": "the log names the files of a table; filter the rows instead",
            "modifiedBefore": "read an earlier version by timestampAsOf",
            "modifiedAfter": "read later rows by readChangeFeed and startingTimestamp",
            "ignoreCorruptFiles": "a damaged file is an error, since its rows would be missing",
            "ignoreMissingFiles": "a missing file is an error, since its rows would be missing",
            "datetimeRebaseMode": "set spark.sql.parquet.datetimeRebaseModeInRead in the session",
            "int96RebaseMode": "set spark.sql.parquet.int96RebaseModeInRead in the session",
        }.items()
    ),
)
"""All options."""

_BY_NAME = {each.name.lower(): each for each in OPTIONS}


@dataclass(frozen=True, slots=True)
class Options:
    """The validated options of one call."""

    texts: Mapping[str, tuple[str, str]]
    """Name and value, by the name in lower case."""

    def text(self, name: str) -> str | None:
        """The value as a string; None if the option is not set."""
        found = self.texts.get(name.lower())
        return None if found is None else found[1]

    def flag(self, name: str) -> bool | None:
        """The value of a boolean option; None if it is not set."""
        text = self.text(name)
        return None if text is None else _flag_of(name, text)

    def version(self, name: str) -> int | None:
        """The value of an option that is a table version."""
        text = self.text(name)
        return None if text is None else _version_of(name, text)

    def count(self, name: str) -> int | None:
        """The value of an option that is a positive integer."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise InvalidRequestError(f"{name} is {text!r}; give a whole number from 1 on")
        return int(text)

    def codec(self, name: str) -> CompressionCodec | None:
        """The value of an option that is a compression codec."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse_codec(text.strip())
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{name} is {text!r}; {error}") from error

    def size(self, name: str) -> int | None:
        """The value of an option that is a size in bytes, such as 10g."""
        text = self.text(name)
        if text is None:
            return None
        found = _SIZE.fullmatch(text.strip())
        if found is None or int(found[1]) == 0:
            raise InvalidRequestError(f"{name} is {text!r}; give a size such as 512m or 10g")
        return int(found[1]) << 10 * " kmgtp".index(found[2].lower() or " ")

    def instant(self, name: str, time_zone: str) -> datetime | None:
        """The value of an option that is a time, by default in the session's time zone."""
        text = self.text(name)
        return None if text is None else instant_of(name, text, time_zone)

    def properties(self) -> dict[str, str]:
        """The properties for a new table."""
        return {
            name: value
            for lower, (name, value) in self.texts.items()
            if lower.startswith(PROPERTY) and lower != _IGNORE_DEFAULTS
        }

    def hadoop_settings(self) -> dict[str, str]:
        """Hadoop settings for the store."""
        return {
            name: value for lower, (name, value) in self.texts.items() if lower.startswith(_HADOOP)
        }


def options_for(use: Use, texts: Mapping[str, tuple[str, str]]) -> Options:
    """Validate the options of an operation.

    Args:
        use: The operation.
        texts: Name and value, by the name in lower case.

    Raises:
        InvalidRequestError: An option is unknown or not supported.
    """
    for lower, (name, _value) in texts.items():
        option = _BY_NAME.get(lower)
        if option is None:
            _validate_unknown(use, name)
        elif use in option.refused_by:
            raise InvalidRequestError(
                f"{option.name} is not supported by {use.value} with delta_ops; {option.cure}"
            )
        elif use in option.ignored_by:
            logger.warning("Delta ignores the option %s in %s", option.name, use.value)
        elif use not in option.used_by:
            uses = option.used_by or option.ignored_by or option.refused_by
            users = " and ".join(sorted(each.value for each in uses))
            raise InvalidRequestError(
                f"{option.name} is an option of {users}, but not of {use.value}; leave it out"
            )
    return Options(texts)


def instant_of(name: str, text: str, time_zone: str) -> datetime:
    """Parse a time, in the session's time zone unless it has a zone.

    Raises:
        InvalidRequestError: The string is not a time.
    """
    try:
        found = parse(text.strip(), TIMESTAMP, time_zone=time_zone)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{name} is {text!r}; give a time such as 2026-01-31 or 2026-01-31 12:00:00"
        ) from error
    if found is None:
        raise InvalidRequestError(f"{name} is empty; give a time such as 2026-01-31 12:00:00")
    assert isinstance(found, datetime)
    return found


def _flag_of(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise InvalidRequestError(f"{name} is {text!r}; give true or false")


def _version_of(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidRequestError(f"{name} is {text!r}; give a whole number from 0 on")
    return int(text)


def _validate_unknown(use: Use, name: str) -> None:
    lower = name.lower()
    if lower.startswith(_HADOOP) or (lower.startswith(PROPERTY) and use in _WRITES):
        return
    if lower.startswith(PROPERTY):
        raise InvalidRequestError(
            f"{name} is a table property, which {use.value} cannot set; leave it out, or give an "
            "option of the reader without the prefix delta."
        )
    plain = lower.replace("_", "").replace("-", "").strip()
    close = difflib.get_close_matches(plain, _BY_NAME, n=1, cutoff=_CLOSE)
    if close:
        raise InvalidRequestError(
            f'{use.value} with format("delta") has no option {name}; the closest name is '
            f"{_BY_NAME[close[0]].name}"
        )
    done = "replaced" if use in _WRITES else "read"
    raise InvalidRequestError(
        f'{use.value} with format("delta") has no option {name}; leave it out, because an '
        f"ignored option may have been meant to choose the rows that are {done}"
    )
