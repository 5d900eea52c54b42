"""Accounting: every record of the inputs is a row of `flights`, a duplicate, or quarantined.

The check is independent: it reads the inputs with plain Python and the tables with delta-rs, and
shares no code with the pipeline. `contract` defines the inputs and records that count, and the
reasons that make a record bad.

Tables, under `<lake>/<name>`; a missing table counts as empty:

    flights_raw         a row for each record of the current generation of each input
    flights             a row for each different valid record; `departed_at` is its minute as UTC
    flights_quarantine  a row for each record that is not valid, with its reason
    delay_by_origin     for each flight day and origin of `flights`: rows, mean and greatest
                        delay, rows with a delay greater than 15

For each flight day, and for records without a day:

    records = rows of flights + duplicates + rows of flights_quarantine = rows of flights_raw

Besides these counts, the rows of `flights` are compared with the valid records field by field, and
the rows of `flights_raw` and `flights_quarantine` by file, generation, flight day and reason. Not
checked: the columns joined from the airports, the choice among equal records
(`flights.source_file`), and the texts in `flights_raw` and `flights_quarantine`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import (
    FileSystem,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
    SubTreeFileSystem,
)

from examples.flights.contract import (
    EARLIEST_DAY,
    AccountError,
    Record,
    Source,
    read_records,
    read_sources,
)

_COLUMNS = {
    "flights_raw": ("source_file", "source_generation", "arrival_day", "flight_day"),
    "flights": (
        "flight_day",
        "departed_at",
        "delay_minutes",
        "distance_miles",
        "origin",
        "destination",
    ),
    "flights_quarantine": ("source_file", "flight_day", "reason"),
    "delay_by_origin": (
        "flight_day",
        "origin",
        "flights",
        "mean_delay_minutes",
        "max_delay_minutes",
        "delayed_over_15",
    ),
}
_PUNCTUAL_MINUTES = 15
_EXAMPLES = 5
_LINE = "{:<10}  {:>9}  {:>9}  {:>10}  {:>11}  {:>9}"

_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBalance:
    """The records of one flight day, and the tables that hold them."""

    flight_day: date | None
    """None: records without a usable date; in `Account.total`: all days."""
    records: int
    """In the inputs."""
    duplicates: int
    """Valid records that equal a record counted before."""
    bad: int
    """Invalid records."""
    raw_rows: int
    flights_rows: int
    quarantine_rows: int

    @property
    def balanced(self) -> bool:
        """Whether every record is accounted for.

        Each record is in `flights_raw`, and in `flights`, in quarantine or a duplicate.
        """
        return (
            self.raw_rows == self.records
            and self.quarantine_rows == self.bad
            and self.flights_rows == self.records - self.duplicates - self.bad
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The inputs, compared with the tables."""

    days: list[DayBalance]
    """By flight day; records without a day come last."""
    total: DayBalance
    problems: list[str]

    @property
    def balanced(self) -> bool:
        """Whether nothing is lost, doubled or invented, and the aggregate is right."""
        return not self.problems

    def table(self) -> str:
        """The account as lines for a terminal."""
        lines = [
            _LINE.format("flight day", "records", "flights", "duplicates", "quarantined", "raw"),
            *(_line(day.flight_day or "(none)", day) for day in self.days),
            _line("total", self.total),
        ]
        if self.balanced:
            return "\n".join([*lines, "balanced: every record is accounted for"])
        found = [f"  - {problem}" for problem in self.problems]
        return "\n".join([*lines, "not balanced:", *found])


def account(inputs: Path, lake: str | Path, first_day: date = EARLIEST_DAY) -> Account:
    """Compare the current input files with the tables under `lake`, a folder or an address.

    Args:
        first_day: The pipeline's first day; records of earlier flights are out of range.

    Raises:
        AccountError: An input or a table cannot be read, or the folder `lake` does not exist.
    """
    if not _is_remote(lake) and not Path(lake).is_dir():
        raise AccountError(str(lake), "there is no such folder")
    sources = read_sources(inputs, first_day)
    records = {source: read_records(source) for source in sources}
    tables = _read_tables(lake)
    days = _balances([record for found in records.values() for record in found], tables)
    return Account(days=days, total=_sum(days), problems=_problems(days, records, tables))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the account; return 0 if it balances, 1 if not, 2 if it cannot be computed."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights.accounting")
    parser.add_argument("inputs", type=Path, help="an input file or the folder of input files")
    parser.add_argument("lake", help="the folder that holds the tables, or its address")
    parser.add_argument(
        "--first-day", type=date.fromisoformat, default=EARLIEST_DAY, help="of the pipeline"
    )
    options = parser.parse_args(arguments)
    try:
        result = account(options.inputs, options.lake, options.first_day)
    except AccountError as error:
        print(error, file=sys.stderr)
        return 2
    print(result.table())
    return 0 if result.balanced else 1


class _Tables(NamedTuple):
    """The rows of each table, cells in the order of `_COLUMNS`."""

    flights_raw: list[_Row]
    flights: list[_Row]
    flights_quarantine: list[_Row]
    delay_by_origin: list[_Row]


def _read_tables(lake: str | Path) -> _Tables:
    return _Tables(**{name: _rows(f"{lake}/{name}", names) for name, names in _COLUMNS.items()})


def _rows(location: str, columns: tuple[str, ...]) -> list[_Row]:
    # Required by delta-rs, although the environment names the endpoint.
    options = {"allow_http": "true"} if _is_remote(location) else None
    if not DeltaTable.is_deltatable(location, options):
        return []
    try:
        found = DeltaTable(location, storage_options=options)
        # With deltalake's own file system, Arrow's threads sometimes abort the exiting process.
        table = found.to_pyarrow_table(columns=list(columns), filesystem=_file_system(location))
        return list(zip(*(_cells(column) for column in table.columns), strict=True))
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        wanted = ", ".join(columns)
        raise AccountError(location, f"{wanted} cannot be read from it ({error})") from error


