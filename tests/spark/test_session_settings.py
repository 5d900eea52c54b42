"""Session settings of delta-spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.spark.session.settings import (
    PREFIX,
    default_properties,
    reset_txn,
    session_settings,
    txn_of,
)
from delta_ops.tables import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Any]:
    """The session's settings, restored afterwards."""
    before = set(spark.conf.getAll)
    yield spark.conf
    for name in set(spark.conf.getAll) - before:
        spark.conf.unset(name)


def test_a_session_that_says_nothing_has_the_defaults_of_the_reference(spark: SparkSession) -> None:
    settings = session_settings(spark)
    assert not settings.merge_schema
    assert settings.enforce_retention
    assert not settings.overwrites_dynamically
    assert (settings.user_metadata, txn_of(spark)) == (None, None)
    assert default_properties(spark) == {}


def test_settings_are_read_at_each_call(spark: SparkSession, conf: Any) -> None:
    conf.set(f"{PREFIX}schema.autoMerge.enabled", True)
    conf.set(f"{PREFIX}retentionDurationCheck.enabled", "False")
    conf.set(f"{PREFIX}commitInfo.userMetadata", "why")
    settings = session_settings(spark)
    assert (settings.merge_schema, settings.enforce_retention) == (True, False)
    assert settings.user_metadata == "why"


def test_defaults_become_properties_of_tables_but_not_versions_of_the_protocol(
    spark: SparkSession, conf: Any
) -> None:
    conf.set(f"{PREFIX}properties.defaults.enableChangeDataFeed", "true")
    conf.set(f"{PREFIX}properties.defaults.feature.vacuumProtocolCheck", "supported")
    conf.set(f"{PREFIX}properties.defaults.minReaderVersion", "1")
    assert default_properties(spark) == {
        "delta.enableChangeDataFeed": "true",
        "delta.feature.vacuumProtocolCheck": "supported",
    }


def test_a_txn_goes_once_where_the_session_says_so(spark: SparkSession, conf: Any) -> None:
    conf.set(f"{PREFIX}write.txnAppId", "app")
    conf.set(f"{PREFIX}write.txnVersion", "7")
    reset_txn(spark)
    assert txn_of(spark) == ("app", 7)
    conf.set(f"{PREFIX}write.txnVersion.autoReset.enabled", "true")
    reset_txn(spark)
    with pytest.raises(InvalidRequestError, match="set both"):
        txn_of(spark)
    assert session_settings(spark).enforce_retention


def test_changes_of_rows_are_done_once_by_the_txn_of_the_session(
    spark: SparkSession, tmp_path: Path, conf: Any
) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2, 3], "v": [0, 0, 0]}))
    table = DeltaTable.forPath(spark, str(tmp_path))
    source = spark.sql("SELECT 1L AS id")
    conf.set(f"{PREFIX}write.txnAppId", "job")
    for version in (1, 1, 2, 2, 3, 3):
        conf.set(f"{PREFIX}write.txnVersion", str(version))
        if version == 1:
            table.update(set={"v": "v + 1"})
        elif version == 2:
            merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
            figures = merge.whenMatchedUpdate(set={"v": "t.v + 10"}).execute()
            assert figures.columns[0] == "num_affected_rows"
        else:
            table.delete("id = 3")
    assert da.to_table(tmp_path).sort_by("id")["v"].to_pylist() == [11, 1]
    assert DeltaLog(tmp_path).snapshot().version == 3
    conf.set(f"{PREFIX}write.txnVersion.autoReset.enabled", "true")
    conf.set(f"{PREFIX}write.txnVersion", "4")
    table.update(set={"v": "v + 1"})
    with pytest.raises(AnalysisException, match="set both"):
        table.update(set={"v": "v + 1"})
    table.vacuum()


def test_a_setting_that_is_no_flag_is_refused(spark: SparkSession, conf: Any) -> None:
    conf.set(f"{PREFIX}schema.autoMerge.enabled", "yes")
    with pytest.raises(InvalidRequestError, match=r"autoMerge\.enabled is 'yes'"):
        session_settings(spark)
