r"""Contract: what a record is, when it is valid, and the reason when it is not.

The code below is the contract in plain Python, for `accounting`. The pipeline keeps to the same
text with code of its own; sharing this one would make the account agree with itself.

Inputs
  A file, or each file directly inside a folder whose name does not begin with "." or "_" and is
  not `airports.csv`. A file's arrival day is the UTC day of its modification time, its generation
  that time in microseconds. `.jsonl` and `.ndjson` are JSON lines, `.csv` is CSV; `.json` is one
  JSON array when its first character that is no white space is "[", else JSON lines. Text is
  UTF-8; bytes that are not are replaced by U+FFFD; a byte order mark at the start is dropped.
  LF, CR or CRLF ends a line. A line of spaces and tabs only is no record.

Records
  JSON lines: each line. JSON array: each element; one that is a string is read like a line of its
  characters. CSV: each line but the header, which is the first line that is not blank; a line
  equal to the header is never a record.

Fields: date, delay, distance, origin, destination. Others are ignored, and do not tell records
apart. Each is a text, or missing, or unusable:
  JSON    A line is one JSON object (RFC 8259: double quotes, no comments, no NaN, no trailing
          comma) with only JSON's white space around it. Names match exactly; the last of equal names
          counts. A string is its characters; an integer is its shortest decimal form (-0 is 0); a
          number with a fraction or an exponent, true, false, an array and an object are unusable;
          null is missing. A number of more than 1,000 characters is not JSON. Nesting deeper than
          900 levels is outside this contract.
  CSV     One line, split at commas. A field is free of double quotes, or begins and ends with one
          and holds commas as they are and each double quote twice; no white space is trimmed. The
          header names each of the five once, in any order. A line whose quotes break this rule,
          or with more or fewer fields than the header (N), is "not N fields".
  The empty text is missing.

Checks, in this order; the first that fails is the reason. A pattern matches the whole text, and
[0-9] is ASCII (in Spark: rlike with \A and \z, since $ also matches before a line end).
  not a JSON object   (CSV: not N fields)
  date is missing
  date is malformed          not [0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}, or no such minute:
                             proleptic Gregorian, years 0001-9999, hours 00-23; no time zone
  date is out of range       its day is before 1987-10-01 or after the file's arrival day + 1
  delay is missing
  delay is malformed         not [+-]?[0-9]{1,6}
  distance is missing
  distance is malformed      not [0-9]{1,6}
  origin is missing
  origin is malformed        not [A-Z0-9]{3}
  destination is missing
  destination is malformed   not [A-Z0-9]{3}

A record's flight day is its date's day; null when a check on the record's form or its date fails.
Two valid records are equal when minute, delay and distance as numbers, origin and destination are
(so "+5" equals 5), whatever file, line or format they stand in. One of them is a row of `flights`;
the others are duplicates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_FIELDS = ("date", "delay", "distance", "origin", "destination")
_EARLIEST_DAY = date(1987, 10, 1)
_MINUTE = re.compile(r"[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}")
_PATTERNS = {
    "delay": re.compile(r"[+-]?[0-9]{1,6}"),
    "distance": re.compile(r"[0-9]{1,6}"),
    "origin": re.compile(r"[A-Z0-9]{3}"),
    "destination": re.compile(r"[A-Z0-9]{3}"),
}
_UNUSABLE = "\0"  # fails every pattern
_CSV_FIELD = r'("[^"]*+(?:""[^"]*+)*+"|[^",]*+),'
_LONGEST_NUMBER = 1000


class AccountError(Exception):
    """The inputs or the tables cannot be read, so nothing can be said about the balance."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path} cannot be accounted for: {self.reason}."


class Source(NamedTuple):
    path: Path
    name: str
    generation: int
    arrival_day: date


class Flight(NamedTuple):
    departed_at: datetime
    delay: int
    distance: int
    origin: str
    destination: str


class Record(NamedTuple):
    source: str
    flight_day: date | None
    flight: Flight | None
    reason: str | None


def read_sources(inputs: Path) -> list[Source]:
    try:
        paths = sorted(inputs.iterdir()) if inputs.is_dir() else [inputs]
        named = [path for path in paths if path == inputs or _is_named_as_input(path)]
        return [_source(path) for path in named]
    except OSError as error:
        raise AccountError(str(inputs), f"it cannot be read ({error})") from error


def _is_named_as_input(path: Path) -> bool:
    hidden = path.name.startswith((".", "_"))
    return not (hidden or path.name == "airports.csv" or path.is_dir())


