"""Statistics of a data file, as recorded in the log.

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
    """Statistics of a file as JSON values; `file_bounds` converts them to typed values.

    The mappings mirror the structs of the schema. Numbers with a fraction or an exponent are
    Decimal.
    """

    num_records: int | None = None
    """Physical rows, including rows that a deletion vector marks as deleted."""
    min_values: Mapping[str, Any] = field(default_factory=dict)
    max_values: Mapping[str, Any] = field(default_factory=dict)
    null_count: Mapping[str, Any] = field(default_factory=dict)
    tight_bounds: bool = True
    """False: rows may have been deleted; the bounds still hold, but may not be reached."""


def parse_stats(text: str | None) -> FileStats | None:
    """Parse the statistics of an add; None if they are missing or no JSON object.

    A malformed part counts as missing, so the file is read instead of skipped.
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
    """Mark statistics as not tight, for a file with deleted rows.

    Bounds still hold, but may not be reached.

    Source: PROTOCOL.md, "Per-file Statistics" (`tightBounds`).
    """
    if text is None or parse_stats(text) is None:
        return text
    # Raw JSON keeps all digits of numbers; Python's floats would not.
    existing: dict[str, Any] = _PARTS.decode(text)
    return _ENCODER.encode({**existing, "tightBounds": False}).decode()


def count_records(text: str | None, num_rows: int) -> str:
    """Add the missing number of rows to the statistics of a file.

    Source: PROTOCOL.md, "Writer Requirement for Deletion Vectors" (a file with a vector needs it).
    """
    existing: dict[str, Any] = (
        {} if text is None or parse_stats(text) is None else _PARTS.decode(text)
    )
    return _ENCODER.encode({"numRecords": num_rows, **existing}).decode()


class _Records(msgspec.Struct):
    numRecords: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None  # noqa: N815


_RECORDS = msgspec.json.Decoder(_Records)


def num_records(text: str | None) -> int | None:
    """The number of records, like `parse_stats`, but faster since it skips all other fields."""
    if not text:
        return None
    try:
        return _RECORDS.decode(text).numRecords
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
