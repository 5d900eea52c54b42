from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from examples.flights.accounting import Account, DayBalance, account, main
from examples.flights.contract import AccountError

PROJECT = Path(__file__).parents[2]
REAL_FLIGHTS = PROJECT.parent / "shared" / "data" / "flights" / "flights-20k.json"

NEW_YEAR, SECOND = date(2026, 1, 1), date(2026, 1, 2)
ARRIVALS = {
    "a.jsonl": datetime(2026, 1, 2, 6, tzinfo=UTC),
    "b.csv": datetime(2026, 1, 3, 6, tzinfo=UTC),
}
INPUTS = {
    "a.jsonl": """\
{"date":"2026/01/01 05:10","delay":-3,"distance":1053,"origin":"DFW","destination":"LAS"}
{"date":"2026/01/01 07:00","delay":16,"distance":630,"origin":"DFW","destination":"DEN"}
{"date":"2026/01/01 05:10","delay":-3,"distance":1053,"origin":"DFW","destination":"LAS"}

{"date":"2026/01/01 09:00","delay":"late","distance":630,"origin":"DFW","destination":"DEN"}
-- connection lost --
""",
    "b.csv": """\
date,delay,distance,origin,destination
2026/01/02 08:00,15,867,ORD,BOS
2026/01/01 07:00,+16,630,DFW,DEN
2026/01/01 23:59,40,1846,BOS,DEN
2026/01/02 09:00,12
""",
}

Row = dict[str, Any]
Rows = dict[str, list[Row]]

TEXTS = ("record", "date", "delay", "distance", "origin", "destination")
SCHEMAS = {
    "flights_raw": pa.schema(
        [
            ("arrival_day", pa.date32()),
            ("source_file", pa.string()),
            ("source_generation", pa.int64()),
            *((name, pa.string()) for name in TEXTS),
            ("flight_day", pa.date32()),
        ]
    ),
    "flights": pa.schema(
        [
            ("flight_day", pa.date32()),
            ("departed_at", pa.timestamp("us", "UTC")),
            ("delay_minutes", pa.int32()),
            ("distance_miles", pa.int32()),
            ("origin", pa.string()),
            ("destination", pa.string()),
            ("source_file", pa.string()),
        ]
    ),
    "flights_quarantine": pa.schema(
        [
            ("arrival_day", pa.date32()),
            ("source_file", pa.string()),
            ("record", pa.string()),
            ("flight_day", pa.date32()),
            ("reason", pa.string()),
        ]
    ),
    "delay_by_origin": pa.schema(
        [
            ("flight_day", pa.date32()),
            ("origin", pa.string()),
            ("flights", pa.int64()),
            ("mean_delay_minutes", pa.float64()),
            ("max_delay_minutes", pa.int32()),
            ("delayed_over_15", pa.int64()),
        ]
    ),
}
PARTITIONED_BY = {
    "flights_raw": "arrival_day",
    "flights": "flight_day",
    "flights_quarantine": "arrival_day",
    "delay_by_origin": "flight_day",
}


def raw(source: str, flight_day: date | None) -> Row:
    arrived = ARRIVALS[source]
    generation = int(arrived.timestamp()) * 1_000_000
    return {
        "arrival_day": arrived.date(),
        "source_file": source,
        "source_generation": generation,
        "flight_day": flight_day,
    }


def flight(day: date, time: str, delay: int, miles: int, origin: str, destination: str) -> Row:
    return {
        "flight_day": day,
        "departed_at": datetime.fromisoformat(f"{day} {time}+00:00"),
        "delay_minutes": delay,
        "distance_miles": miles,
        "origin": origin,
        "destination": destination,
    }


def quarantined(source: str, flight_day: date | None, reason: str) -> Row:
    return {"source_file": source, "flight_day": flight_day, "reason": reason}


def delays(day: date, origin: str, flights: int, mean: float, most: int, late: int) -> Row:
    values = (day, origin, flights, mean, most, late)
    return dict(zip(SCHEMAS["delay_by_origin"].names, values, strict=True))


def right_rows() -> Rows:
    """The expected rows for `INPUTS`, worked out by hand."""
    return {
        "flights_raw": [
            *(raw("a.jsonl", NEW_YEAR) for _ in range(4)),
            raw("a.jsonl", None),
            raw("b.csv", SECOND),
            *(raw("b.csv", NEW_YEAR) for _ in range(2)),
            raw("b.csv", None),
        ],
        "flights": [
            flight(NEW_YEAR, "05:10", -3, 1053, "DFW", "LAS"),
            flight(NEW_YEAR, "07:00", 16, 630, "DFW", "DEN"),
            flight(SECOND, "08:00", 15, 867, "ORD", "BOS"),
            flight(NEW_YEAR, "23:59", 40, 1846, "BOS", "DEN"),
        ],
        "flights_quarantine": [
            quarantined("a.jsonl", NEW_YEAR, "delay is malformed"),
            quarantined("a.jsonl", None, "not a JSON object"),
            quarantined("b.csv", None, "not 5 fields"),
        ],
        "delay_by_origin": [
            delays(NEW_YEAR, "DFW", 2, 6.5, 16, 1),
            delays(NEW_YEAR, "BOS", 1, 40.0, 40, 1),
            delays(SECOND, "ORD", 1, 15.0, 15, 0),
        ],
    }


