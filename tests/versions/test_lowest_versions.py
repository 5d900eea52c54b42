"""The lowest versions that the package allows run its pure part and one path of each engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.versions.environments import (
    lowest_connect_python,
    lowest_python,
    lowest_requirements,
    run_in,
    run_tests,
)

PURE = ("protocol", "log", "planning", "transaction", "arrays")
STORES = (
    "storage/test_endpoints",
    "storage/test_exclusive_create",
    "storage/test_fsspec_storage",
    "storage/test_object_stores",
    "storage/test_object_tree",
    "storage/test_probe",
    "storage/test_storage_contract",
    "storage/test_unreachable_s3",
    "arrow/test_rows_on_s3",
    "maintenance/test_on_object_stores",
    "versioning/test_sessions_on_s3",
)
"""Files with tests on S3, GCS and Azure that no other test of this file runs."""


def test_the_lowest_version_of_a_requirement_is_its_lower_bound() -> None:
    project = """
        [project]
        dependencies = ["pyarrow>=23", "numpy>=2.0"]
        [project.optional-dependencies]
        spark = ["pyspark>=3.5"]
        connect = ["pyspark[connect]>=4.0", "pandas>=2.2.2,<3"]
        cli = ["click>=8.1", "numpy>=2.0"]
    """
    assert lowest_requirements(project, ["connect", "cli"]) == [
        "click==8.1",
        "numpy==2.0",
        "pandas==2.2.2",
        "pyarrow==23",
        "pyspark[connect]==4.0",
    ]


@pytest.mark.full
def test_the_pure_part_runs_on_the_lowest_versions() -> None:
    # PySpark 3.5 has no variants to compare ours with.
    tests = [f"tests/{name}" for name in PURE]
    run_tests(lowest_python(), "--ignore-glob=*variant*", *tests)


@pytest.mark.full
@pytest.mark.parametrize("program", ["spark_program", "dagster_program"])
def test_a_path_runs_on_the_lowest_versions(program: str, tmp_path: Path) -> None:
    done = run_in(lowest_python(), f"tests.versions.{program}", str(tmp_path))
    assert done.stdout, done.stderr[-6000:]
    assert not json.loads(done.stdout.splitlines()[-1]).get("failures"), done.stderr[-6000:]


@pytest.mark.full
@pytest.mark.parametrize("file", STORES)
def test_the_tests_of_stores_pass_with_the_lowest_clients(file: str) -> None:
    run_tests(lowest_python(), f"tests/{file}.py", tier="not long")


@pytest.mark.full
def test_a_client_of_spark_connect_runs_on_the_lowest_versions() -> None:
    run_tests(lowest_connect_python(), "tests/spark/test_connect.py")
