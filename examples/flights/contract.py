r"""Contract: what a record is, when it is valid, and the reason when it is not.

The code below is the contract in plain Python, for `accounting`. The pipeline implements the same
text with its own code; with shared code the account would only agree with itself.

Inputs
  A file, or each file directly inside a folder whose name does not begin with "." or "_" and is
  not `airports.csv`. A file's arrival day is the UTC day of its modification time, its generation
  that time in microseconds. `.jsonl` and `.ndjson` are JSON lines, `.csv` is CSV; `.json` is one
  JSON array when its first character other than white space is "[", else JSON lines. Text is
  UTF-8; invalid bytes are replaced by U+FFFD.
  LF ends a line. Carriage returns at its end and a byte order mark at its start are not part of
  it. A line is blank when it is white space only (Unicode's, as in `str.strip`).

Records
  JSON lines: each line that is not blank. JSON array: each element. CSV: each line that is not
  blank, except the first such line, which is the header.

Fields: date, delay, distance, origin, destination. Others are ignored, and do not make records
different. A field is a text, or missing:
  JSON    A record is one JSON object: RFC 8259, so double quotes, no comments, no NaN, no comma
          before a bracket, only white space around it. Names match exactly; the last of
          equal names counts. A string is its characters; a number is its text in the file (12.0,
          1e3, -0); true, false, an array and an object are malformed in any field; null and an
          absent name are missing. Nesting deeper than 900 levels is outside this contract.
  CSV     One line, split at commas. A field has no double quotes, or it begins and ends with
          a double quote; inside, commas are literal and each double quote is doubled. No white
          space is trimmed. The header names each of the five once, in any order. A line whose
          quotes break this rule, or with more or fewer fields than the header (N), is "not N
          fields".
  The empty text is missing.

Checks, in this order; the first failed check is the reason. A pattern matches the whole text, and
[0-9] is ASCII (for Spark: rlike with \A and \z, as $ matches before a line end, too).
  not a JSON object   (CSV: not N fields)
  date is missing
  date is malformed          not [0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}, or no such minute:
                             proleptic Gregorian, years 0001-9999, hours 00-23; no time zone
  date is out of range       its day is before the pipeline's first day, or after the file's arrival
                             day + 1
  delay is missing
  delay is malformed         not [+-]?[0-9]{1,6}
  distance is missing
  distance is malformed      not [0-9]{1,6}
  origin is missing
  origin is malformed        not [A-Z0-9]{3}
  destination is missing
  destination is malformed   not [A-Z0-9]{3}

A record's flight day is its date's day, in range or not. It is null without a valid date: the
record is not an object or not N fields, or its date is missing or malformed. Two valid records are
equal when minute, delay and distance as numbers, origin and destination are equal (so "+5" equals
5), in any file, line or format. One of them is a row of `flights`; the others are duplicates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_FIELDS = ("date", "delay", "distance", "origin", "destination")
EARLIEST_DAY = date(1987, 10, 1)
"""The first day with flight records: the default first day of a pipeline."""
_MINUTE = re.compile(r"[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}")
_PATTERNS = {
    "delay": re.compile(r"[+-]?[0-9]{1,6}"),
    "distance": re.compile(r"[0-9]{1,6}"),
    "origin": re.compile(r"[A-Z0-9]{3}"),
    "destination": re.compile(r"[A-Z0-9]{3}"),
}
_MALFORMED = "\0"  # matches no pattern
_CSV_FIELD = r'("[^"]*+(?:""[^"]*+)*+"|[^",]*+),'


class AccountError(Exception):
    """The inputs or the tables cannot be read, so the balance is unknown."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path} cannot be accounted for: {self.reason}."


class Source(NamedTuple):
    """An input file."""

    path: Path
    name: str
    generation: int
    arrival_day: date
    first_day: date = EARLIEST_DAY
    """The pipeline's first day: records of earlier flights are out of range."""


class Flight(NamedTuple):
    """The identity of a valid record."""

    departed_at: datetime
    """UTC, without a zone."""
    delay: int
    distance: int
    origin: str
    destination: str


class Record(NamedTuple):
    """A record and its verdict: either a flight or a reason."""

    source: str
    """The file's name."""
    flight_day: date | None
    flight: Flight | None
    reason: str | None


