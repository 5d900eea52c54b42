"""Accounting: every record of the inputs is a row of `flights`, a duplicate, or quarantined.

The check is independent: it reads the inputs with plain Python and the tables with delta-rs, and
shares no code with what wrote them. Which inputs and records count, and what makes a record bad,
is written down in `contract`.

Tables, under `<lake>/<name>`; one that does not exist counts as empty:

    flights_raw         a row for each record of the current generation of each input
    flights             a row for each different valid record; `departed_at` is its minute as UTC
    flights_quarantine  a row for each record that is not valid, with its reason
    delay_by_origin     for each flight day and origin of `flights`: rows, mean and greatest
                        delay, rows with a delay greater than 15

For each flight day, and for records without one:

    records = rows of flights + duplicates + rows of flights_quarantine = rows of flights_raw

Beyond the numbers, the rows of `flights` are compared with the valid records field by field, and
those of `flights_raw` and `flights_quarantine` by file, generation, flight day and reason.
Not checked: the columns joined from the airports, which of several equal records was kept
(`flights.source_file`), and the texts that `flights_raw` and `flights_quarantine` hold.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

_EXAMPLES = 5

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBalance:
    """What came in for one flight day and where it went."""

    flight_day: date | None
    """None: records without a usable date; in `Account.total`: all days."""
    records: int
    """In the inputs."""
    duplicates: int
    """Of the records: valid, and equal to one that is counted already."""
    bad: int
    """Of the records: not valid."""
    raw_rows: int
    flights_rows: int
    quarantine_rows: int

    @property
    def balanced(self) -> bool:
        """Every record is in `flights_raw`, and in `flights`, in quarantine or a duplicate."""
        return (
            self.raw_rows == self.records
            and self.quarantine_rows == self.bad
            and self.flights_rows == self.records - self.duplicates - self.bad
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The inputs against the tables."""

    days: list[DayBalance]
    """By flight day; the one without a day last."""
    total: DayBalance
    problems: list[str]

    @property
    def balanced(self) -> bool:
        """Nothing is lost, doubled or invented, and the aggregate is right."""
        return not self.problems

    def table(self) -> str:
        """The account as lines for a terminal."""
        titles = ("flight day", "records", "flights", "duplicates", "quarantined", "raw rows")
        rows = [_cells(str(day.flight_day or "(none)"), day) for day in self.days]
        lines = [_line(row) for row in (titles, *rows, _cells("total", self.total))]
        if self.balanced:
            return "\n".join([*lines, "balanced: every record is accounted for"])
        found = [f"  - {problem}" for problem in self.problems]
        return "\n".join([*lines, "not balanced:", *found])


def account(inputs: Path, lake: Path) -> Account:
    """Compare the current input files with the tables under `lake`.

    Raises:
        AccountError: An input or a table cannot be read as the contract says.
    """
    if not lake.is_dir():
        raise AccountError(str(lake), "there is no such folder")
    sources = read_sources(inputs)
    records = [record for source in sources for record in read_records(source)]
    raw = _rows(lake, "flights_raw", "source_file source_generation arrival_day flight_day")
    flights = _rows(
        lake, "flights", "flight_day departed_at delay_minutes distance_miles origin destination"
    )
    bad = _rows(lake, "flights_quarantine", "source_file flight_day reason")
    unique = {(record.flight_day, *record.flight) for record in records if record.flight}
    by_source = {source.name: (source.generation, source.arrival_day) for source in sources}
    days = _days(records, raw, flights, bad)
    return Account(
        days=days,
        total=_sum(days),
        problems=[
            *(_imbalance(day) for day in days if not day.balanced),
            *_differences(
                "flights_raw",
                Counter((record.source, *by_source[record.source]) for record in records),
                Counter(row[:3] for row in raw),
                "{0} (generation {1}, arrived {2})",
            ),
            *_differences(
                "flights", Counter(unique), Counter(flights), "{1} {4}-{5}, delay {2}, {3} miles"
            ),
            *_differences(
                "flights_quarantine",
                Counter((r.source, r.flight_day, r.reason) for r in records if r.reason),
                Counter(bad),
                "{0}, flight day {1}, reason {2!r}",
            ),
            *_aggregate_problems(lake, flights),
        ],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the account; 0 when it balances, 1 when not, 2 when it cannot be drawn up."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights.accounting")
    parser.add_argument("inputs", type=Path, help="an input file or the folder of input files")
    parser.add_argument("lake", type=Path, help="the folder that holds the tables")
    options = parser.parse_args(arguments)
    try:
        result = account(options.inputs, options.lake)
    except AccountError as error:
        print(error, file=sys.stderr)
        return 2
    print(result.table())
    return 0 if result.balanced else 1


def _rows(lake: Path, name: str, columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table, timestamps as UTC without a zone; no rows where there is no table."""
    location = str(lake / name)
    if not DeltaTable.is_deltatable(location):
        return []
    try:
        table = DeltaTable(location).to_pyarrow_table(columns=columns.split())
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        raise AccountError(location, f"its columns {columns} cannot be read ({error})") from error
    return list(zip(*(_values(column) for column in table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    values: list[Any] = column.to_pylist()
    return values


def _days(
    records: Iterable[Record], raw: list[Any], flights: list[Any], bad: list[Any]
) -> list[DayBalance]:
    seen: set[Flight] = set()
    counts: dict[str, Counter[date | None]] = {
        "raw_rows": Counter(row[3] for row in raw),
        "flights_rows": Counter(row[0] for row in flights),
        "quarantine_rows": Counter(row[1] for row in bad),
        "records": Counter(),
        "duplicates": Counter(),
        "bad": Counter(),
    }
    for record in records:
        counts["records"][record.flight_day] += 1
        if record.flight is None:
            counts["bad"][record.flight_day] += 1
        elif record.flight in seen:
            counts["duplicates"][record.flight_day] += 1
        else:
            seen.add(record.flight)
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


def _imbalance(day: DayBalance) -> str:
    return (
        f"flight day {day.flight_day or '(none)'}: {day.records} records of which {day.duplicates} "
        f"are duplicates and {day.bad} bad, but {day.raw_rows} raw rows, {day.flights_rows} rows "
        f"of flights and {day.quarantine_rows} of quarantine"
    )


def _differences(
    table: str, expected: Counter[_Key], actual: Counter[_Key], description: str
) -> Iterator[str]:
    """A sentence for each of the first keys that do not come as often as they should."""
    different = sorted((expected - actual) | (actual - expected), key=str)
    for key in different[:_EXAMPLES]:
        what = description.format(*key)  # type: ignore[misc]
        yield f"{table}: {actual[key]} rows instead of {expected[key]} for {what}"
    if len(different) > _EXAMPLES:
        yield f"{table}: {len(different) - _EXAMPLES} more differences of this kind"
