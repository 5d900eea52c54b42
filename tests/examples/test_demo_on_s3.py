"""The example's pipeline with tables on S3: the same account as on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.flights import demo
from examples.flights.accounting import account
from examples.flights.generate import generate_month
from examples.flights.weather import append_hours
from tests.examples.flights_location import load_definitions
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_spark: SparkSession, s3_server: S3Server
) -> Iterator[str]:
    """An address for the tables, credentials in the environment, and a Dagster home."""
    (tmp_path / "home").mkdir()
    environment = {
        "DAGSTER_HOME": str(tmp_path / "home"),
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": s3_server.url,
        "AWS_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield f"s3://{s3_server.new_bucket()}/lake"
    store_spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.long
def test_every_record_is_accounted_for(
    tmp_path: Path, lake: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate_month(tmp_path / "in", date(2026, 1, 1), days=4, flights_per_day=20)
    loaded = load_definitions(monkeypatch, tmp_path / "in", lake)
    assert lake == loaded.LAKE
    assert demo.run_pipeline(loaded) > 0
    append_hours(loaded.WEATHER.uri, 2)
    assert demo.maintain(loaded)
    result = account(tmp_path / "in", lake)
    assert result.balanced, result.table()
    assert result.total.records > 0
    assert loaded.WEATHER.log().snapshot().version == 1
    with s3_server.recording() as requests:
        assert demo.run_pipeline(loaded) == 0
    assert not [each for each in requests if each.kind == "PUT"]