def read_sources(inputs: Path, first_day: date = EARLIEST_DAY) -> list[Source]:
    """List the input files by name.

    Raises:
        AccountError: The files cannot be listed.
    """
    try:
        paths = sorted(inputs.iterdir()) if inputs.is_dir() else [inputs]
        named = [path for path in paths if path == inputs or _is_named_as_input(path)]
        return [_source(path, first_day) for path in named]
    except OSError as error:
        raise AccountError(str(inputs), f"it cannot be listed ({error})") from error


def read_records(source: Source) -> list[Record]:
    """Judge every record of a file, in the order of the file.

    Raises:
        AccountError: The file cannot be read, has an unknown format, or is an invalid JSON array
            or a CSV file without the columns.
    """
    try:
        text = source.path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError as error:
        raise AccountError(str(source.path), f"it cannot be read ({error})") from error
    lines = [line.removeprefix("\ufeff").rstrip("\r") for line in text.split("\n")]
    lines = [line for line in lines if line.strip()]
    match source.path.suffix.lower():
        case ".csv":
            return _records_of_csv(source, lines)
        case ".json" if text.lstrip().startswith("["):
            return _records_of_array(source, text)
        case ".json" | ".jsonl" | ".ndjson":
            return [_record_of_line(source, line) for line in lines]
    raise AccountError(str(source.path), "its name ends in none of .json .jsonl .ndjson .csv")


def _is_named_as_input(path: Path) -> bool:
    hidden = path.name.startswith((".", "_"))
    return not (hidden or path.name == "airports.csv" or path.is_dir())


def _source(path: Path, first_day: date) -> Source:
    modified_ns = path.stat().st_mtime_ns
    arrival = datetime.fromtimestamp(modified_ns // 10**9, UTC)
    return Source(path, path.name, modified_ns // 1000, arrival.date(), first_day)


def _records_of_array(source: Source, text: str) -> list[Record]:
    try:
        elements = _parse(text)
    except (ValueError, RecursionError) as error:
        raise AccountError(str(source.path), f"it is no valid JSON array ({error})") from error
    return [_record_of_value(source, element) for element in elements]


def _record_of_line(source: Source, line: str) -> Record:
    try:
        return _record_of_value(source, _parse(line))
    except (ValueError, RecursionError):
        return _record_of_value(source, None)


def _record_of_value(source: Source, value: object) -> Record:
    if not isinstance(value, dict):
        return Record(source.name, None, None, "not a JSON object")
    fields = {name: value[name] for name in _FIELDS if value.get(name) is not None}
    return _judge(
        source,
        {name: field if isinstance(field, str) else _MALFORMED for name, field in fields.items()},
    )


def _parse(text: str) -> Any:
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _records_of_csv(source: Source, lines: list[str]) -> list[Record]:
    if not lines:
        return []
    names = _csv_fields(lines[0])
    if not all(names.count(name) == 1 for name in _FIELDS):
        columns = ", ".join(_FIELDS)
        raise AccountError(str(source.path), f"its header does not name each of {columns} once")
    return [_record_of_csv_line(source, names, line) for line in lines[1:]]


def _record_of_csv_line(source: Source, names: list[str], line: str) -> Record:
    values = _csv_fields(line)
    if len(values) != len(names):
        return Record(source.name, None, None, f"not {len(names)} fields")
    return _judge(source, dict(zip(names, values, strict=True)))


def _csv_fields(line: str) -> list[str]:
    """The fields of a line; empty if its quotes break the contract."""
    if not re.fullmatch(f"(?:{_CSV_FIELD})+", line + ","):
        return []
    fields: list[str] = re.findall(_CSV_FIELD, line + ",")
    return [field[1:-1].replace('""', '"') if field.startswith('"') else field for field in fields]


def _judge(source: Source, fields: Mapping[str, str]) -> Record:
    departed_at = _minute(fields.get("date", ""))
    if departed_at is None:
        reason = "date is malformed" if fields.get("date") else "date is missing"
        return Record(source.name, None, None, reason)
    day = departed_at.date()
    if not source.first_day <= day <= source.arrival_day + timedelta(days=1):
        return Record(source.name, day, None, "date is out of range")
    for name, pattern in _PATTERNS.items():
        text = fields.get(name, "")
        if not pattern.fullmatch(text):
            return Record(source.name, day, None, f"{name} is {'malformed' if text else 'missing'}")
    delay, distance = int(fields["delay"]), int(fields["distance"])
    flight = Flight(departed_at, delay, distance, fields["origin"], fields["destination"])
    return Record(source.name, day, flight, None)


def _minute(text: str) -> datetime | None:
    if not _MINUTE.fullmatch(text):
        return None
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M")
    except ValueError:
        return None
