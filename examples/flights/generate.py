"""Generate: 31 days of made-up flights in daily files, with the faults of real feeds.

The same arguments give the same bytes. `flights-<day>.jsonl` (`.csv` for one day in seven) holds
the flights of its day and, as in real feeds,

- late arrivals: a few flights of the three days before, but never from before the first day;
- exact repeats, within the file and from the previous day's file;
- bad records of every kind in `_SPOIL_JSON` and `_SPOIL_CSV`, in turn.

A file's modification time is its time of arrival: 06:00 UTC of the next day. An existing file stays
unchanged, so a month can be generated again, or extended, and no file becomes a new generation.

The airports are real; flights, delays and the weights of airports are not.

`python -m examples.flights.generate` adds the next day's file to the demo's input.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from examples.flights.sources import FIELDS, airports_path

_DAYS = 31
_SEED = 20260101
_FLIGHTS_PER_DAY = 400
_FIRST_DAY_FILE = ".first-day"
_ARRIVAL = time(6, tzinfo=UTC)
_LATE_BY_DAYS = 3
_REPEATS = 3
_REPEATS_OF_YESTERDAY = 2
_SPOILT = 3
_SHORTEST_MILES = 100
_EARTH_RADIUS_MILES = 3958.8
_HOUR_WEIGHTS = (0, 0, 0, 0, 0, 3, 7, 8, 8, 6, 6, 6, 6, 6, 6, 6, 7, 8, 7, 6, 5, 3, 2, 1)
_AIRPORT_WEIGHTS = {"ATL": 9.0, "DFW": 8.0, "ORD": 8.0, "DEN": 7.0, "LAX": 7.0, "HNL": 1.0}
_MEAN_LATENESS = {"EWR": 34.0, "LGA": 31.0, "ORD": 29.0, "JFK": 27.0, "SLC": 14.0, "HNL": 10.0}


class _Flight(NamedTuple):
    date: str
    delay: int
    distance: int
    origin: str
    destination: str


class _Airport(NamedTuple):
    iata: str
    latitude: float
    longitude: float


class _Form(NamedTuple):
    suffix: str
    head: tuple[str, ...]
    encode: Callable[[_Flight], str]
    spoil: Sequence[Callable[[_Flight], str]]


def generate_month(
    folder: Path,
    first_day: date,
    *,
    seed: int = _SEED,
    days: int = _DAYS,
    flights_per_day: int = _FLIGHTS_PER_DAY,
) -> None:
    """Write the daily files that `folder` does not have yet.

    Args:
        folder: Created if it does not exist.
        first_day: The day of the first file.
        seed: Another seed gives other flights.
        days: Number of files; the first files are the same for every number.
        flights_per_day: A file's flights of its own day; a fifth less on Saturdays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / _FIRST_DAY_FILE
    if not record.exists():  # a later run continues the same files, whatever the date
        record.write_text(f"{first_day.isoformat()}\n")
    for index in range(days):
        day = first_day + timedelta(days=index)
        arrival = datetime.combine(day + timedelta(days=1), _ARRIVAL)
        path = folder / _file_name(day, index)
        if not path.exists():
            _write(path, _lines(day, index, seed, flights_per_day), arrival)


def first_day_of(folder: Path, today: date) -> date:
    """The first day of the generated files; without files, 31 days end two days before `today`."""
    record = folder / _FIRST_DAY_FILE
    if record.exists():
        return date.fromisoformat(record.read_text().strip())
    days = [path.name[8:18] for path in folder.glob("flights-*")]
    return date.fromisoformat(min(days)) if days else today - timedelta(days=_DAYS + 1)


def add_next_file(folder: Path, first_day: date, now: datetime) -> Path | None:
    """Write the file of the first day that has none; it arrives `now`.

    Returns:
        None if each day until `now` has its file.
    """
    for index in range((now.date() - first_day).days + 1):
        day = first_day + timedelta(days=index)
        path = folder / _file_name(day, index)
        if not path.exists():
            _write(path, _lines(day, index, _SEED, _FLIGHTS_PER_DAY), now)
            return path
    return None


def _file_name(day: date, index: int) -> str:
    return f"flights-{day.isoformat()}.{_form_of(index).suffix}"


def _form_of(index: int) -> _Form:
    return _CSV if index % 7 == 4 else _JSON_LINES


def _lines(day: date, index: int, seed: int, flights_per_day: int) -> list[str]:
    """The lines of a day's file, which is the file number `index` from 0."""
    airports, form = _load_airports(), _form_of(index)

    def flights_of(day: date, rng: Random) -> list[_Flight]:
        count = flights_per_day * 4 // 5 if day.weekday() == 5 else flights_per_day
        return _flights_of(day, count, airports, rng)

    rng = Random(f"{seed} {day.isoformat()}")
    flights = flights_of(day, rng)
    yesterday = day - timedelta(days=1)
    earlier = flights_of(yesterday, Random(f"{seed} {yesterday.isoformat()}")) if index else []
    late = _late_flights(day, min(_LATE_BY_DAYS, index), airports, rng)
    repeats = [*_pick(flights, _REPEATS, rng), *_pick(earlier, _REPEATS_OF_YESTERDAY, rng)]
    lines = [form.encode(flight) for flight in (*flights, *late)]
    _scatter([form.encode(flight) for flight in repeats], lines, rng)
    _scatter(_spoilt_lines(form, _pick(flights, _SPOILT, rng), turn=index), lines, rng)
    return [*form.head, *lines]


