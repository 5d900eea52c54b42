"""PySpark keeps call sites of the user's steps, and none of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.spark.call_sites import omitting_call_sites

pytestmark = pytest.mark.spark


def is_told(spark: SparkSession) -> bool:
    """Whether PySpark says of a step that fails that it was taken here."""
    frame = spark.range(1).select(sf.col("id") / sf.lit(0))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as raised:
        frame.collect()
    assert hasattr(raised.value, "getQueryContext")
    return any(Path(__file__).name in each.callSite() for each in raised.value.getQueryContext())


def test_steps_of_the_user_keep_theirs_whatever_an_engine_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert is_debugging_enabled()
    ds.write(spark.range(3), tmp_path)
    with pytest.raises(InvalidRequestError):
        ds.write(spark.range(3).select(sf.col("id").alias("other")), tmp_path)
    assert is_debugging_enabled()
    assert is_told(spark)


def test_none_is_kept_until_the_last_engine_is_done(spark: SparkSession) -> None:
    with omitting_call_sites():
        with omitting_call_sites():
            assert not is_debugging_enabled()
        assert not is_debugging_enabled()
        assert not is_told(spark)
    assert is_debugging_enabled()


def test_a_session_that_wants_none_gets_none(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", False)
    with omitting_call_sites():
        pass
    assert not is_debugging_enabled()


def test_a_version_of_pyspark_that_remembers_nothing_is_left_alone(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("pyspark.errors.utils._enable_debugging_cache")
    with omitting_call_sites():
        pass
    with pytest.raises(AnalysisException):
        spark.sql("SELECT nothing_of_this_name")
