"""Session settings of the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.session_settings import (
    PREFIX,
    default_properties,
    reset_txn,
    session_settings,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Any]:
    """The session's settings, as they were again afterwards."""
    before = set(spark.conf.getAll)
    yield spark.conf
    for name in set(spark.conf.getAll) - before:
        spark.conf.unset(name)


def test_a_session_that_says_nothing_has_the_defaults_of_the_reference(spark: SparkSession) -> None:
    settings = session_settings(spark)
    assert not settings.merge_schema
    assert settings.enforce_retention
    assert not settings.overwrites_dynamically
    assert (settings.user_metadata, settings.txn) == (None, None)
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
    assert session_settings(spark).txn == ("app", 7)
    conf.set(f"{PREFIX}write.txnVersion.autoReset.enabled", "true")
    reset_txn(spark)
    with pytest.raises(InvalidRequestError, match="set both"):
        session_settings(spark)


def test_a_setting_that_is_no_flag_is_refused(spark: SparkSession, conf: Any) -> None:
    conf.set(f"{PREFIX}schema.autoMerge.enabled", "yes")
    with pytest.raises(InvalidRequestError, match=r"autoMerge\.enabled is 'yes'"):
        session_settings(spark)
