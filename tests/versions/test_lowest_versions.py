"""The lowest versions that the package allows run its pure part and one path of each engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.versions.environments import lowest_python, lowest_requirements, run_in, run_tests

PURE = ("protocol", "log", "planning", "transaction", "arrays")


def test_the_lowest_version_of_a_requirement_is_its_lower_bound() -> None:
    project = """
        [project]
        dependencies = ["pyarrow>=23", "numpy>=2.0"]
        [project.optional-dependencies]
        spark = ["pyspark>=3.5"]
        connect = ["pyspark[connect]>=4.0", "pandas>=2.2.2,<3"]
        dagster = ["dagster>=1.10"]
        dagster-spark = ["dagster>=1.10"]
        cli = ["click>=8.1"]
        s3 = ["s3fs>=2026.9"]
        zarr = ["zarr>=3.1.6"]
    """
    assert lowest_requirements(project) == [
        "click==8.1",
        "dagster==1.10",
        "numpy==2.0",
        "pyarrow==23",
        "pyspark==3.5",
        "zarr==3.1.6",
    ]


@pytest.mark.full
def test_the_pure_part_runs_on_the_lowest_versions() -> None:
    # PySpark 3.5 has no variants, by which these tests check ours.
    tests = [f"tests/{name}" for name in PURE]
    run_tests(lowest_python(), "--ignore-glob=*variant*", *tests)


@pytest.mark.full
@pytest.mark.parametrize("program", ["spark_program", "dagster_program"])
def test_a_path_runs_on_the_lowest_versions(program: str, tmp_path: Path) -> None:
    done = run_in(lowest_python(), f"tests.versions.{program}", str(tmp_path))
    assert done.stdout, done.stderr[-6000:]
    assert not json.loads(done.stdout.splitlines()[-1]).get("failures"), done.stderr[-6000:]
