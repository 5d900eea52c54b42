from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from examples.flights.contract import Record, read_records, read_sources
from examples.flights.generate import add_next_file, first_day_of, generate_month
from examples.flights.sources import airports_path, list_inputs

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "flights" / "airports.csv"
FIRST_DAY = date(2026, 1, 1)
DAYS = 31


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("month")
    generate_month(folder, FIRST_DAY)
    return folder


@pytest.fixture(scope="module")
def judged(month: Path) -> dict[str, list[Record]]:
    """The records of each file, by its name."""
    return {source.name: read_records(source) for source in read_sources(month)}


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.glob("flights-*"))
    }


def test_the_same_seed_gives_the_same_bytes_on_every_machine(month: Path) -> None:
    digest = hashlib.sha256()
    for path in sorted(month.glob("flights-*")):
        digest.update(path.read_bytes())
    # Changes only with the generator.
    assert digest.hexdigest() == "959946116f970fc1d24d0a3c7a84869ca71d3126eb62dd52808ebddebbfb5578"


def test_another_seed_gives_other_flights(tmp_path: Path) -> None:
    generate_month(tmp_path / "one", FIRST_DAY, days=1, flights_per_day=5)
    generate_month(tmp_path / "other", FIRST_DAY, days=1, flights_per_day=5, seed=7)
    assert contents(tmp_path / "one") != contents(tmp_path / "other")


def test_there_is_a_file_for_each_day_that_arrives_at_six_the_next_morning(month: Path) -> None:
    files = list_inputs(month)
    days = [FIRST_DAY + timedelta(days=index) for index in range(DAYS)]
    assert [file.name.split(".")[0] for file in files] == [f"flights-{day}" for day in days]
    for file, day in zip(files, days, strict=True):
        arrival = datetime(day.year, day.month, day.day, 6, tzinfo=UTC) + timedelta(days=1)
        assert file.generation == int(arrival.timestamp()) * 1_000_000
        assert file.arrival_day == arrival.date()


def test_some_days_come_as_csv_and_most_as_json_lines(month: Path) -> None:
    formats = Counter(file.format for file in list_inputs(month))
    assert formats == {"json_lines": 27, "csv": 4}


def test_generating_again_changes_neither_bytes_nor_times(tmp_path: Path) -> None:
    generate_month(tmp_path, FIRST_DAY, days=6, flights_per_day=20)
    corrected = tmp_path / "flights-2026-01-02.jsonl"
    corrected.write_text("{}\n")
    before = contents(tmp_path)
    generate_month(tmp_path, FIRST_DAY, days=6, flights_per_day=20)
    assert contents(tmp_path) == before


def test_a_file_that_was_deleted_comes_back_as_it_was(tmp_path: Path) -> None:
    generate_month(tmp_path, FIRST_DAY, days=6, flights_per_day=20)
    before = contents(tmp_path)
    (tmp_path / "flights-2026-01-05.csv").unlink()
    generate_month(tmp_path, FIRST_DAY, days=6, flights_per_day=20)
    assert contents(tmp_path) == before


def test_a_longer_month_begins_like_a_shorter_one(tmp_path: Path) -> None:
    generate_month(tmp_path / "short", FIRST_DAY, days=3, flights_per_day=20)
    generate_month(tmp_path / "long", FIRST_DAY, days=6, flights_per_day=20)
    short, long = contents(tmp_path / "short"), contents(tmp_path / "long")
    assert short.items() < long.items()


def test_the_files_are_of_the_last_31_days_and_stay_so(tmp_path: Path) -> None:
    today = date(2026, 3, 1)
    first_day = first_day_of(tmp_path, today)
    assert first_day == date(2026, 1, 28)
    generate_month(tmp_path, first_day, flights_per_day=5)
    assert max(file.arrival_day for file in list_inputs(tmp_path)) == date(2026, 2, 28)
    (tmp_path / f"flights-{first_day}.jsonl").unlink()
    assert first_day_of(tmp_path, date(2026, 4, 1)) == first_day


