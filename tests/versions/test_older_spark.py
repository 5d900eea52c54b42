"""Each version of Spark: a path without a slower way, and the compilation of our Java code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.versions.environments import SPARK, run_in, run_tests, spark_python


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_a_path_through_the_engine_takes_no_slower_way(version: str, tmp_path: Path) -> None:
    done = run_in(spark_python(version), "tests.versions.spark_program", str(tmp_path))
    assert done.stdout, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == {}, done.stderr[-6000:]
    assert "write" in found["steps"]


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_the_java_sources_compile(version: str) -> None:
    run_tests(spark_python(version), "tests/spark/test_java_sources.py")
