"""Each version of Dagster: one path, and the main tests of assets, checks, sensors and jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.versions.environments import COMPONENTS, DAGSTER, dagster_python, run_in, run_tests

LOWEST = "1.10"
FILES = (
    "test_partitions_and_changes",
    "test_reruns",
    "test_run_retries",
    "test_maintenance_sensor",
    "test_resources",
    "test_dagster_versions",
    "test_reproduced_runs",
    "test_release_asset",
)
"""Partitions, retries, sensors, resources, and what reads the run of a resource."""


@pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=pytest.mark.full if each != LOWEST else ()) for each in DAGSTER],
)
def test_a_path_through_dagster(version: str, tmp_path: Path) -> None:
    done = run_in(dagster_python(version), "tests.versions.dagster_program", str(tmp_path))
    assert done.returncode == 0, done.stderr[-6000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"rows": 3, "commits": 1, "checks": [True]}


@pytest.mark.full
@pytest.mark.parametrize("version", DAGSTER)
def test_the_tests_of_orchestration_pass(version: str) -> None:
    names = [f"tests/orchestration/{name}.py" for name in FILES]
    components = ["tests/components"] if version in COMPONENTS else []
    run_tests(dagster_python(version), *names, *components)


@pytest.mark.long
@pytest.mark.parametrize("version", DAGSTER)
def test_all_other_tests_of_orchestration_pass(version: str) -> None:
    files = sorted(Path("tests/orchestration").glob("test_*.py"))
    run_tests(dagster_python(version), *(str(file) for file in files if file.stem not in FILES))
