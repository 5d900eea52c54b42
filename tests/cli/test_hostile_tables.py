"""Output of commands for tables with control characters or values without a JSON form."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click import ClickException
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops.cli.main import cli
from delta_ops.cli.render import LogLines, report_errors
from delta_ops.log import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import CommitInfo
from delta_ops.protocol.values.wide_timestamps import date_text, time_text, timestamp_text
from delta_ops.transaction import Staged, begin
from tests.cli.hostile_tables import NAME, PLACE, SHOWN, TEXT, create_hostile, odd_rows
from tests.cli.terminals import text_shown
from tests.support.tables import add, metadata, write_log

PROJECT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "show": ["show"],
    "history": ["history"],
    "files": ["files"],
    "head": ["head"],
    "count": ["count"],
    "schema": ["schema"],
    "no change feed": ["changes", "--from-version", "0"],
    "no column": ["head", "--column", TEXT],
    "no condition": ["head", "--where", f"x = {TEXT}"],
    "no option": ["show", f"--{TEXT}"],
    "no version": ["head", "--version", "99"],
    "no threshold": ["health", "--threshold", TEXT],
    "no inventory": ["vacuum", "--inventory", TEXT],
    "planned optimize": ["optimize", "--dry-run"],
    "optimize": ["optimize"],
    "planned vacuum": ["vacuum", "--dry-run"],
    "vacuum": ["vacuum"],
    "checkpoint": ["checkpoint"],
    "clean-up-log": ["clean-up-log"],
    "compact-log": ["compact-log"],
    "restore": ["restore", "--version", "0"],
    "repair": ["repair", "--dry-run"],
    "health": ["health"],
    "maintain": ["maintain"],
}
FIGURES_ONLY = {
    "history",
    "count",
    "checkpoint",
    "optimize",
    "vacuum",
    "clean-up-log",
    "compact-log",
    "restore",
}
"""Commands that succeed without printing a name of the table."""
SHOWN_PART = r"\x9b7m"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_hostile(tmp_path_factory.mktemp("made"))


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / PLACE)
    return tmp_path / PLACE


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def is_harmless(output: str) -> bool:
    """Whether the output has only lines of visible characters and tabs."""
    return output.replace("\n", "").replace("\t", "").isprintable() and "\u034f" not in output


def strict_json(line: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=list(COMMANDS))
def test_output_for_people_is_escaped(table: Path, arguments: list[str]) -> None:
    command, *options = arguments
    result = run(command, table, *options)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert is_harmless(result.output)
    has_done = command in FIGURES_ONLY and result.exit_code == 0
    assert SHOWN_PART in result.output or has_done


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=list(COMMANDS))
def test_json_output_is_json(table: Path, arguments: list[str]) -> None:
    command, *options = arguments
    result = run(command, table, *options, "--json")
    assert is_harmless(result.output)
    for line in result.stdout.splitlines():
        strict_json(line)


def test_json_holds_what_the_log_holds(table: Path) -> None:
    shown = strict_json(run("show", table, "--json").stdout)
    assert shown["table"] == str(table)
    assert shown["properties"][TEXT] == TEXT
    assert NAME in [field["name"] for field in shown["schema"]["fields"]]
    last = strict_json(run("history", table, "--json", "--limit", "1").stdout)
    assert last["user_metadata"] == TEXT


def test_a_log_that_others_wrote_is_shown_harmlessly(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("a.parquet", modification_time=2**62)]])
    info = {
        "operation": TEXT,
        "operationParameters": {TEXT: TEXT},
        "operationMetrics": {TEXT: TEXT},
        "engineInfo": TEXT,
        "timestamp": 2**62,
    }
    described = metadata(name=TEXT, description=TEXT)
    create_commit(log.storage, log.log_directory, 1, [CommitInfo(values=info), described])
    for command in ("show", "history", "files"):
        assert SHOWN in (text := run(command, tmp_path).output) or command == "files"
        assert is_harmless(text)
        for line in run(command, tmp_path, "--json").stdout.splitlines():
            strict_json(line)
    assert run("files", tmp_path, "--json").stdout.count("+146140482-04-24T15:36:27.904+00:00") == 1


@pytest.mark.parametrize(
    "last_line",
    [
        pytest.param({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}, id="protocol"),
        pytest.param({"add": {"path": TEXT, "size": TEXT}}, id="an action"),
        pytest.param({"metaData": {"id": "x", "schemaString": TEXT}}, id="a schema"),
        pytest.param({"add": {"path": f"..%2F{NAME}", "size": 1}}, id="a path"),
    ],
)
def test_errors_show_what_a_broken_log_says_harmlessly(table: Path, last_line: Any) -> None:
    if "protocol" in last_line:
        features = {"readerFeatures": [TEXT], "writerFeatures": [TEXT]}
        last_line = {"protocol": {**last_line["protocol"], **features}}
    (table / "_delta_log" / f"{3:020}.json").write_text(json.dumps(last_line))
    result = run("head", table)
    assert (result.exit_code, result.stdout) == (1, "")
    assert is_harmless(result.stderr)
    assert result.stderr.count("\n") == 1


def test_errors_show_a_file_that_is_gone_harmlessly(table: Path) -> None:
    (gone, *_) = table.glob("p=*/*.parquet")
    gone.unlink()
    for command in ("head", "repair"):
        result = run(command, table)
        assert result.exit_code == 1
        assert "red" in result.stderr
        assert is_harmless(result.output)


def test_warnings_are_harmless() -> None:
    given = {"msg": "%s", "args": (TEXT,), "levelno": logging.CRITICAL}
    record = logging.makeLogRecord(given)
    record.exc_info = (OSError, OSError(TEXT), None)
    lines = LogLines().format(record).splitlines()
    assert [line for line in lines if line.startswith((SHOWN, f"OSError: {SHOWN}"))] == lines[:2]
    assert is_harmless("\n".join(lines))


def test_a_warning_of_a_library_has_one_line() -> None:
    record = logging.makeLogRecord({"msg": "no answer", "levelno": logging.ERROR})
    record.exc_info = (OSError, OSError("refused"), None)
    assert LogLines().format(record) == "no answer"


def test_the_command_prints_warnings_and_tracebacks_harmlessly(tmp_path: Path) -> None:
    program = (
        "import logging, sys, warnings\n"
        "from delta_ops.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"logging.getLogger('delta_ops').warning({TEXT!r})\n"
        f"warnings.warn({TEXT!r})\n"
        f"raise OSError({TEXT!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT), "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 1
    assert done.stderr.decode().count(SHOWN) == 3
    assert is_harmless(done.stderr.decode())


def test_a_terminal_is_sent_nothing_that_a_table_holds(table: Path) -> None:
    sent = "".join(
        text_shown([command, str(table), *options], columns=300, status=None)
        for command, *options in COMMANDS.values()
    )
    assert sent.count(SHOWN) > 10
    # The output without the program's own bold face, colours and cursor moves.
    rest = re.sub(r"\x1b\[(?:\d+(?:;\d+)*m|\?25[lh]|2K|1A)", "", sent)
    assert is_harmless(rest.replace("\r", ""))


def test_characters_that_a_stream_cannot_encode_are_shown_by_number(table: Path) -> None:
    for arguments in (["schema", str(table)], ["schema", str(table), "--json"]):
        result = CliRunner(charset="ascii").invoke(cli, arguments)
        assert result.exit_code == 0
        if "--json" in arguments:
            assert NAME in [field["name"] for field in strict_json(result.stdout)["fields"]]
        else:
            assert r"[red]x[/]\xe9" in result.stdout


VALUES = {
    "name": TEXT,
    "no_text": "a\\xff",
    "last_day": "+5881580-07-11",
    "first_day": "-5877641-06-23",
    "day_10000": "+10000-01-01",
    "day_1_bc": "0000-12-31",
    "last_time": "+294247-01-10T04:00:54.775807+00:00",
    "first_time": "-290308-12-21T19:59:05.224192+00:00",
    "time_10000": "+10000-01-01T00:00:00.000+00:00",
    "time": "2026-01-01T00:00:00.000001+00:00",
    "nan": "NaN",
    "infinity": "Infinity",
    "no_infinity": "-Infinity",
    "binary": "1b00",
    "decimal": "-1.50",
    "map": [["NaN", "x"]],
    "struct": {"time": "+294247-01-10T04:00:54.775807+00:00", "numbers": ["Infinity", None]},
    "list": ["-290308-12-21T19:59:05.224192"],
    "far_map": [["+5881580-07-11", "x"]],
    "long": "x" * 100_000,
    "none": None,
}
"""The values of `odd_rows` in JSON. A very large number has Java's text of the same number."""


