"""Each version of Spark: one path without a slower way, and the main tests of the Spark engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.versions.environments import SPARK, run_in, run_tests, spark_python

LOWEST = min(SPARK)
FILES = (
    "test_same_rows_as_arrow",
    "test_spark_write",
    "test_spark_delete_update",
    "test_spark_merge",
    "test_stream_read",
    "test_stream_write",
    "test_format_delta",
    "test_sql_source",
    "test_delta_table",
    "test_commit_protocol",
    "test_vector_filter",
    "test_column_lineage",
    "test_java_sources",
)
"""The equality of rows, commands, streams, `format("delta")`, `delta.tables`, and our Java code."""


@pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=pytest.mark.full if each != LOWEST else ()) for each in SPARK],
)
def test_a_path_through_the_engine_takes_no_slower_way(version: str, tmp_path: Path) -> None:
    done = run_in(spark_python(version), "tests.versions.spark_program", str(tmp_path))
    assert done.stdout, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == {}, done.stderr[-6000:]
    assert "write" in found["steps"]


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_the_tests_of_the_engine_pass(version: str) -> None:
    run_tests(spark_python(version), *(f"tests/spark/{name}.py" for name in FILES))


@pytest.mark.full
@pytest.mark.parametrize("version", SPARK)
def test_tables_of_a_version_are_read_by_arrow_and_by_the_newest(
    version: str, tmp_path: Path
) -> None:
    import delta_ops.arrow as da
    from delta_ops import DeltaLog

    run_in(spark_python(version), "tests.versions.spark_program", str(tmp_path))
    written = DeltaLog(tmp_path / "mapped").snapshot()
    assert da.to_table(tmp_path / "mapped").num_rows == 10
    assert written.protocol.min_reader_version >= 2
