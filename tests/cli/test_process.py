"""The command as a process of its own: start, terminal, broken pipe, missing packages."""

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
from tests.cli.terminals import text_sent

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "delta_ops.cli")
ENVIRONMENT = {"PYTHONPATH": str(PROJECT), "PATH": os.environ["PATH"], "TERM": "xterm"}


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, cwd="/", env=ENVIRONMENT
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in range(3):
        da.write(tmp_path / "t", pa.table({"id": [number], "p": ["[red]x"]}), partition_by=["p"])
    return tmp_path / "t"


def test_it_runs_as_a_module(table: Path) -> None:
    done = start(*COMMAND, "history", str(table))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["version", "2", "1", "0"]


def test_it_fails_with_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = start(*COMMAND, "show", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_its_packages_it_says_what_to_install(package: str) -> None:
    script = (
        f"import sys; sys.modules['{package}'] = None; from delta_ops.cli.entry import main; main()"
    )
    done = start(sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "delta-ops needs click and rich; run: pip install 'delta_ops[cli]'\n"


def test_it_needs_neither_dagster_nor_spark(table: Path) -> None:
    script = (
        "import sys; sys.modules['dagster'] = sys.modules['pyspark'] = None; "
        f"sys.argv = ['delta-ops', 'optimize', {str(table)!r}]; "
        "from delta_ops.cli.entry import main; main()"
    )
    done = start(sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Version 3: 3 files (")


def test_a_reader_that_stops_reading_is_no_error(table: Path) -> None:
    for _ in range(3):
        os.makedirs(table / "junk", exist_ok=True)
    for number in range(3000):
        (table / "junk" / f"{number:0200d}").touch()
        os.utime(table / "junk" / f"{number:0200d}", (0, 0))
    process = subprocess.Popen(
        [*COMMAND, "vacuum", "--dry-run", str(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.parametrize("arguments", [("files",), ("files", "--json"), ("count",), ("health",)])
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_command_does_its_work_where_its_streams_are_closed(
    table: Path, arguments: tuple[str, ...], closed: str
) -> None:
    done = start("sh", "-c", f'"$@" {closed}', "sh", *COMMAND, *arguments, str(table))
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="it takes a device that is full")
@pytest.mark.parametrize("arguments", [("files",), ("files", "--json"), ("count",), ("--help",)])
def test_output_that_cannot_be_written_is_one_sentence(
    table: Path, arguments: tuple[str, ...]
) -> None:
    command = (*COMMAND, *arguments, str(table))
    done = start("sh", "-c", '"$@" >/dev/full', "sh", *command)
    assert done.returncode == 1
    assert done.stderr == "Error: Standard output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("arguments", [("files",), ("files", "--json"), ("head", "--limit", "99")])
def test_whoever_reads_one_line_of_many_sees_no_error(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    names = [f"{number:0100d}" for number in range(1000)]
    da.write(tmp_path, pa.table({"id": range(1000), "p": names}), partition_by=["p"])
    done = start("sh", "-c", '"$@" | head -1', "sh", *COMMAND, *arguments, str(tmp_path))
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def on_terminal(*arguments: str) -> str:
    """What a person would see, both streams together."""
    return text_sent([*COMMAND, *arguments], ENVIRONMENT)


def test_on_a_terminal_rows_are_a_table_and_names_are_shown_as_they_are(table: Path) -> None:
    seen = on_terminal("files", str(table))
    assert "[red]" in seen
    assert "─" in seen


def test_on_a_terminal_progress_is_shown(table: Path) -> None:
    seen = on_terminal("optimize", str(table))
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
