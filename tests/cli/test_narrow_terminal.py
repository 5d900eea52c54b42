"""Output on a terminal of 80 columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import delta_ops.arrow as da
from tests.cli.terminals import text_shown

COLUMNS, LINES = 80, 24
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def lines_seen(*arguments: str | Path, status: int = 0) -> list[str]:
    """The lines of standard output, without styles."""
    sent = text_shown(
        [str(argument) for argument in arguments],
        columns=COLUMNS,
        lines=LINES,
        status=status,
        errors=False,
    )
    return _STYLE.sub("", sent).replace("\r", "").splitlines()


def cells(lines: list[str], first: str) -> list[str]:
    """The cells of the row with this first cell."""
    (line,) = (line for line in lines if line.split()[:1] == [first])
    return re.split(r"\s{2,}", line.strip())


def test_rows_that_do_not_fit_are_shown_beneath_each_other(tmp_path: Path) -> None:
    names = [f"column_{number}" for number in range(12)]
    da.write(tmp_path, pa.table({name: [1000 + i, 5] for i, name in enumerate(names)}))
    lines = lines_seen("head", tmp_path)
    assert lines[:3] == ["row 1", "  column_0   1000", "  column_1   1001"]
    assert lines.count("  column_11  5") == 1
    few = lines_seen("head", tmp_path, "--column", "column_0", "--column", "column_1")
    assert cells(few, "1000") == ["1000", "1001"]


def test_the_columns_are_shown_where_no_row_is_found(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "text": ["a"]}))
    assert lines_seen("head", tmp_path, "--where", "id = 2")[0].split() == ["id", "text"]
    da.delete(tmp_path)
    assert lines_seen("head", tmp_path)[0].split() == ["id", "text"]
    assert lines_seen("head", tmp_path, "--columns", "text")[0].split() == ["text"]


def test_a_schema_that_is_exported_names_its_file(tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    exported = tmp_path / "t.parquet"
    shown = lines_seen("schema", tmp_path / "t", "--export", exported)
    assert "".join(shown[-2:]).replace("\n", "").endswith(f"{exported}.")
    assert pq.read_schema(exported).names == ["id"]


def test_a_value_that_is_missing_looks_unlike_an_empty_text(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2], "text": ["", None]}))
    in_rows = lines_seen("head", tmp_path)
    assert [cells(in_rows, number) for number in "12"] == [["1"], ["2", "null"]]
    wide = pa.table({f"column_{number}": ["", None] for number in range(12)})
    da.write(tmp_path / "wide", wide)
    lines = lines_seen("head", tmp_path / "wide")
    assert [line.split() for line in lines if "column_7" in line] == [
        ["column_7"],
        ["column_7", "null"],
    ]


def test_history_shows_rows_files_and_the_run(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1500)})
    run = "0f0e0d0c-1111-2222-3333-444455556666"
    da.write(tmp_path, rows, user_metadata=json.dumps({"dagster/run_id": run}))
    da.write(tmp_path, rows.slice(0, 2), "overwrite", user_metadata="no JSON")
    lines = lines_seen("history", tmp_path)
    assert max(map(len, lines)) <= COLUMNS
    newest, oldest = cells(lines, "1"), cells(lines, "0")
    assert (newest[3:5], oldest[3:5]) == (["+2", "+1 -1"], ["+1,500", "+1"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", newest[1])
    assert oldest[5] == "run 0f0e0d0c"
    assert newest[5].startswith("delta_ops")


def test_files_and_show_take_a_version(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": range(1500)}))
    da.write(tmp_path, pa.table({"id": [1]}), "overwrite")
    (line,) = [each for each in lines_seen("files", tmp_path, "--version", "0") if "part-" in each]
    assert "1,500" in line
    assert "KiB" in line
    shown = lines_seen("show", tmp_path, "--version", "0")
    assert ["version", "0"] in [line.split() for line in shown]


def test_a_fleet_is_one_page_with_the_worst_first(tmp_path: Path) -> None:
    for number in range(40):
        da.write(tmp_path / f"lake/t{number}", pa.table({"id": [number]}))
    for _ in range(12):
        da.write(tmp_path / "lake/t7", pa.table({"id": [0]}))
    broken = tmp_path / "lake/broken/_delta_log/00000000000000000000.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{nonsense")
    lines = lines_seen("health", tmp_path, status=1)
    assert len(lines) <= LINES
    assert f"Tables below {tmp_path}/lake:" in " ".join(lines)
    tables = [line.split()[0] for line in lines if re.match(r"\w+ +(failed|due|look|ok)", line)]
    assert tables[:2] == ["broken", "t7"]
    assert any(line.startswith(f"{tmp_path}/lake/broken:") for line in lines)
    assert any(re.match(r"\d+ more tables with --all: \d+ ok\.", line) for line in lines)
    every = lines_seen("health", tmp_path, "--all", status=1)
    assert all(any(line.startswith(f"t{n} ") for line in every) for n in range(40))
    kept = lines_seen("maintain", "--dry-run", tmp_path, status=1)
    assert "39 tables with nothing to do." in kept
    assert cells(kept, "t7")[1] == "optimize"


def test_the_names_of_measures_are_folded_between_words(tmp_path: Path) -> None:
    for name in ("busy", "busy", "busy", "fine"):
        da.write(tmp_path / name, pa.table({"id": [0]}), hooks=())
    limits = ["--threshold", "commits_since_checkpoint=2", "--threshold", "small_files=2"]
    words = {"commits", "since", "checkpoint", "small", "files"}
    for place, status in ((tmp_path, 3), (tmp_path / "busy", 3)):
        seen = lines_seen("health", place, *limits, status=status)
        assert words <= {word.strip(",") for line in seen for word in line.split()}


def test_help_is_not_cut_off() -> None:
    text = "\n".join(lines_seen("--help"))
    assert "..." not in text.partition("Commands:")[2]
