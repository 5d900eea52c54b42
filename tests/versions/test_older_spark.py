"""Each version of Spark: a path without a slower way, the tests of the engine, a commit on S3."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from tests.peers.environment import MavenMissingError
from tests.support.servers.connectors import JARS_OF_OTHER_HADOOP
from tests.support.servers.s3 import S3Server
from tests.versions.environments import (
    SPARK,
    run_in,
    run_tests,
    s3_jars,
    spark_3_5_of_scala_2_13,
    spark_python,
)

ROWS = "tests/spark/test_same_rows_as_arrow.py"
CONDITIONS = ("tests/spark/test_conditions_by_settings.py", "tests/spark/test_stored_sql.py")
FILES = (
    "test_spark_delete_update",
    "test_spark_merge",
    "test_stream_read",
    "test_stream_write",
    "test_format_delta",
    "test_sql_source",
    "test_delta_table",
    "test_commit_protocol",
    "test_vector_filter",
    "sql/test_spark_sql",
    "sql/test_tables_by_name",
)
"""Changes of rows, streams, `format("delta")`, SQL, `delta.tables`, and our Java code."""
LOWEST = next(iter(SPARK))
T = TypeVar("T")


def or_skip(make: Callable[[], T]) -> T:
    """Skip the test if Maven is missing."""
    try:
        return make()
    except MavenMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=pytest.mark.full if each != LOWEST else ()) for each in SPARK],
)
def test_a_path_through_the_engine_takes_no_slower_way(version: str, tmp_path: Path) -> None:
    assert_path_runs(spark_python(version), tmp_path)


@pytest.mark.full
def test_a_path_runs_with_scala_2_13_on_spark_3_5(tmp_path: Path) -> None:
    assert_path_runs(or_skip(spark_3_5_of_scala_2_13), tmp_path)


def assert_path_runs(python: Path, folder: Path, variables: Mapping[str, str] = {}) -> None:
    done = run_in(python, "tests.versions.spark_program", str(folder), variables=variables)
    assert done.stdout, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == {}, done.stderr[-6000:]
    assert "write" in found["steps"]


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_the_java_sources_compile(version: str) -> None:
    run_tests(spark_python(version), "tests/spark/test_java_sources.py")


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_the_rows_of_all_tables_are_those_of_arrow(version: str) -> None:
    run_tests(spark_python(version), ROWS, tier="not long")


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("version", SPARK)
def test_the_tests_of_the_engine_pass(version: str, file: str) -> None:
    run_tests(spark_python(version), f"tests/spark/{file}.py")


@pytest.mark.long
@pytest.mark.parametrize("version", SPARK)
def test_conditions_select_the_rows_that_spark_selects(version: str) -> None:
    run_tests(spark_python(version), *CONDITIONS, tier="not long")


@pytest.mark.long
@pytest.mark.parametrize("version", [each for each in SPARK if each != "3.5"])
def test_a_client_of_spark_connect_passes_the_checks(version: str) -> None:
    jars: list[Path] = []
    with suppress(MavenMissingError):  # all other checks need no jars
        jars = s3_jars(version)
    run_tests(
        spark_python(version),
        "tests/spark/test_connect.py",
        tier="not long",
        variables={JARS_OF_OTHER_HADOOP: os.pathsep.join(map(str, jars))},
    )


@pytest.mark.long
@pytest.mark.parametrize("version", SPARK)
def test_executors_of_a_cluster_need_no_delta_ops(version: str) -> None:
    run_tests(spark_python(version), "tests/spark/test_cluster.py", tier="full")


@pytest.mark.full
def test_a_client_of_spark_connect_is_refused_on_spark_3_5(tmp_path: Path) -> None:
    done = run_in(spark_python("3.5"), "tests.versions.client_program", str(tmp_path))
    assert done.returncode == 0, done.stderr[-6000:]
    errors = json.loads(done.stdout.splitlines()[-1])
    reason = "A session of Spark Connect needs Spark 4.0 or later, and this is Spark 3.5"
    assert {name: text for name, text in errors.items() if reason not in text} == {}


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_commits_on_s3_have_the_rows_of_arrow(version: str, s3_server: S3Server) -> None:
    place = f"s3://{s3_server.new_bucket()}/a table"
    jars = or_skip(lambda: s3_jars(version))
    done = run_in(
        spark_python(version),
        "tests.versions.s3_program",
        place,
        json.dumps(s3_server.storage_options),
        variables={"SPARK_DIST_CLASSPATH": os.pathsep.join(map(str, jars))},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["by Spark"] == found["by Arrow"]
    assert (found["version"], len(found["by Arrow"]), found["warnings"]) == (3, 39, [])
