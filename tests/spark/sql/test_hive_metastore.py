"""A Hive metastore as the session's catalog holds the names of Delta tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.sql.hive_program import CLAIMS

pytestmark = [pytest.mark.spark, pytest.mark.full]

PROJECT = Path(__file__).resolve().parents[3]
PROGRAM_S = 1800
AGAIN = "names outlive the application"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The error of each claim, in two applications with one metastore."""
    folder = tmp_path_factory.mktemp("hive")
    return {**run_program(folder), **run_program(folder)}


def run_program(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.sql.hive_program", str(folder)],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        timeout=PROGRAM_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("claim", [*CLAIMS, AGAIN])
def test_a_hive_metastore_holds_names_of_delta_tables(outcomes: dict[str, str], claim: str) -> None:
    assert outcomes[claim] == ""