def _source(path: Path) -> Source:
    modified_ns = path.stat().st_mtime_ns
    arrival = datetime.fromtimestamp(modified_ns // 10**9, UTC)
    return Source(path, path.name, modified_ns // 1000, arrival.date())


def read_records(source: Source) -> Iterator[Record]:
    try:
        text = source.path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise AccountError(str(source.path), f"it cannot be read ({error})") from error
    lines = [line for line in re.split(r"\r\n|\r|\n", text) if line.strip(" \t")]
    match source.path.suffix.lower():
        case ".csv":
            return _records_of_csv(source, lines)
        case ".json" if text.lstrip(" \t\r\n").startswith("["):
            return _records_of_array(source, text)
        case ".json" | ".jsonl" | ".ndjson":
            return (_record_of_line(source, line) for line in lines)
    raise AccountError(str(source.path), "its name ends in none of .json .jsonl .ndjson .csv")


def _records_of_array(source: Source, text: str) -> Iterator[Record]:
    try:
        elements = _parse(text)
    except (ValueError, RecursionError) as error:
        raise AccountError(str(source.path), f"it is no valid JSON array ({error})") from error
    for element in elements:
        if isinstance(element, str):
            yield _record_of_line(source, element)
        else:
            yield _record_of_value(source, element)


def _record_of_line(source: Source, line: str) -> Record:
    try:
        return _record_of_value(source, _parse(line))
    except (ValueError, RecursionError):
        return _record_of_value(source, None)


def _record_of_value(source: Source, value: object) -> Record:
    if not isinstance(value, dict):
        return Record(source.name, None, None, "not a JSON object")
    fields = {name: _text(value[name]) for name in _FIELDS if value.get(name) is not None}
    return _judged(source, fields)


def _parse(text: str) -> Any:
    """The JSON value, its numbers as the texts that the contract gives them."""
    return json.loads(
        text, parse_int=_integer, parse_float=_not_integer, parse_constant=_no_constant
    )


def _integer(text: str) -> str:
    return str(int(_checked_length(text)))


def _not_integer(text: str) -> str:
    _checked_length(text)
    return _UNUSABLE


def _checked_length(text: str) -> str:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return text


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _text(value: object) -> str:
    return value if isinstance(value, str) else _UNUSABLE


def _records_of_csv(source: Source, lines: list[str]) -> Iterator[Record]:
    header = lines[0] if lines else None
    names = _csv_fields(header) if header else []
    if header and not all(names.count(name) == 1 for name in _FIELDS):
        raise AccountError(str(source.path), f"its header does not name {', '.join(_FIELDS)} once")
    for line in lines:
        if line == header:
            continue
        values = _csv_fields(line)
        if len(values) == len(names):
            yield _judged(source, dict(zip(names, values, strict=True)))
        else:
            yield Record(source.name, None, None, f"not {len(names)} fields")


def _csv_fields(line: str) -> list[str]:
    """The fields of a line; none when its quotes break the contract."""
    if not re.fullmatch(f"(?:{_CSV_FIELD})+", line + ","):
        return []
    fields: list[str] = re.findall(_CSV_FIELD, line + ",")
    return [
        field[1:-1].replace('""', '"') if field.startswith('"') else field for field in fields
    ]


def _judged(source: Source, fields: Mapping[str, str]) -> Record:
    departed_at = _departed_at(fields.get("date", ""), source.arrival_day)
    if isinstance(departed_at, str):
        return Record(source.name, None, None, departed_at)
    for name, pattern in _PATTERNS.items():
        text = fields.get(name, "")
        if not pattern.fullmatch(text):
            reason = f"{name} is {'malformed' if text else 'missing'}"
            return Record(source.name, departed_at.date(), None, reason)
    flight = Flight(
        departed_at,
        int(fields["delay"]),
        int(fields["distance"]),
        fields["origin"],
        fields["destination"],
    )
    return Record(source.name, departed_at.date(), flight, None)


def _departed_at(text: str, arrival_day: date) -> datetime | str:
    """The minute of departure, or the reason why there is none."""
    if not text:
        return "date is missing"
    if not _MINUTE.fullmatch(text):
        return "date is malformed"
    try:
        departed_at = datetime.strptime(text, "%Y/%m/%d %H:%M")
    except ValueError:
        return "date is malformed"
    if _EARLIEST_DAY <= departed_at.date() <= arrival_day + timedelta(days=1):
        return departed_at
    return "date is out of range"