def write_lake(lake: Path, rows: Mapping[str, list[Row]]) -> Path:
    lake.mkdir(exist_ok=True)
    for name, found in rows.items():
        table = pa.Table.from_pylist(found, schema=SCHEMAS[name])
        write_deltalake(lake / name, table, partition_by=[PARTITIONED_BY[name]])
    return lake


def write_inputs(folder: Path) -> Path:
    folder.mkdir()
    for name, content in INPUTS.items():
        (folder / name).write_text(content)
        os.utime(folder / name, (ARRIVALS[name].timestamp(),) * 2)
    return folder


def account_with(tmp_path: Path, change: Callable[[Rows], object]) -> Account:
    """The account of `INPUTS` for the right tables with one change."""
    rows = right_rows()
    change(rows)
    return account(write_inputs(tmp_path / "in"), write_lake(tmp_path / "lake", rows))


def test_the_right_tables_balance_by_day_and_in_total(tmp_path: Path) -> None:
    result = account_with(tmp_path, lambda rows: None)
    assert result.problems == []
    assert result.balanced
    assert result.days == [
        DayBalance(
            flight_day=NEW_YEAR,
            records=6,
            duplicates=2,
            bad=1,
            raw_rows=6,
            flights_rows=3,
            quarantine_rows=1,
        ),
        DayBalance(
            flight_day=SECOND,
            records=1,
            duplicates=0,
            bad=0,
            raw_rows=1,
            flights_rows=1,
            quarantine_rows=0,
        ),
        DayBalance(
            flight_day=None,
            records=2,
            duplicates=0,
            bad=2,
            raw_rows=2,
            flights_rows=0,
            quarantine_rows=2,
        ),
    ]
    assert result.total == DayBalance(
        flight_day=None,
        records=9,
        duplicates=2,
        bad=3,
        raw_rows=9,
        flights_rows=4,
        quarantine_rows=3,
    )


def drop(table: str, index: int) -> Callable[[Rows], object]:
    return lambda rows: rows[table].pop(index)


def repeat(table: str, index: int) -> Callable[[Rows], object]:
    return lambda rows: rows[table].append(rows[table][index])


def alter(table: str, index: int, **cells: object) -> Callable[[Rows], object]:
    return lambda rows: rows[table][index].update(cells)


