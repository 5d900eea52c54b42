from __future__ import annotations

import os
import pickle
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from examples.flights.sources import (
    InputError,
    InputFile,
    airports_path,
    csv_fields,
    list_inputs,
)

FLIGHTS = Path(__file__).parents[3] / "shared" / "data" / "flights"
RECORD = '{"date":"2026/01/01 00:47","delay":66,"distance":1750,"origin":"DTW","destination":"LAS"}'
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEADER = "date,delay,distance,origin,destination"


def write(path: Path, content: str = RECORD, *, modified: datetime | None = None) -> Path:
    path.write_bytes(content.encode())
    if modified is not None:
        modified_ns = (modified - EPOCH) // timedelta(microseconds=1) * 1000
        os.utime(path, ns=(modified_ns, modified_ns))
    return path


def test_a_file_is_described_by_its_name_and_modification_time(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", "{}\n", modified=datetime(2026, 1, 2, 23, 59, 59, 250_001, UTC)
    )
    expected = InputFile(
        path=str(path),
        name="a.jsonl",
        generation=1_767_398_399_250_001,
        arrival_day=date(2026, 1, 2),
        format="json_lines",
        size=3,
    )
    assert list_inputs(path) == [expected]
    assert list_inputs(tmp_path) == [expected]


def test_files_are_listed_oldest_generation_first(tmp_path: Path) -> None:
    write(tmp_path / "c.jsonl", modified=datetime(2026, 1, 3, tzinfo=UTC))
    write(tmp_path / "b.jsonl", modified=datetime(2026, 1, 4, tzinfo=UTC))
    write(tmp_path / "a.jsonl", modified=datetime(2026, 1, 4, tzinfo=UTC))
    assert [file.name for file in list_inputs(tmp_path)] == ["c.jsonl", "a.jsonl", "b.jsonl"]


def test_a_corrected_file_is_a_later_generation_of_the_same_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", modified=datetime(2026, 1, 2, 6, tzinfo=UTC))
    (first,) = list_inputs(tmp_path)
    write(path, RECORD * 2, modified=datetime(2026, 1, 2, 6, 0, 0, 1000, UTC))
    (second,) = list_inputs(tmp_path)
    assert second.name == first.name
    assert second.generation == first.generation + 1000


def test_only_files_directly_inside_that_are_not_hidden_are_inputs(tmp_path: Path) -> None:
    (tmp_path / "archive.jsonl").mkdir()
    write(tmp_path / "archive.jsonl" / "old.jsonl")
    for name in (".a.jsonl.partial", "_SUCCESS", "airports.csv"):
        write(tmp_path / name)
    assert list_inputs(tmp_path) == []
    write(tmp_path / "a.jsonl")
    assert [file.name for file in list_inputs(tmp_path)] == ["a.jsonl"]


