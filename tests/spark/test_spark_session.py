"""Starting Spark, and settings that apply to one call."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError, MissingDependencyError, StorageError
from delta_ops.spark import get_session
from delta_ops.spark.session.failures import failure_of
from delta_ops.spark.session.session import overriding
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import Gate

pytestmark = pytest.mark.spark

SETTING = "spark.sql.files.maxRecordsPerFile"
PROJECT = Path(__file__).resolve().parents[2]


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "JAVA"))}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=PROJECT,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def fake_java(folder: Path, version: str) -> Path:
    """A Java that reports this version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


START_IN_EACH = """
import os, sys
from delta_ops.errors import MissingDependencyError
from delta_ops.spark import get_session

path = os.environ["PATH"]
for variable in sys.argv[1:]:
    os.environ.pop("JAVA_HOME", None)
    os.environ["PATH"] = path
    name, _, value = variable.partition("=")
    os.environ[name] = value
    try:
        get_session()
    except MissingDependencyError as error:
        print(error)
"""


def test_without_a_fitting_java_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    problems = {
        "PATH=": "Java, which is not on PATH",
        f"JAVA_HOME={tmp_path / 'absent'}": "from JAVA_HOME cannot be run",
        f"JAVA_HOME={fake_java(tmp_path / '8', '1.8.0_402')}": "is Java 8;",
        f"JAVA_HOME={fake_java(tmp_path / '11', '11.0.2')}": "is Java 11;",
    }
    ran = run(START_IN_EACH, *problems)
    assert ran.returncode == 0, ran.stderr[-2000:]
    for reported, problem in zip(ran.stdout.splitlines(), problems.values(), strict=True):
        assert reported.startswith("Spark needs Java")
        assert problem in reported
        assert "install Java 17 (Debian" in reported


@pytest.mark.full
def test_file_names_beyond_ascii_work_where_the_environment_has_no_locale(tmp_path: Path) -> None:
    ran = run(
        "import sys, delta_ops.spark as ds\n"
        "spark = ds.get_session(configuration={'spark.master': 'local[1]', "
        "'spark.ui.enabled': 'false', 'spark.driver.bindAddress': '127.0.0.1', "
        "'spark.driver.host': '127.0.0.1'})\n"
        "frame = spark.sql(\"SELECT 1 AS id, '\\u6771' AS p\")\n"
        "ds.write(frame, sys.argv[1], partition_by=['p'])\n"
        "assert ds.read(spark, sys.argv[1]).collect()[0].p == '\\u6771'\n".replace(
            "sys.argv[1]", repr(str(tmp_path))
        ),
        PYTHONUTF8="1",
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert list(tmp_path.glob("w-*/p=東"))


def test_the_active_session_is_taken(spark: SparkSession) -> None:
    spark.createDataFrame([(1,)], "id INT")  # makes this session the active one of the thread
    assert get_session() is spark


def test_overlapping_calls_leave_a_setting_as_it_was(spark: SparkSession) -> None:
    same = SparkSession(spark.sparkContext, spark._jsparkSession)  # as created by `foreachBatch`
    first, second = overriding(spark, {SETTING: "7"}), overriding(same, {SETTING: "7"})
    before = spark.conf.get(SETTING)
    first.__enter__()
    second.__enter__()
    assert spark.conf.get(SETTING) == "7"
    first.__exit__(None, None, None)
    assert spark.conf.get(SETTING) == "7"
    second.__exit__(None, None, None)
    assert spark.conf.get(SETTING) == before


def session_of(settings: dict[str, str]) -> SparkSession:
    """A session with settings only."""
    conf = SimpleNamespace(
        get=settings.get, set=settings.__setitem__, unset=lambda name: settings.pop(name, None)
    )
    return cast(SparkSession, SimpleNamespace(conf=conf))


@pytest.mark.parametrize("before", [{SETTING: "1"}, {}], ids=["a value", "no value"])
def test_a_setting_within_another_call_has_the_inner_value_until_it_is_left(
    before: dict[str, str],
) -> None:
    settings = dict(before)
    session = session_of(settings)
    with overriding(session, {SETTING: "7"}):
        with overriding(session, {SETTING: "9"}):
            assert settings[SETTING] == "9"
        assert settings[SETTING] == "7"
    assert settings == before


def test_the_value_of_the_first_thread_wins_until_it_ends() -> None:
    settings = {SETTING: "1"}
    session = session_of(settings)
    second = overriding(session, {SETTING: "9"})
    with ThreadPoolExecutor(max_workers=1) as pool:
        with overriding(session, {SETTING: "7"}):
            pool.submit(second.__enter__).result()
            assert settings[SETTING] == "7"
        assert settings[SETTING] == "9"
        pool.submit(second.__exit__, None, None, None).result()
    assert settings == {SETTING: "1"}


@needs_fork
def test_a_child_forked_while_a_setting_is_made_waits_for_nobody() -> None:
    gate, settings = Gate(), {SETTING: "1"}

    def get(name: str) -> str:
        gate.pass_by()
        return settings[name]

    conf = SimpleNamespace(get=get, set=settings.__setitem__)
    session = cast(SparkSession, SimpleNamespace(conf=conf))

    def use() -> str:
        with overriding(session, {SETTING: "7"}):
            return settings[SETTING]

    with gate.holding([use]):
        assert call_in_child(use) == "7"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        pytest.param(
            "x\nCaused by: java.io.IOException: No space left on device\n\tat a.b(C.java:1)",
            StorageError,
            "no space is left",
            id="a full disk",
        ),
        pytest.param(
            "java.nio.file.AccessDeniedException: Permission denied",
            StorageError,
            "permission is denied",
            id="no permission",
        ),
        pytest.param(
            "Malformed input or input contains unmappable characters: p=?",
            StorageError,
            "LC_ALL=C.UTF-8",
            id="a locale without the letters of a path",
        ),
        pytest.param("UnsupportedOperationException: getSubject is not supported",
                     MissingDependencyError, "start Spark with Java 17", id="a Java too new"),
        pytest.param("[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==", InvalidRequestError,
                     "zero. Correct", id="an error of the rows"),
    ],
)  # fmt: skip
def test_a_failed_job_becomes_one_sentence(text: str, kind: type[Exception], message: str) -> None:
    failure = failure_of(RuntimeError(text), "/table", "/table/w-1")
    assert type(failure) is kind
    assert message in str(failure)
    assert "\n" not in str(failure)
