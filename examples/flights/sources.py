"""Sources: the input files, and the generation of each.

An input is one file, or every file directly inside a folder. Subfolders, names that begin with "."
or "_" (incomplete files, marker files) and `airports.csv` are no inputs. A file with any other name
that cannot be read as flights is an error and never skipped: a silently lost record is worse than a
stopped run.

The name identifies a file; each modification time is a generation of it. A corrected file is a new
generation when its modification time is later: generations must only grow. A file restored with an
old time (`cp -p`, `rsync -t`, an unpacked archive) looks older than the ingested file; `touch` it.
Write a file under a hidden name and rename it, so that it is never listed half-written.

The format follows from the name and the first byte other than white space:

    .jsonl .ndjson    json_lines
    .csv              csv
    .json             json_array when it begins with "[", json_lines when with "{"
    any of these      json_lines when the file holds only white space: it has no records

`contract` defines records and their validity. This module judges no records, except that it
validates the JSON of an array and the header of a CSV file, because the whole file depends on them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal, NoReturn

Format = Literal["json_array", "json_lines", "csv"]

FIELDS = ("date", "delay", "distance", "origin", "destination")
AIRPORTS_NAME = "airports.csv"

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv")
_CSV_FIELD = re.compile(r'("[^"]*+(?:""[^"]*+)*+"|[^",]*+),')
_CSV_LINE = re.compile(f"(?:{_CSV_FIELD.pattern})+")
_BYTE_ORDER_MARK = "\ufeff"
_LONGEST_HEADER = 65536
_MOVE = "or move it out of the folder"


class InputError(Exception):
    """An input file cannot be read as flights."""

    def __init__(self, path: str, reason: str, cure: str) -> None:
        super().__init__(path, reason, cure)
        self.path, self.reason, self.cure = path, reason, cure

    def __str__(self) -> str:
        return f"{self.path} {self.reason}: {self.cure}."


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One generation of an input file."""

    path: str
    """Absolute."""
    name: str
    """The file's own name: it identifies the file across generations."""
    generation: int
    """Modification time in microseconds since the Unix epoch."""
    arrival_day: date
    """UTC day of the modification time."""
    format: Format
    size: int
    """Bytes."""


def list_inputs(flights: Path) -> list[InputFile]:
    """List the input files, oldest generation first.

    Raises:
        InputError: `flights` does not exist; or a file cannot be read, has no known format, is an
            invalid JSON array, or is a CSV file without the five columns.
    """
    files = [_describe(path) for path in _paths(Path(os.path.abspath(flights)))]
    return sorted(files, key=lambda file: (file.generation, file.name))


def airports_path(flights: Path | None) -> Path:
    """The airports for these flights.

    `airports.csv` in the input folder, or beside the input file; otherwise the packaged list of big
    US airports.
    """
    if flights is not None:
        folder = flights if flights.is_dir() else flights.parent
        if (folder / AIRPORTS_NAME).is_file():
            return folder / AIRPORTS_NAME
    return Path(__file__).with_name(AIRPORTS_NAME)


def csv_fields(line: str) -> list[str] | None:
    """The fields of a CSV line; None when its quotes do not pair up."""
    if not _CSV_LINE.fullmatch(line + ","):
        return None
    return [
        field[1:-1].replace('""', '"') if field.startswith('"') else field
        for field in _CSV_FIELD.findall(line + ",")
    ]


def _paths(flights: Path) -> list[Path]:
    try:
        if not stat.S_ISDIR(flights.stat().st_mode):
            _refuse_name_that_spark_hides(flights)
            return [flights]
        return [path for path in flights.iterdir() if _is_input(path)]
    except FileNotFoundError as error:
        raise InputError(
            str(flights), "does not exist", "name an existing file or a folder of files"
        ) from error
    except OSError as error:
        _refuse_unreadable(flights, error)


def _refuse_name_that_spark_hides(path: Path) -> None:
    if path.name.startswith((".", "_")):
        raise InputError(
            str(path), 'has a hidden name (it begins with "." or "_")', "rename it to be read"
        )


def _is_input(path: Path) -> bool:
    return not (path.name.startswith((".", "_")) or path.name == AIRPORTS_NAME or path.is_dir())


def _describe(path: Path) -> InputFile:
    try:
        status = path.stat()
        file_format = _detect(path, status)
    except OSError as error:
        _refuse_unreadable(path, error)
    return InputFile(
        path=str(path),
        name=path.name,
        generation=status.st_mtime_ns // 1000,
        arrival_day=datetime.fromtimestamp(status.st_mtime_ns // 10**9, UTC).date(),
        format=file_format,
        size=status.st_size,
    )


def _detect(path: Path, status: os.stat_result) -> Format:
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES or not stat.S_ISREG(status.st_mode):
        raise InputError(
            str(path),
            "has no known format",
            f"name it {', '.join(_SUFFIXES)} by what it holds, {_MOVE}",
        )
    first = _first_line(path)
    if not first or suffix in (".jsonl", ".ndjson"):
        return "json_lines"
    if suffix == ".csv":
        _validate_header(path, first)
        return "csv"
    if first.lstrip().startswith("["):
        _validate_array(path, status.st_mtime_ns, status.st_size)
        return "json_array"
    if first.lstrip().startswith("{"):
        return "json_lines"
    raise InputError(
        str(path), 'begins with neither "[" nor "{"', f"write JSON in UTF-8 into it, {_MOVE}"
    )


def _first_line(path: Path) -> str:
    """The first line that is not blank, without its line end; cut when it is very long."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in iter(lambda: file.readline(_LONGEST_HEADER), ""):
            text = line.removeprefix(_BYTE_ORDER_MARK)
            if text.strip():
                return text.rstrip("\r\n")
    return ""


def _validate_header(path: Path, header: str) -> None:
    columns = csv_fields(header) or []
    if not all(columns.count(field) == 1 for field in FIELDS):
        raise InputError(
            str(path),
            "has no header line that names each column once",
            f"begin it with the line {','.join(FIELDS)} (in any order), {_MOVE}",
        )


@lru_cache(maxsize=4096)  # a sensor lists repeatedly; each generation is parsed once
def _validate_array(path: Path, modified_ns: int, size: int) -> None:  # noqa: ARG001
    try:
        text = path.read_bytes().decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK)
        json.loads(text, parse_int=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(
            str(path),
            f"is not one valid JSON array, perhaps cut short ({error})",
            f"write it again in full, {_MOVE}",
        ) from error


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _refuse_unreadable(path: Path, error: OSError) -> NoReturn:
    raise InputError(
        str(path),
        f"cannot be read ({error.strerror})",
        f"give this user permission to read it, {_MOVE}",
    ) from error