def write_unchecked(root: Path, rows: pa.Table) -> None:
    """Commit rows as a writer does that does not validate texts."""
    da.write(root, rows.schema.empty_table())
    pq.write_table(rows, root / "other.parquet")
    log = DeltaLog(root)
    transaction = begin(log)
    size = (root / "other.parquet").stat().st_size
    schema = log.snapshot().schema
    transaction.stage(
        Staged(
            adds=(add("other.parquet", size=size),),
            schema=schema,
            partition_columns=(),
            num_rows=len(rows),
        )
    )
    transaction.commit(operation="WRITE")


def test_every_value_has_json(tmp_path: Path) -> None:
    write_unchecked(tmp_path / "t", odd_rows())
    assert strict_json(run("head", tmp_path / "t", "--json").stdout) == VALUES


def test_values_for_people_match_json(tmp_path: Path) -> None:
    write_unchecked(tmp_path / "t", odd_rows())
    _, row = run("head", tmp_path / "t").stdout.splitlines()
    texts = dict(zip(VALUES, row.split("\t"), strict=True))
    assert texts["name"] == rf"{SHOWN}\x1b]0;title\x07\n\r\t\u2028"
    assert texts["none"] == ""
    for name in set(VALUES) - {"name", "none"}:
        value = VALUES[name]
        text = value if isinstance(value, str) else json.dumps(value)
        assert texts[name] == for_people(text)


