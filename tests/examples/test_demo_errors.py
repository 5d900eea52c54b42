"""What a user of the demo reads when the input is wrong: one sentence, and a non-zero exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("absent.json", None, "does not exist", id="a path where nothing is"),
        pytest.param("cut.json", '[{"date":"2001/01', "JSON", id="an array that was cut off"),
        pytest.param("notes.txt", "hello", "notes.txt", id="a file of an unknown kind"),
    ],
)
def test_an_input_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, name: str, content: str | None, problem: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    shown = run_demo(tmp_path, path)
    assert shown.returncode == 1
    said = [line for line in shown.stdout.splitlines() if not line.startswith("Input:")]
    assert len(said) == 1
    assert str(path) in said[0]
    assert problem in said[0]
    assert "Traceback" not in shown.stdout + shown.stderr
    assert not (tmp_path / "lake").exists()
