"""Each version of Java that a Spark supports: the path through the engine takes no slower way.

All other tests run on Java 17.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.versions.environments import JavaMissingError, java_home, run_in, spark_python
from tests.versions.test_older_spark import assert_path_runs

NEWEST = "newest"
pytestmark = pytest.mark.long


def python_of(spark: str) -> Path:
    return Path(sys.executable) if spark == NEWEST else spark_python(spark)


def variables_of(java: str) -> dict[str, str]:
    """The variables of a process that starts a Java, or a skipped test."""
    try:
        home = java_home(java)
    except JavaMissingError as error:
        pytest.skip(str(error))
    # The options of other tests name an archive of classes of their own Java.
    return {"JAVA_HOME": str(home), "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.mark.parametrize(
    ("spark", "java"),
    [
        ("3.5", "8"),
        ("3.5", "11"),
        ("4.0", "21"),
        ("4.1", "21"),
        ("4.2", "21"),
        ("4.2", "25"),
        (NEWEST, "21"),
        (NEWEST, "25"),
    ],
)
def test_a_path_through_the_engine_runs_on_java(spark: str, java: str, tmp_path: Path) -> None:
    assert_path_runs(python_of(spark), tmp_path, variables_of(java))


@pytest.mark.parametrize("spark", ["3.5", "4.0"])
def test_a_session_names_a_java_that_is_too_new_for_spark(spark: str) -> None:
    program = "tests.versions.session_program"
    done = run_in(python_of(spark), program, variables=variables_of("25"))
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"delta_ops.errors.MissingDependencyError: Spark {spark}."), last
    assert "did not start with Java 25" in last
    assert "because its Hadoop needs Java 23 or older; install Java 17" in last
