"""PySpark keeps call sites of the user's code and none of ours."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.errors import AnalysisException
from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.spark.session.call_sites import omitting_call_sites

pytestmark = pytest.mark.spark


def is_reported(spark: SparkSession) -> bool:
    """Whether PySpark reports this file as the place of a failed step."""
    frame = spark.range(1).select(sf.col("id") / sf.lit(0))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as raised:
        frame.collect()
    assert hasattr(raised.value, "getQueryContext")
    return any(Path(__file__).name in each.callSite() for each in raised.value.getQueryContext())


@pytest.mark.full
def test_steps_of_the_user_keep_theirs_whatever_an_engine_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert is_debugging_enabled()
    ds.write(spark.range(3), tmp_path)
    with pytest.raises(InvalidRequestError):
        ds.write(spark.range(3).select(sf.col("id").alias("other")), tmp_path)
    assert is_debugging_enabled()
    assert is_reported(spark)


@pytest.mark.full
def test_none_is_kept_until_the_last_engine_is_done(spark: SparkSession) -> None:
    with omitting_call_sites():
        with omitting_call_sites():
            assert not is_debugging_enabled()
        assert not is_debugging_enabled()
        assert not is_reported(spark)
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


@pytest.mark.full
def test_a_merge_is_spared_a_third_of_its_calls_and_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_calls = 0
    send = ClientServerConnection.send_command

    def count(connection: ClientServerConnection, command: str) -> Any:
        nonlocal num_calls
        # Counts calls of a merge's own threads too, and none of the thread that polls job progress.
        thread = threading.current_thread()
        is_merging = thread is threading.main_thread() or thread.name.startswith("delta_ops-")
        num_calls += is_merging
        return send(connection, command)

    def calls_of_a_merge(table: Path) -> int:
        ds.write(spark.range(9), table)
        merge = ds.merge(table, spark.range(5, 12), "target.id = source.id")
        before = num_calls
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return num_calls - before

    monkeypatch.setattr(ClientServerConnection, "send_command", count)
    omitted = calls_of_a_merge(tmp_path / "omitted")
    # A PySpark version without remembered call sites is left unchanged.
    monkeypatch.setattr("delta_ops.spark.session.call_sites.REMEMBERED", "no name that it has")
    assert is_debugging_enabled()
    assert 3 * omitted < 2 * calls_of_a_merge(tmp_path / "kept")
