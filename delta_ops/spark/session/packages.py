"""Packages: Hadoop's connectors to object stores, for the Hadoop version in PySpark.

A connector for another Hadoop version fails in the middle of a job, so the version comes from
PySpark's own jars. For S3, only the modules of Amazon's client that the connector uses are listed.
The bundle of all modules is forty times as large. Hadoop before 3.4 uses the first version of
Amazon's client, and gets its bundle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyspark

from delta_ops.errors import InvalidRequestError, MissingDependencyError

Store = Literal["s3", "gcs", "azure"]

_MODULES: Mapping[str, str] = {"s3": "hadoop-aws", "gcs": "hadoop-gcp", "azure": "hadoop-azure"}
_AWS_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_AWS_VERSIONS: Mapping[str, str] = {
    "3.4.1": "2.24.8",  # 2.24.6 has no s3-transfer-manager
    "3.4.2": "2.29.52",
    "3.4.3": "2.35.4",
    "3.5.0": "2.35.4",
}
"""Versions of Amazon's client by Hadoop version: as `hadoop-aws` requires, or the next version that
has all modules."""
_GCS_SINCE = (3, 5)
"""The first version of Hadoop with a connector of its own for GCS."""
_EXCLUDED = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*", "commons-logging:*")
"""The bundle, and libraries that PySpark ships in its own versions."""
_HADOOP_JAR = re.compile(r"hadoop-client-api-(\d+(?:\.\d+)+)\.jar")


def packages(*stores: Store) -> dict[str, str]:
    """Settings that make a new session load the connectors for these stores from Maven.

    For `get_session(configuration=packages("s3"))`, `LazyPySparkResource(spark_config=...)`, or
    `spark-submit --conf`. A running session cannot load packages.

    Args:
        stores: One or more of "s3", "gcs" and "azure".

    Raises:
        InvalidRequestError: No store is named, or an unknown store.
        MissingDependencyError: PySpark has no Hadoop, or its Hadoop has no connector to a store.

    Examples:
        >>> "hadoop-aws" in ds.packages("s3")["spark.jars.packages"]
        True
    """
    if not stores or any(not isinstance(each, str) or each not in _MODULES for each in stores):
        raise InvalidRequestError(
            f"packages takes one or more of the stores {', '.join(_MODULES)}, as strings"
        )
    return packages_for(hadoop_version(Path(pyspark.__file__).parent / "jars"), stores)


def packages_for(hadoop: str, stores: Sequence[Store]) -> dict[str, str]:
    """The settings for a version of Hadoop; see `packages`."""
    if "gcs" in stores and tuple(map(int, hadoop.split(".")[:2])) < _GCS_SINCE:
        raise MissingDependencyError(
            f"the Hadoop {hadoop} of PySpark {pyspark.__version__} has no connector to GCS; use "
            "PySpark 4.2 or later, or name Google's connector for Hadoop 3 in spark.jars"
        )
    named = [f"org.apache.hadoop:{_MODULES[store]}:{hadoop}" for store in stores]
    excluded: tuple[str, ...] = _EXCLUDED
    if "s3" in stores:
        version = _AWS_VERSIONS.get(hadoop)
        if version is None:
            excluded = _EXCLUDED[1:]  # the bundle is large, but always fits
        else:
            named += [f"software.amazon.awssdk:{module}:{version}" for module in _AWS_MODULES]
    return {
        "spark.jars.packages": ",".join(named),
        "spark.jars.excludes": ",".join(excluded),
    }


def hadoop_version(jars: Path) -> str:
    """The version of Hadoop's client among Spark's jars.

    Raises:
        MissingDependencyError: There is none.
    """
    found = [match[1] for jar in jars.glob("*.jar") if (match := _HADOOP_JAR.fullmatch(jar.name))]
    if not found:
        raise MissingDependencyError(
            "packages reads the version of Hadoop from PySpark's own jars, and there are none; "
            "set spark.jars.packages to the connectors for your cluster's Hadoop"
        )
    return found[0]
