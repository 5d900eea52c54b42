"""Statistics of a data file, as the log has them.

Source: PROTOCOL.md, "Per-file Statistics". `from_footer` and `bound_texts` make them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import msgspec

_ENCODER = msgspec.json.Encoder()
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """Statistics as the log has them; `file_bounds` gives them types.

    The mappings mirror the structs of the schema and hold JSON values, numbers with a fraction or
    an exponent as Decimal.
    """

    num_records: int | None = None
    """Physical rows: those that a deletion vector marks are counted."""
    min_values: Mapping[str, Any] = field(default_factory=dict)
    max_values: Mapping[str, Any] = field(default_factory=dict)
    null_count: Mapping[str, Any] = field(default_factory=dict)
    tight_bounds: bool = True
    """False: rows may have been deleted since; the bounds still hold, but may not be reached."""


def parse_stats(text: str | None) -> FileStats | None:
    """Read the statistics of an add; None if there are none or they are no JSON object.

    A part that is malformed counts as missing: the file is then read, not skipped.
    """
    if not text:
        return None
    try:
        parsed = json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    num_records = parsed.get("numRecords")
    return FileStats(
        num_records=(
            num_records if type(num_records) is int and 0 <= num_records < 2**63 else None
        ),
        min_values=_object(parsed.get("minValues")),
        max_values=_object(parsed.get("maxValues")),
        null_count=_object(parsed.get("nullCount")),
        tight_bounds=parsed.get("tightBounds") is not False,
    )


def widen_stats(text: str | None) -> str | None:
    """The statistics of a file of which rows are deleted: bounds hold, and may not be reached.

    Source: PROTOCOL.md, "Per-file Statistics" (`tightBounds`).
    """
    if text is None or parse_stats(text) is None:
        return text
    # Numbers keep their digits, which Python's would not.
    said: dict[str, Any] = _PARTS.decode(text)
    return _ENCODER.encode({**said, "tightBounds": False}).decode()


def count_records(text: str | None, num_rows: int) -> str:
    """The statistics of a file with the number of its rows, which they did not tell.

    Source: PROTOCOL.md, "Writer Requirement for Deletion Vectors" (a file with one says it).
    """
    said: dict[str, Any] = {} if text is None or parse_stats(text) is None else _PARTS.decode(text)
    return _ENCODER.encode({"numRecords": num_rows, **said}).decode()


class _Records(msgspec.Struct):
    numRecords: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None  # noqa: N815


_RECORDS = msgspec.json.Decoder(_Records)


def num_records(text: str | None) -> int | None:
    """What `parse_stats` finds as the number of records; passes over all else, and so is faster."""
    if not text:
        return None
    try:
        return _RECORDS.decode(text).numRecords
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
