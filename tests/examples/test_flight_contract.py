from __future__ import annotations

import pickle
from datetime import date, datetime
from pathlib import Path

import pytest

from examples.flights.contract import (
    AccountError,
    Flight,
    Record,
    Source,
    read_records,
    read_sources,
)
from examples.flights.generate import generate_month
from examples.flights.sources import list_inputs
from tests.examples.record_cases import (
    ARRIVAL_DAY,
    CSV_CASES,
    CSV_HEADER,
    GOOD_CSV,
    GOOD_JSON,
    JSON_CASES,
)

FLIGHT = Flight(datetime(2026, 1, 1, 0, 47), 66, 1750, "DTW", "LAS")


def records_of(folder: Path, name: str, content: str | bytes) -> list[Record]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_records(Source(path, name, 0, ARRIVAL_DAY))


@pytest.mark.some_cases(42)
@pytest.mark.parametrize(
    ("line", "reason"), [pytest.param(*case[1:], id=case[0]) for case in JSON_CASES]
)
def test_a_json_line_is_judged_by_the_contract(
    tmp_path: Path, line: str, reason: str | None
) -> None:
    (record,) = records_of(tmp_path, "f.jsonl", line + "\n")
    assert record.reason == reason
    assert (record.flight is None) == (reason is not None)


@pytest.mark.parametrize(
    ("line", "reason"), [pytest.param(*case[1:], id=case[0]) for case in CSV_CASES]
)
def test_a_csv_line_is_judged_by_the_contract(
    tmp_path: Path, line: str, reason: str | None
) -> None:
    (record,) = records_of(tmp_path, "f.csv", f"{CSV_HEADER}\n{line}\n")
    assert record.reason == reason
    assert (record.flight is None) == (reason is not None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("f.jsonl", GOOD_JSON, id="JSON lines"),
        pytest.param("f.json", GOOD_JSON, id="JSON lines under the name .json"),
        pytest.param("f.json", f"\ufeff [{GOOD_JSON}]\n", id="a JSON array"),
        pytest.param("f.CSV", f"{CSV_HEADER}\n{GOOD_CSV}", id="CSV"),
        pytest.param(
            "f.csv",
            "x,origin,destination,distance,delay,date\n,DTW,LAS,01750,+66,2026/01/01 00:47",
            id="CSV with its columns in another order and one more",
        ),
    ],
)
def test_the_same_record_is_the_same_flight_in_every_format(
    tmp_path: Path, name: str, content: str
) -> None:
    assert records_of(tmp_path, name, content) == [Record(name, date(2026, 1, 1), FLIGHT, None)]


@pytest.mark.parametrize(
    ("content", "count"),
    [
        pytest.param("", 0, id="an empty file has no records"),
        pytest.param("\n \t\r\n\r\n\u00a0\n", 0, id="blank lines are no records"),
        pytest.param(f"{GOOD_JSON}\n\n{GOOD_JSON}", 2, id="the last line needs no end"),
        pytest.param(f"{GOOD_JSON}\r\n{GOOD_JSON}\r\n", 2, id="CRLF ends a line"),
        pytest.param(f"a\u2028b\x0bc\x85d\n{GOOD_JSON}", 2, id="other separators do not end one"),
    ],
)
def test_lines_are_counted_as_the_contract_counts_them(
    tmp_path: Path, content: str, count: int
) -> None:
    assert len(records_of(tmp_path, "f.jsonl", content)) == count


def test_bytes_that_are_no_utf8_spoil_only_their_record(tmp_path: Path) -> None:
    bad = GOOD_JSON.encode().replace(b"DTW", b"D\xffW")
    found = records_of(tmp_path, "f.jsonl", bad + b"\n" + GOOD_JSON.encode())
    assert [record.reason for record in found] == ["origin is malformed", None]


def test_every_element_of_an_array_is_a_record(tmp_path: Path) -> None:
    found = records_of(tmp_path, "f.json", f'[{GOOD_JSON},null,5,"{{}}",[],{{}}]')
    assert [record.reason for record in found] == [
        None,
        *["not a JSON object"] * 4,
        "date is missing",
    ]


@pytest.mark.parametrize(
    ("line", "day"),
    [
        pytest.param(GOOD_JSON.replace("66", "null"), date(2026, 1, 1), id="a bad delay"),
        pytest.param(GOOD_JSON.replace("2026", "1901"), date(1901, 1, 1), id="a day out of range"),
        pytest.param(GOOD_JSON.replace("2026", "26"), None, id="a malformed date"),
        pytest.param("{}", None, id="no date"),
        pytest.param(GOOD_JSON[:60], None, id="no object"),
    ],
)
def test_a_bad_record_has_a_flight_day_when_its_date_is_one(
    tmp_path: Path, line: str, day: date | None
) -> None:
    (record,) = records_of(tmp_path, "f.jsonl", line)
    assert record.flight_day == day


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("f.json", f"[{GOOD_JSON},", "no valid JSON array", id="an array cut short"),
        pytest.param("f.csv", GOOD_CSV, "header", id="CSV without a header"),
        pytest.param("f.csv", CSV_HEADER + ",date", "header", id="a column that comes twice"),
        pytest.param("f.txt", GOOD_JSON, "its name ends in none of", id="an unknown name"),
    ],
)
def test_a_file_that_cannot_be_counted_is_an_error(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    with pytest.raises(AccountError, match=reason) as caught:
        records_of(tmp_path, name, content)
    assert str(tmp_path / name) in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_pipeline_lists_the_files_of_a_folder(tmp_path: Path) -> None:
    generate_month(tmp_path, date(2026, 1, 1), days=5, flights_per_day=5)
    (tmp_path / "older").mkdir()
    for name in (".hidden.jsonl", "_SUCCESS", "airports.csv"):
        (tmp_path / name).write_text(GOOD_JSON)
    listed = [(file.name, file.generation, file.arrival_day) for file in list_inputs(tmp_path)]
    assert [source[1:4] for source in read_sources(tmp_path)] == listed
    assert len(listed) == 5


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AccountError, match="cannot be read"):
        read_records(Source(tmp_path / "gone.jsonl", "gone.jsonl", 0, ARRIVAL_DAY))
    with pytest.raises(AccountError, match="cannot be listed"):
        read_sources(tmp_path / "gone")