def test_the_next_file_is_the_next_day_and_arrives_now(tmp_path: Path) -> None:
    generate_month(tmp_path / "in", FIRST_DAY, days=3)
    generate_month(tmp_path / "more", FIRST_DAY, days=5)
    now = datetime(2026, 1, 5, 12, tzinfo=UTC)
    before = contents(tmp_path / "in")
    added = add_next_file(tmp_path / "in", FIRST_DAY, now)
    assert added == tmp_path / "in" / "flights-2026-01-04.jsonl"
    assert added.stat().st_mtime == now.timestamp()
    assert added.read_bytes() == (tmp_path / "more" / added.name).read_bytes()
    add_next_file(tmp_path / "in", FIRST_DAY, now)
    assert add_next_file(tmp_path / "in", FIRST_DAY, now) is None
    after = contents(tmp_path / "in")
    assert before.items() < after.items()
    assert sorted(after)[-1] == "flights-2026-01-05.csv"


def test_every_kind_of_bad_record_occurs(judged: dict[str, list[Record]]) -> None:
    reasons = {record.reason for records in judged.values() for record in records}
    assert reasons == {
        None,
        "not a JSON object",
        "not 5 fields",
        "date is missing",
        "date is malformed",
        "delay is malformed",
        "origin is missing",
        "destination is missing",
    }


def test_every_file_has_bad_records_but_not_many(judged: dict[str, list[Record]]) -> None:
    for records in judged.values():
        assert 1 <= sum(record.reason is not None for record in records) <= len(records) / 50


def test_flights_repeat_within_a_file_and_in_the_next_one(
    judged: dict[str, list[Record]],
) -> None:
    flights = [{r.flight for r in records if r.flight} for records in judged.values()]
    valid = [[r.flight for r in records if r.flight] for records in judged.values()]
    assert all(len(found) > len(set(found)) for found in valid)
    assert all(one & other for one, other in pairwise(flights))


def test_a_few_flights_arrive_up_to_three_days_late_and_none_is_of_before_the_month(
    judged: dict[str, list[Record]],
) -> None:
    late = Counter[int]()
    for name, records in judged.items():
        day = date.fromisoformat(name.split(".")[0].removeprefix("flights-"))
        late.update((day - r.flight_day).days for r in records if r.flight and r.flight_day)
    assert set(late) == {0, 1, 2, 3}
    assert late[0] > 50 * (late[1] + late[2] + late[3])
    days = {r.flight_day for records in judged.values() for r in records if r.flight_day}
    assert days == {FIRST_DAY + timedelta(days=index) for index in range(DAYS)}


def test_flights_are_plausible(judged: dict[str, list[Record]]) -> None:
    flights = [r.flight for records in judged.values() for r in records if r.flight]
    with airports_path(None).open(newline="") as file:
        airports = {row["iata"] for row in csv.DictReader(file)}
    assert {flight.origin for flight in flights} == airports
    assert {flight.destination for flight in flights} == airports
    assert all(flight.origin != flight.destination for flight in flights)
    assert all(-30 <= flight.delay <= 600 for flight in flights)
    assert all(100 <= flight.distance <= 5200 for flight in flights)
    boston_seattle = {f.distance for f in flights if {f.origin, f.destination} == {"BOS", "SEA"}}
    assert list(boston_seattle) == [pytest.approx(2496, rel=0.01)]


@pytest.mark.skipif(not REFERENCE.exists(), reason="the shared test data is not there")
def test_the_packaged_airports_lie_where_the_reference_has_them() -> None:
    with REFERENCE.open(newline="") as file:
        reference = {row["iata"]: row for row in csv.DictReader(file)}
    with airports_path(None).open(newline="") as file:
        packaged = list(csv.DictReader(file))
    assert len(packaged) >= 25
    for row in packaged:
        known = reference[row["iata"]]
        assert row["state"] == known["state"]
        for axis in ("latitude", "longitude"):
            assert math.isclose(float(row[axis]), float(known[axis]), abs_tol=0.1)
