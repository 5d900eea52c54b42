"""Hadoop's connectors for each version of Hadoop that a supported Spark brings."""

from __future__ import annotations

import pytest

from delta_ops.errors import MissingDependencyError
from delta_ops.spark.session.packages import packages_for


@pytest.mark.parametrize(
    ("hadoop", "client"),
    [("3.4.1", "2.24.8"), ("3.4.2", "2.29.52"), ("3.5.0", "2.35.4")],
)
def test_the_modules_of_amazon_fit_hadoop(hadoop: str, client: str) -> None:
    found = packages_for(hadoop, ["s3"])
    named = found["spark.jars.packages"].split(",")
    assert named[0] == f"org.apache.hadoop:hadoop-aws:{hadoop}"
    assert {each.rpartition(":")[2] for each in named[1:]} == {client}
    assert "software.amazon.awssdk:bundle" in found["spark.jars.excludes"]


def test_hadoop_of_spark_3_5_gets_the_bundle_of_the_first_client() -> None:
    found = packages_for("3.3.4", ["s3", "azure"])
    assert found["spark.jars.packages"] == (
        "org.apache.hadoop:hadoop-aws:3.3.4,org.apache.hadoop:hadoop-azure:3.3.4"
    )
    assert "bundle" not in found["spark.jars.excludes"]


def test_gcs_before_hadoop_3_5_is_refused_by_name() -> None:
    with pytest.raises(MissingDependencyError, match=r"Hadoop 3\.4\.1 .*GCS; use PySpark 4\.2"):
        packages_for("3.4.1", ["s3", "gcs"])
