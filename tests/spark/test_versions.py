"""Versions of Spark: what is refused, in one sentence; and the functions that replace others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException

from delta_ops.errors import InvalidRequestError, MissingDependencyError
from delta_ops.protocol.schema import VARIANT, StructField, StructType
from delta_ops.spark import versions
from delta_ops.spark.installed_version import version_of
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.session.session import why_too_new
from delta_ops.spark.versions import (
    error_condition,
    error_with_condition,
    figures_of,
    frame_of_arrow,
    known_settings,
    reads_paths,
)

OF_VARIANTS = "spark.sql.variant.writeShredding.enabled"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.5.9", (3, 5)),
        ("3.5.4-amzn-0", (3, 5)),
        ("3.5.2.3.5.2.0-56", (3, 5)),
        ("4.0.0.dev2", (4, 0)),
        ("4.3.0", (4, 3)),
        ("5.1.0", (5, 1)),
    ],
)
def test_a_version_is_read_from_its_text(text: str, version: tuple[int, int]) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("version", "is_read"),
    [
        ("3.5.2", False),
        ("3.5.2-amzn-1", False),
        ("3.5.2.3.5.2.0-56", False),
        ("3.5.3", True),
        ("3.5.10", True),
        ("4.0.0.dev2", True),
    ],
)
def test_sql_reads_paths_since_3_5_3(version: str, is_read: bool) -> None:
    assert reads_paths(version) is is_read


def test_a_server_of_spark_connect_gets_one_batch_as_it_may_ignore_the_others() -> None:
    class Client:
        __module__ = "pyspark.sql.connect.session"

        def createDataFrame(self, table: pa.Table, _schema: object) -> pa.Table:  # noqa: N802
            return table

    client: Any = Client()
    sent: Any = frame_of_arrow(client, pa.table({"n": pa.chunked_array([[1], [2], [3]])}))
    (batch,) = sent.to_batches()
    assert batch.column("n").to_pylist() == [1, 2, 3]


def test_figures_that_a_server_lost_are_an_error() -> None:
    lost: Any = SimpleNamespace(get={})
    with pytest.raises(InvalidRequestError, match=r"^t: .*nothing was committed"):
        figures_of(lost, "t")


@pytest.mark.parametrize(
    ("java", "newest", "reason"),
    [
        ("1.8.0_402", 23, ""),
        ("23.0.2", 23, ""),
        ("24", 23, "its Hadoop needs Java 23 or older"),
        ("25.0.3", 23, "its Hadoop needs Java 23 or older"),
        ("25.0.3", None, ""),
    ],
)
def test_a_java_that_is_too_new_is_named(java: str, newest: int | None, reason: str) -> None:
    assert why_too_new(java, newest) == reason


@pytest.mark.parametrize("text", ["3.4.1", "2.4.8", "unknown"])
def test_a_version_that_is_too_old_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(MissingDependencyError, match=rf"needs PySpark 3.5 or later.*{text}") as got:
        version_of(text)
    assert isinstance(got.value, ImportError)


def test_an_import_beside_an_old_pyspark_names_both_versions(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("__version__ = '3.3.2'\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import delta_ops.spark"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.stderr.strip().splitlines()[-1] == (
        "delta_ops.errors.MissingDependencyError: delta_ops.spark needs PySpark 3.5 or later, and "
        "PySpark 3.3.2 is installed; install another one with: pip install 'pyspark>=3.5'"
    )


def test_an_error_has_a_message_and_a_condition() -> None:
    error = error_with_condition(AnalysisException, "no such table", "DELTA_MISSING_DELTA_TABLE")
    assert str(error).endswith("no such table")
    assert error_condition(error) == "DELTA_MISSING_DELTA_TABLE"
    assert error_condition(error_with_condition(AnalysisException, "no such table", None)) is None


def test_settings_that_a_version_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {OF_VARIANTS: "false", "spark.sql.caseSensitive": "true"}
    monkeypatch.setattr(versions, "VERSION", (3, 5))
    assert known_settings(settings) == {"spark.sql.caseSensitive": "true"}
    monkeypatch.setattr(versions, "VERSION", (4, 0))
    assert known_settings(settings) == settings


def test_a_variant_on_a_version_without_them_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    schema = StructType((StructField("v", VARIANT, True, {}),))
    with pytest.raises(InvalidRequestError, match=r"variant needs Spark 4\.0 or later.* 3\.5\.9"):
        spark_schema_from_schema(schema)
