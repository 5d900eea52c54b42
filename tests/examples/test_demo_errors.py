"""Errors of the demo for wrong input: one sentence and a non-zero exit code."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from delta_ops.errors import StorageError
from examples.flights import demo
from tests.examples.flights_location import load_definitions

PROJECT = Path(__file__).resolve().parents[2]


def run_demo(tmp_path: Path, flights: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / "home").mkdir()
    return subprocess.run(
        [sys.executable, "-m", "examples.flights.demo"],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "DAGSTER_HOME": str(tmp_path / "home"),
            "LAKE": str(tmp_path / "lake"),
            "FLIGHTS": str(flights),
        },
    )


def test_the_demo_of_an_input_that_cannot_be_read_ends_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "absent.json"
    shown = run_demo(tmp_path, path)
    assert shown.returncode == 1
    output = [line for line in shown.stdout.splitlines() if not line.startswith("Input:")]
    assert len(output) == 1
    assert "does not exist" in output[0]
    assert "Traceback" not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("absent.json", None, "does not exist", id="a path where nothing is"),
        pytest.param("cut.json", '[{"date":"2001/01', "JSON", id="an array that was cut off"),
        pytest.param("notes.txt", "hello", "notes.txt", id="a file of an unknown kind"),
    ],
)
def test_an_input_that_cannot_be_read_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str | None,
    problem: str,
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    load_definitions(monkeypatch, path, str(tmp_path / "lake"))
    assert demo.main() == 1
    (output,) = capsys.readouterr().out.splitlines()
    assert str(path) in output
    assert problem in output
    assert not (tmp_path / "lake").exists()


def test_a_failed_run_is_shown_by_the_sentence_of_its_error() -> None:
    full = StorageError("/lake/t", "written", "no space is left; free some")

    @dg.op
    def write() -> None:
        try:
            raise RuntimeError("a trace\nof many lines")
        except RuntimeError as error:
            raise full from error

    @dg.job
    def write_all() -> None:
        write()

    result = write_all.execute_in_process(
        raise_on_error=False, instance=dg.DagsterInstance.ephemeral()
    )
    assert demo.first_cause(result) == str(full)
