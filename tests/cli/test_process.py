"""The command in its own process: start, terminal, broken pipe, missing packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from tests.cli.terminals import text_sent, text_shown

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "delta_ops.cli")
ENVIRONMENT = {"PYTHONPATH": str(PROJECT), "PATH": os.environ["PATH"], "TERM": "xterm"}


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, cwd="/", env=ENVIRONMENT
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables") / "t"
    for number in range(3):
        da.write(root, pa.table({"id": [number], "p": ["[red]x"]}), partition_by=["p"])
    return root


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with listings longer than a pipe's buffer."""
    root = tmp_path_factory.mktemp("tables") / "t"
    rows = pa.table({"id": range(400), "p": [f"{number:0250d}" for number in range(400)]})
    da.write(root, rows, partition_by=["p"])
    return root


def test_it_runs_as_a_module_without_dagster_and_spark(table: Path, tmp_path: Path) -> None:
    script = (
        "import runpy, sys\n"
        "sys.modules['dagster'] = sys.modules['pyspark'] = None\n"
        f"for arguments in {[['history', str(table)], ['show', str(tmp_path)]]!r}:\n"
        "    sys.argv = ['delta-ops', *arguments]\n"
        "    try: runpy.run_module('delta_ops.cli', run_name='__main__')\n"
        "    except SystemExit as ended: print(ended.code)\n"
    )
    done = start(sys.executable, "-c", script)
    *history, failure = done.stdout.splitlines()
    assert [line.split("\t")[0] for line in history] == ["version", "2", "1", "0", "0"]
    assert failure == "1"
    assert done.stderr.count("\n") == 1
    assert "is not a Delta table" in done.stderr


def test_without_its_packages_it_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "from delta_ops.cli.entry import main\n"
        "for package in ('click', 'rich'):\n"
        "    sys.modules[package] = None\n"
        "    try: main()\n"
        "    except SystemExit as ended: print(ended.code)\n"
        "    del sys.modules[package]\n"
    )
    done = start(sys.executable, "-c", script)
    sentence = "delta-ops needs click and rich; run: pip install 'delta_ops[cli]'\n"
    assert (done.stdout, done.stderr) == ("1\n1\n", sentence * 2)


@pytest.mark.parametrize(
    ("arguments", "closed"),
    [
        pytest.param(("files",), ">&- 2>&-", id="rows, no stream"),
        pytest.param(("files", "--json"), "2>&-", id="JSON, no standard error"),
        pytest.param(("count",), "2>&-", marks=pytest.mark.full, id="count, no standard error"),
        pytest.param(("health",), ">&-", marks=pytest.mark.full, id="health, no standard output"),
    ],
)
def test_a_command_does_its_work_where_its_streams_are_closed(
    table: Path, arguments: tuple[str, ...], closed: str
) -> None:
    done = start("sh", "-c", f'"$@" {closed}', "sh", *COMMAND, *arguments, str(table))
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="it takes a device that is full")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("files",), id="rows"),
        pytest.param(("files", "--json"), marks=pytest.mark.full, id="JSON"),
        pytest.param(("--help",), marks=pytest.mark.full, id="help"),
    ],
)
def test_output_that_cannot_be_written_is_one_sentence(
    table: Path, arguments: tuple[str, ...]
) -> None:
    command = (*COMMAND, *arguments, str(table))
    done = start("sh", "-c", '"$@" >/dev/full', "sh", *command)
    assert done.returncode == 1
    assert done.stderr == "Error: Standard output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("files",), id="rows of the log"),
        pytest.param(("files", "--json"), marks=pytest.mark.full, id="JSON"),
        pytest.param(("head", "--limit", "1000"), marks=pytest.mark.full, id="rows of the table"),
    ],
)
def test_a_reader_that_stops_after_one_line_sees_no_error(
    long_names: Path, arguments: tuple[str, ...]
) -> None:
    process = subprocess.Popen(
        [*COMMAND, *arguments, str(long_names)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


def test_on_a_terminal_rows_are_a_table_and_names_are_shown_as_they_are(table: Path) -> None:
    seen = text_shown(["files", str(table)], columns=80)
    assert "[red]" in seen
    assert "─" in seen


def test_on_a_terminal_progress_is_shown(table: Path) -> None:
    seen = text_sent([*COMMAND, "optimize", str(table)], ENVIRONMENT)
    assert "optimize" in seen
    assert "Version 3: 3 files (" in seen


def test_the_recipes_of_schedulers_run_as_printed(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "terminal.md").read_text()
    cron = re.findall(r"^0 3 \* \* \* (.+)$", text, re.MULTILINE)
    bash = re.findall(r'bash_command="([^"]+)"', text)
    assert (len(cron), len(bash)) == (1, 1)
    da.write(tmp_path / "lake" / "t", pa.table({"id": [1]}))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in (*cron, *bash):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**ENVIRONMENT, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
    counts = {"tables": 1, "done": 0, "left": 0, "failed": 0, "bytes_saved": 0, "dry_run": False}
    assert json.loads(done.stdout.splitlines()[-1]) == counts
    assert json.loads((tmp_path / "maintain.log").read_text().splitlines()[-1]) == counts
