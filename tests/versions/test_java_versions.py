"""Each version of Java that a Spark supports: the path through the engine takes no slower way.

All other tests run on Java 17.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.versions.environments import JavaMissingError, java_home, spark_python
from tests.versions.test_older_spark import assert_path_runs

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("spark", "java"),
    [
        ("3.5", "8"),
        ("3.5", "11"),
        ("4.0", "21"),
        ("4.1", "21"),
        ("4.2", "25"),
        ("newest", "21"),
        ("newest", "25"),
    ],
)
def test_a_path_through_the_engine_runs_on_java(spark: str, java: str, tmp_path: Path) -> None:
    python = Path(sys.executable) if spark == "newest" else spark_python(spark)
    try:
        home = java_home(java)
    except JavaMissingError as error:
        pytest.skip(str(error))
    # The archive of classes is of another Java.
    assert_path_runs(python, tmp_path, {"JAVA_HOME": str(home), "JAVA_TOOL_OPTIONS": ""})
