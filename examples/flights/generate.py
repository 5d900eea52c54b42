"""Generate: a month of made-up flights in daily files, with the faults of real feeds.

The same arguments give the same bytes. `flights-<day>.jsonl` (`.csv` for one day in seven) holds
the flights of its day and, as in real feeds,

- late arrivals: a few flights of the three days before, but never from before the first day;
- exact repeats, within the file and from the previous day's file;
- bad records of every kind in `_SPOIL_JSON` and `_SPOIL_CSV`, in turn.

A file's modification time is its time of arrival: 06:00 UTC of the next day. An existing file stays
unchanged, so a month can be generated again, or extended, and no file becomes a new generation.

The airports are real; flights, delays and the weights of airports are not.
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

FIRST_DAY = date(2026, 1, 1)
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
    *,
    seed: int = 20260101,
    first_day: date = FIRST_DAY,
    days: int = 31,
    flights_per_day: int = 400,
) -> None:
    """Write the daily files that `folder` does not have yet.

    Args:
        folder: Created if it does not exist.
        seed: Another seed gives other flights.
        first_day: The day of the first file.
        days: Number of files; the first files are the same for every number.
        flights_per_day: A file's flights of its own day; a fifth less on Saturdays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    airports = _load_airports()
    yesterday: Sequence[_Flight] = ()
    for index in range(days):
        day = first_day + timedelta(days=index)
        rng = Random(f"{seed} {day.isoformat()}")
        form = _CSV if index % 7 == 4 else _JSON_LINES
        count = flights_per_day * 4 // 5 if day.weekday() == 5 else flights_per_day
        flights = _flights_of(day, count, airports, rng)
        late = _late_flights(day, min(_LATE_BY_DAYS, index), airports, rng)
        repeats = [*_pick(flights, _REPEATS, rng), *_pick(yesterday, _REPEATS_OF_YESTERDAY, rng)]
        lines = [form.encode(flight) for flight in (*flights, *late)]
        _scatter([form.encode(flight) for flight in repeats], lines, rng)
        _scatter(_spoilt_lines(form, _pick(flights, _SPOILT, rng), turn=index), lines, rng)
        name = f"flights-{day.isoformat()}.{form.suffix}"
        arrival = datetime.combine(day + timedelta(days=1), _ARRIVAL)
        _write_if_absent(folder / name, [*form.head, *lines], arrival)
        yesterday = flights


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


def _write_if_absent(path: Path, lines: list[str], arrival: datetime) -> None:
    if path.exists():
        return
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