@pytest.mark.some_cases(7)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(
            drop("flights", 2),
            "flights: 0 rows instead of 1 for flight day 2026-01-02: 2026-01-02 08:00:00 UTC, "
            "delay 15, 867 miles, ORD to BOS",
            id="a flight is lost",
        ),
        pytest.param(
            repeat("flights", 0),
            "flights: 2 rows instead of 1 for flight day 2026-01-01: 2026-01-01 05:10:00 UTC, "
            "delay -3, 1053 miles, DFW to LAS",
            id="a flight is doubled",
        ),
        pytest.param(
            alter("flights", 0, destination="SFO"),
            "flights: 1 rows instead of 0 for flight day 2026-01-01: 2026-01-01 05:10:00 UTC, "
            "delay -3, 1053 miles, DFW to SFO",
            id="a flight is altered",
        ),
        pytest.param(
            alter("flights", 0, departed_at=datetime(2026, 1, 1, 4, 10, tzinfo=UTC)),
            "flights: 1 rows instead of 0 for flight day 2026-01-01: 2026-01-01 04:10:00 UTC, "
            "delay -3, 1053 miles, DFW to LAS",
            id="a flight left in another time zone",
        ),
        pytest.param(
            drop("flights_quarantine", 2),
            "flights_quarantine: 0 rows instead of 1 for b.csv, flight day None, reason "
            "'not 5 fields'",
            id="a bad record is lost",
        ),
        pytest.param(
            alter("flights_quarantine", 0, reason="delay is missing"),
            "flights_quarantine: 1 rows instead of 0 for a.jsonl, flight day 2026-01-01, reason "
            "'delay is missing'",
            id="a bad record has another reason",
        ),
        pytest.param(
            drop("flights_raw", 0),
            "flights_raw: 4 rows instead of 5 for a.jsonl, generation 1767333600000000, "
            "arrived 2026-01-02",
            id="a raw record is lost",
        ),
        pytest.param(
            lambda rows: rows["flights_raw"].append(raw("b.csv", None) | {"source_generation": 5}),
            "flights_raw: 1 rows instead of 0 for b.csv, generation 5, arrived 2026-01-03",
            id="a raw record of an older generation is left",
        ),
        pytest.param(
            lambda rows: rows["flights_raw"].append(raw("a.jsonl", None) | {"source_file": "z"}),
            "flights_raw: 1 rows instead of 0 for z, generation 1767333600000000, "
            "arrived 2026-01-02",
            id="a raw record is of a file that is no input",
        ),
        pytest.param(
            alter("flights_raw", 8, flight_day=SECOND),
            "flight day (none): 2 records, 0 of them duplicates and 2 bad; the tables have 0 rows "
            "of flights, 2 in quarantine and 1 raw",
            id="a raw record has another flight day",
        ),
        pytest.param(
            drop("delay_by_origin", 2),
            "delay_by_origin: 0 rows instead of 1 for flight day 2026-01-02, origin ORD: "
            "1 flights, mean 15.0, max 15, 0 over 15",
            id="an origin is missing from the aggregate",
        ),
        pytest.param(
            alter("delay_by_origin", 0, mean_delay_minutes=6.499),
            "delay_by_origin: 1 rows instead of 0 for flight day 2026-01-01, origin DFW: "
            "2 flights, mean 6.499, max 16, 1 over 15",
            id="a mean is wrong",
        ),
        pytest.param(
            alter("delay_by_origin", 2, delayed_over_15=1),
            "delay_by_origin: 1 rows instead of 0 for flight day 2026-01-02, origin ORD: "
            "1 flights, mean 15.0, max 15, 1 over 15",
            id="fifteen minutes are counted as over fifteen",
        ),
        pytest.param(
            repeat("delay_by_origin", 0),
            "delay_by_origin: 2 rows instead of 1 for flight day 2026-01-01, origin DFW: "
            "2 flights, mean 6.5, max 16, 1 over 15",
            id="the aggregate has an origin twice",
        ),
        pytest.param(
            alter("flights", 3, delay_minutes=None),
            "flights: 1 rows instead of 0 for flight day 2026-01-01: 2026-01-01 23:59:00 UTC, "
            "delay None, 1846 miles, BOS to DEN",
            id="a delay is null",
        ),
    ],
)
def test_lost_doubled_or_altered_rows_are_a_problem(
    tmp_path: Path, change: Callable[[Rows], object], problem: str
) -> None:
    result = account_with(tmp_path, change)
    assert problem in result.problems
    assert not result.balanced


def test_a_loss_that_an_invention_makes_up_for_is_two_problems(tmp_path: Path) -> None:
    result = account_with(tmp_path, alter("flights", 2, delay_minutes=14, origin="MSP"))
    assert result.total.balanced
    about_flights = [problem for problem in result.problems if problem.startswith("flights:")]
    assert len(about_flights) == 2


def test_problems_of_a_kind_come_in_the_order_of_time(tmp_path: Path) -> None:
    result = account_with(tmp_path, lambda rows: rows["flights"].clear())
    lost = [problem for problem in result.problems if problem.startswith("flights:")]
    days_and_times = [problem.split(" UTC")[0][-19:] for problem in lost]
    assert days_and_times == sorted(days_and_times)
    assert len(lost) == 4


def test_a_mean_may_differ_in_its_last_digits(tmp_path: Path) -> None:
    assert account_with(
        tmp_path, alter("delay_by_origin", 0, mean_delay_minutes=6.5 + 1e-12)
    ).balanced


def test_a_table_that_does_not_exist_is_an_empty_one(tmp_path: Path) -> None:
    result = account_with(tmp_path, lambda rows: rows.pop("flights_quarantine"))
    assert result.total.quarantine_rows == 0
    assert not result.balanced

    for name in INPUTS:
        (tmp_path / "in" / name).unlink()
    (tmp_path / "empty").mkdir()
    assert account(tmp_path / "in", tmp_path / "empty").balanced


def test_tables_of_several_versions_are_read_at_the_latest(tmp_path: Path) -> None:
    inputs, lake = write_inputs(tmp_path / "in"), write_lake(tmp_path / "lake", right_rows())
    table = pa.Table.from_pylist(right_rows()["flights"], schema=SCHEMAS["flights"])
    write_deltalake(lake / "flights", table, mode="append")
    assert not account(inputs, lake).balanced
    write_deltalake(lake / "flights", table, mode="overwrite")
    assert account(inputs, lake).balanced


def test_an_input_that_came_after_the_tables_unbalances_them(tmp_path: Path) -> None:
    inputs, lake = write_inputs(tmp_path / "in"), write_lake(tmp_path / "lake", right_rows())
    (inputs / "c.jsonl").write_text("{}\n{}\n")
    result = account(inputs, lake)
    assert any(
        p.startswith("flights_raw: 0 rows instead of 2 for c.jsonl") for p in result.problems
    )