def for_people(text: str) -> str:
    """A time as a person reads it; any other text unchanged."""
    found = re.fullmatch(r"(\S+\d)T(\d\d:\d\d:\d\d)(?:\.0+|(\.\d*[1-9])0*)(\+00:00)?", text)
    if found is None:
        return text
    return f"{found[1]} {found[2]}{found[3] or ''}{'Z' if found[4] else ''}"


@given(st.dates())
def test_days_that_python_knows_are_its_own_text(day: date) -> None:
    assert date_text((day - date(1970, 1, 1)).days) == day.isoformat()


@given(st.datetimes())
def test_times_that_python_knows_are_its_own_text(time: datetime) -> None:
    us = (time - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert timestamp_text(us, is_utc=False) == time_text(time)
    assert timestamp_text(us, is_utc=True) == time_text(time.replace(tzinfo=UTC))


@given(st.integers(-(2**31), 2**31 - 1))
def test_far_days_follow_the_rules_of_the_calendar(days: int) -> None:
    year, month, day = re.fullmatch(r"([+-]?\d{4,})-(\d\d)-(\d\d)", date_text(days)).groups()  # type: ignore[union-attr]
    before = int(year) - 1
    leaps = before // 4 - before // 100 + before // 400
    near = date(2000 + int(year) % 400, int(month), int(day))
    days_of_years = before * 365 + leaps
    assert days_of_years + near.timetuple().tm_yday - 719_163 == days


def test_too_little_memory_is_a_sentence() -> None:
    with pytest.raises(ClickException, match="not enough memory"), report_errors():
        raise MemoryError