def _is_remote(location: str | Path) -> bool:
    return "://" in str(location)


def _file_system(location: str) -> FileSystem:
    if not _is_remote(location):
        return SubTreeFileSystem(location, LocalFileSystem())
    files, root = fsspec.url_to_fs(location)
    return SubTreeFileSystem(root, PyFileSystem(FSSpecHandler(files)))


def _cells(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # the contract's minutes have no zone
    cells: list[Any] = column.to_pylist()
    return cells


def _balances(records: list[Record], tables: _Tables) -> list[DayBalance]:
    valid = Counter(record.flight for record in records if record.flight)
    counts: dict[str, Counter[date | None]] = {
        "records": Counter(record.flight_day for record in records),
        "bad": Counter(record.flight_day for record in records if record.reason),
        "duplicates": Counter(
            flight.departed_at.date() for flight in (valid - Counter(set(valid))).elements()
        ),
        "raw_rows": Counter(row[-1] for row in tables.flights_raw),
        "flights_rows": Counter(row[0] for row in tables.flights),
        "quarantine_rows": Counter(row[1] for row in tables.flights_quarantine),
    }
    days = {day for counter in counts.values() for day in counter}
    return [
        DayBalance(flight_day=day, **{name: counter[day] for name, counter in counts.items()})
        for day in sorted(days, key=lambda day: day or date.max)
    ]


def _sum(days: list[DayBalance]) -> DayBalance:
    return DayBalance(
        flight_day=None,
        records=sum(day.records for day in days),
        duplicates=sum(day.duplicates for day in days),
        bad=sum(day.bad for day in days),
        raw_rows=sum(day.raw_rows for day in days),
        flights_rows=sum(day.flights_rows for day in days),
        quarantine_rows=sum(day.quarantine_rows for day in days),
    )


def _problems(
    days: list[DayBalance], records: dict[Source, list[Record]], tables: _Tables
) -> list[str]:
    judged = [record for found in records.values() for record in found]
    raw = Counter(
        {(s.name, s.generation, s.arrival_day): len(found) for s, found in records.items()}
    )
    valid = {(record.flight_day, *record.flight) for record in judged if record.flight}
    bad = Counter((r.source, r.flight_day, r.reason) for r in judged if r.reason)
    return [
        *_shorten("flight days", [_imbalance(day) for day in days if not day.balanced]),
        *_differences(
            "flights_raw",
            expected=raw,
            actual=Counter(row[:3] for row in tables.flights_raw),
            key="{0}, generation {1}, arrived {2}",
        ),
        *_differences(
            "flights",
            expected=Counter(valid),
            actual=Counter(tables.flights),
            key="flight day {0}: {1} UTC, delay {2}, {3} miles, {4} to {5}",
        ),
        *_differences(
            "flights_quarantine",
            expected=bad,
            actual=Counter(tables.flights_quarantine),
            key="{0}, flight day {1}, reason {2!r}",
        ),
        *_differences(
            "delay_by_origin",
            expected=Counter(_delays(tables.flights)),
            actual=Counter(map(_round_mean, tables.delay_by_origin)),
            key="flight day {0}, origin {1}: {2} flights, mean {3}, max {4}, {5} over 15",
        ),
    ]


def _imbalance(day: DayBalance) -> str:
    return (
        f"flight day {day.flight_day or '(none)'}: {day.records} records, {day.duplicates} of them "
        f"duplicates and {day.bad} bad; the tables have {day.flights_rows} rows of flights, "
        f"{day.quarantine_rows} in quarantine and {day.raw_rows} raw"
    )


def _differences(
    table: str, *, expected: Counter[_Row], actual: Counter[_Row], key: str
) -> list[str]:
    """A sentence for each row with a wrong count."""
    different = (expected - actual) + (actual - expected)
    return _shorten(
        table,
        [
            f"{table}: {actual[row]} rows instead of {expected[row]} for {key.format(*row)}"
            for row in sorted(different, key=lambda row: [str(cell) for cell in row])
        ],
    )


def _shorten(about: str, problems: list[str]) -> list[str]:
    if len(problems) <= _EXAMPLES:
        return problems
    return [*problems[:_EXAMPLES], f"{about}: {len(problems) - _EXAMPLES} more problems like these"]


def _delays(flights: list[_Row]) -> Iterator[_Row]:
    """The rows that `delay_by_origin` should have."""
    delays = defaultdict[_Row, list[int]](list)
    for day, _, delay, _, origin, _ in flights:
        delays[day, origin].append(delay)
    for (day, origin), found in delays.items():
        known = [delay for delay in found if delay is not None]
        mean = fmean(known) if known else None
        late = sum(delay > _PUNCTUAL_MINUTES for delay in known)
        yield _round_mean((day, origin, len(found), mean, max(known, default=None), late))


def _round_mean(row: _Row) -> _Row:
    """Round the mean: its last digits depend on the order of the sum."""
    day, origin, flights, mean, *rest = row
    return (day, origin, flights, None if mean is None else round(mean, 6), *rest)


def _line(name: object, day: DayBalance) -> str:
    mark = "" if day.balanced else "  <- does not add up"
    return (
        _LINE.format(
            str(name),
            day.records,
            day.flights_rows,
            day.duplicates,
            day.quarantine_rows,
            day.raw_rows,
        )
        + mark
    )


if __name__ == "__main__":
    sys.exit(main())