def test_one_file_can_be_accounted_for_alone(tmp_path: Path) -> None:
    inputs, rows = write_inputs(tmp_path / "in"), right_rows()
    rows["flights_raw"] = rows["flights_raw"][:5]
    rows["flights"] = rows["flights"][:2]
    rows["flights_quarantine"] = rows["flights_quarantine"][:2]
    rows["delay_by_origin"] = rows["delay_by_origin"][:1]
    assert account(inputs / "a.jsonl", write_lake(tmp_path / "lake", rows)).balanced


def test_the_first_problems_of_each_kind_are_reported(tmp_path: Path) -> None:
    result = account_with(
        tmp_path,
        lambda rows: rows["flights"].extend(
            flight(SECOND, "10:00", delay, 1, "AAA", "BBB") for delay in range(9)
        ),
    )
    about_flights = [problem for problem in result.problems if problem.startswith("flights:")]
    assert len(about_flights) == 6
    assert about_flights[-1] == "flights: 4 more problems like these"


def test_the_table_shows_each_day_and_marks_what_does_not_add_up(tmp_path: Path) -> None:
    lines = account_with(tmp_path, drop("flights", 2)).table().splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["flight", "day", "records", "flights", "duplicates", "quarantined", "raw"],
        ["2026-01-01", "6", "3", "2", "1", "6"],
        ["2026-01-02", "1", "0", "0", "0", "1", "<-", "does", "not", "add", "up"],
    ]
    assert lines[3].split() == ["(none)", "2", "0", "0", "2", "2"]
    assert lines[4].split()[:6] == ["total", "9", "3", "2", "3", "9"]
    assert lines[5] == "not balanced:"
    assert all(line.startswith("  - ") for line in lines[6:])


def test_the_command_prints_the_account_and_exits_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, lake = write_inputs(tmp_path / "in"), write_lake(tmp_path / "lake", right_rows())
    assert main([str(inputs), str(lake)]) == 0
    assert capsys.readouterr().out == account(inputs, lake).table() + "\n"

    (inputs / "a.jsonl").unlink()
    assert main([str(inputs), str(lake)]) == 1
    assert "not balanced:" in capsys.readouterr().out

    assert main([str(inputs), str(tmp_path / "gone")]) == 2
    assert capsys.readouterr().err == (
        f"{tmp_path / 'gone'} cannot be accounted for: there is no such folder.\n"
    )


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    inputs, lake = write_inputs(tmp_path / "in"), write_lake(tmp_path / "lake", right_rows())
    command = [sys.executable, "-m", "examples.flights.accounting", str(inputs), str(lake)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("balanced: every record is accounted for\n")


def test_the_account_needs_neither_spark_nor_the_package() -> None:
    code = (
        "import sys, examples.flights.accounting\n"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " ('delta_ops', 'pyspark', 'dagster') or name.endswith('flights.sources')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_table_without_the_columns_is_an_error(tmp_path: Path) -> None:
    inputs, lake = write_inputs(tmp_path / "in"), tmp_path / "lake"
    write_deltalake(lake / "flights", pa.table({"origin": ["DTW"]}))
    with pytest.raises(AccountError, match=r"departed_at.* cannot be read from it"):
        account(inputs, lake)


@pytest.mark.skipif(not REAL_FLIGHTS.exists(), reason="the shared test data is not there")
def test_real_flights_balance(tmp_path: Path) -> None:
    arrived = REAL_FLIGHTS.stat().st_mtime_ns // 1000
    arrival_day = datetime.fromtimestamp(arrived // 10**6, UTC).date()
    rows: Rows = {"flights_raw": [], "flights": [], "delay_by_origin": []}
    grouped = defaultdict[tuple[date, str], list[int]](list)
    for record in json.loads(REAL_FLIGHTS.read_text()):
        day = date.fromisoformat(record["date"][:10].replace("/", "-"))
        rows["flights_raw"].append(
            {
                "arrival_day": arrival_day,
                "source_file": REAL_FLIGHTS.name,
                "source_generation": arrived,
                "flight_day": day,
            }
        )
        values = (record[name] for name in ("delay", "distance", "origin", "destination"))
        rows["flights"].append(flight(day, record["date"][11:], *values))
        grouped[day, record["origin"]].append(record["delay"])
    for (day, origin), found in grouped.items():
        late = len([delay for delay in found if delay > 15])
        mean = sum(found) / len(found)
        rows["delay_by_origin"].append(delays(day, origin, len(found), mean, max(found), late))
    result = account(REAL_FLIGHTS, write_lake(tmp_path / "lake", rows))
    assert result.problems == []
    assert (len(result.days), result.total.records, result.total.flights_rows) == (90, 20000, 20000)