@cache
def _load_airports() -> list[_Airport]:
    with airports_path(None).open(encoding="utf-8", newline="") as file:
        return [
            _Airport(row["iata"], float(row["latitude"]), float(row["longitude"]))
            for row in csv.DictReader(file)
        ]


def _flights_of(day: date, count: int, airports: list[_Airport], rng: Random) -> list[_Flight]:
    """Generate the flights of one day by time of departure."""
    return sorted(_flight_on(day, airports, rng) for _ in range(count))


def _late_flights(
    day: date, days_back: int, airports: list[_Airport], rng: Random
) -> list[_Flight]:
    """Fewer for older days: three flights of yesterday, then two, then one."""
    return [
        flight
        for back in range(1, days_back + 1)
        for flight in _flights_of(day - timedelta(days=back), 4 - back, airports, rng)
    ]


def _flight_on(day: date, airports: list[_Airport], rng: Random) -> _Flight:
    weights = [_AIRPORT_WEIGHTS.get(airport.iata, 3.0) for airport in airports]
    (origin,) = rng.choices(airports, weights)
    miles = [_miles_between(origin, airport) for airport in airports]
    reachable = [
        weight if far >= _SHORTEST_MILES else 0.0
        for weight, far in zip(weights, miles, strict=True)
    ]
    (to,) = rng.choices(range(len(airports)), reachable)
    (hour,) = rng.choices(range(24), _HOUR_WEIGHTS)
    minute = int(rng.random() * 60)
    return _Flight(
        date=f"{day:%Y/%m/%d} {hour:02}:{minute:02}",
        delay=_delay_minutes(origin.iata, rng),
        distance=miles[to],
        origin=origin.iata,
        destination=airports[to].iata,
    )


def _delay_minutes(origin: str, rng: Random) -> int:
    """Two flights in three leave up to twelve minutes early, the others late with a long tail."""
    if rng.random() < 0.65:
        return -int(rng.random() * 13)
    lateness = -math.log(1 - rng.random()) * _MEAN_LATENESS.get(origin, 21.0)
    return min(600, 1 + int(lateness))


@cache
def _miles_between(one: _Airport, other: _Airport) -> int:
    """Great-circle distance by the haversine formula."""
    north, south = math.radians(one.latitude), math.radians(other.latitude)
    across = math.radians(other.longitude - one.longitude)
    half_chord_squared = (
        math.sin((south - north) / 2) ** 2
        + math.cos(north) * math.cos(south) * math.sin(across / 2) ** 2
    )
    return round(2 * _EARTH_RADIUS_MILES * math.asin(math.sqrt(half_chord_squared)))


def _pick(flights: Sequence[_Flight], count: int, rng: Random) -> list[_Flight]:
    return rng.choices(flights, k=count) if flights else []


def _scatter(extra: list[str], lines: list[str], rng: Random) -> None:
    for line in extra:
        lines.insert(int(rng.random() * (len(lines) + 1)), line)


def _spoilt_lines(form: _Form, flights: list[_Flight], *, turn: int) -> list[str]:
    """One bad line per flight; the kinds rotate."""
    return [
        form.spoil[(turn * _SPOILT + i) % len(form.spoil)](flight)
        for i, flight in enumerate(flights)
    ]


def _write(path: Path, lines: list[str], arrival: datetime) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes("".join(f"{line}\n" for line in lines).encode())
    os.utime(partial, (arrival.timestamp(), arrival.timestamp()))
    partial.replace(path)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _json_line(flight: _Flight) -> str:
    return _json(flight._asdict())


def _drop_field(flight: _Flight, name: str) -> dict[str, object]:
    return {field: value for field, value in flight._asdict().items() if field != name}


def _csv_line(flight: _Flight) -> str:
    return ",".join(map(str, flight))


_SPOIL_JSON: tuple[Callable[[_Flight], str], ...] = (
    lambda _: "-- connection lost, resuming --",
    lambda flight: _json_line(flight)[:50],
    lambda flight: _json(_drop_field(flight, "destination")),
    lambda flight: _json(flight._asdict() | {"origin": None}),
    lambda flight: _json(flight._asdict() | {"delay": "late"}),
    lambda flight: _json(flight._asdict() | {"date": flight.date[:5] + "13/32 25:61"}),
    lambda flight: _json(list(flight)),
    lambda _: "{}",
)
_SPOIL_CSV: tuple[Callable[[_Flight], str], ...] = (
    lambda flight: _csv_line(flight)[:18],
    lambda flight: _csv_line(flight._replace(origin="")),
    lambda flight: _csv_line(flight) + ",cancelled",
    lambda flight: _csv_line(flight).replace(f",{flight.delay},", ",late,", 1),
)
_JSON_LINES = _Form("jsonl", (), _json_line, _SPOIL_JSON)
_CSV = _Form("csv", (",".join(FIELDS),), _csv_line, _SPOIL_CSV)

if __name__ == "__main__":
    from examples.flights.settings import GENERATED_INPUT

    now = datetime.now(UTC)
    added = add_next_file(GENERATED_INPUT, first_day_of(GENERATED_INPUT, now.date()), now)
    print(f"New file: {added}" if added else "Each day until today has its file. Try tomorrow.")