def test_paths_are_absolute_for_a_relative_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.jsonl")
    monkeypatch.chdir(tmp_path / "in")
    assert [file.path for file in list_inputs(Path("../in"))] == [str(tmp_path / "in" / "a.jsonl")]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("a.jsonl", "[1]\n", "json_lines", id="a first line may be bad"),
        pytest.param("a.ndjson", RECORD, "json_lines", id="ndjson is another name of jsonl"),
        pytest.param("a.JSON", f"\ufeff\r\n [{RECORD}]", "json_array", id="a bracket: an array"),
        pytest.param("a.json", "[]", "json_array", id="an empty array is an array"),
        pytest.param("a.json", f"\n {RECORD}\n{RECORD}", "json_lines", id="a brace: lines"),
        pytest.param("a.json", "[" + "1" * 5000 + "]", "json_array", id="numbers of any length"),
        pytest.param("a.csv", f"\ufeff\n{HEADER}\r\n", "csv", id="CSV"),
        pytest.param(
            "a.csv", 'destination,"origin",tail,distance,delay,date', "csv", id="CSV in any order"
        ),
        pytest.param("a.csv", "", "json_lines", id="an empty file has no header"),
        pytest.param("a.json", " \n\t\n", "json_lines", id="a blank file has no bracket"),
    ],
)
def test_the_format_follows_from_the_name_and_the_first_character(
    tmp_path: Path, name: str, content: str, expected: str
) -> None:
    (file,) = list_inputs(write(tmp_path / name, content))
    assert file.format == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("notes.txt", "x", "no known format", id="another suffix"),
        pytest.param("a.jsonl.gz", "x", "no known format", id="a packed file"),
        pytest.param("a", RECORD, "no known format", id="no suffix"),
        pytest.param("a.json", "date,delay", "neither", id="JSON that is none"),
        pytest.param("a.json", f"[{RECORD},", "cut short", id="an array cut short"),
        pytest.param("a.json", f"[{RECORD}] x", "cut short", id="text after an array"),
        pytest.param("a.json", "[NaN]", "NaN is not JSON", id="NaN in an array"),
        pytest.param("a.json", "[" * 100_000, "cut short", id="an array nested beyond measure"),
        pytest.param("a.csv", "2026/01/01 00:47,66", "header line", id="CSV without a header"),
        pytest.param("a.csv", HEADER.replace("delay", ""), "header line", id="a column missing"),
        pytest.param("a.csv", HEADER + ",delay", "header line", id="a column that comes twice"),
        pytest.param("a.csv", HEADER + ',"', "header line", id="a header with a lone quote"),
    ],
)
def test_a_file_that_cannot_be_read_as_flights_is_an_error_that_names_it(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    write(tmp_path / "good.jsonl")
    path = write(tmp_path / name, content)
    for _ in range(2):
        with pytest.raises(InputError, match=reason) as caught:
            list_inputs(tmp_path)
        assert str(caught.value).startswith(f"{path} ")
        assert str(caught.value).endswith("or move it out of the folder.")


def test_an_array_that_was_cut_short_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", "[1,", modified=datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(InputError):
        list_inputs(path)
    write(path, "[1]", modified=datetime(2026, 1, 2, tzinfo=UTC))
    assert [file.format for file in list_inputs(path)] == ["json_array"]


def test_an_array_that_is_cut_short_after_it_was_read_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", "[12]", modified=datetime(2026, 1, 2, tzinfo=UTC))
    list_inputs(path)
    write(path, "[12,", modified=datetime(2026, 1, 3, tzinfo=UTC))
    with pytest.raises(InputError, match="cut short"):
        list_inputs(path)


def test_an_input_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist: name an existing file") as caught:
        list_inputs(tmp_path / "gone")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"a\.jsonl cannot be read \(No such file"):
        list_inputs(tmp_path)


def test_a_hidden_file_is_an_error_if_it_is_requested(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hidden name"):
        list_inputs(write(tmp_path / "_a.jsonl"))


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        pytest.param("a,b", ["a", "b"], id="plain fields"),
        pytest.param("", [""], id="one empty field"),
        pytest.param(",", ["", ""], id="two empty fields"),
        pytest.param('"a,b","c""d",""', ["a,b", 'c"d', ""], id="quoted fields"),
        pytest.param(" a , b", [" a ", " b"], id="spaces stay"),
        pytest.param('"a', None, id="a quote that is never closed"),
        pytest.param('a"b"', None, id="a quote within a plain field"),
        pytest.param('"a"b', None, id="text after a closing quote"),
        pytest.param('"' * 100_001, None, id="a hundred thousand quotes"),
    ],
)
def test_csv_fields(line: str, fields: list[str] | None) -> None:
    assert csv_fields(line) == fields


def test_airports_come_from_the_input_where_it_has_some(tmp_path: Path) -> None:
    flights = write(tmp_path / "a.jsonl")
    packaged = airports_path(None)
    assert packaged.read_text().startswith("iata,name,city,state,country,latitude,longitude\n")
    assert airports_path(tmp_path) == airports_path(flights) == packaged
    beside = write(tmp_path / "airports.csv", "iata\n")
    assert airports_path(tmp_path) == airports_path(flights) == beside


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the shared test data is not there")
def test_the_real_flights_are_one_array_with_airports_beside_it() -> None:
    (file,) = list_inputs(FLIGHTS)
    assert (file.name, file.format, file.size) == ("flights-20k.json", "json_array", 1_784_867)
    assert airports_path(FLIGHTS / file.name) == FLIGHTS / "airports.csv"
