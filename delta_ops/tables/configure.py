"""Session set-up: `configure_spark_with_delta_pip` of delta-spark; it downloads no Delta jar."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

import delta_ops.spark as ds

_OF_DELTA_SPARK = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings of delta-spark's users that need the jar."""


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: Sequence[str] | None = None
) -> SparkSession.Builder:
    """Configure a builder so that its session reads and writes `format("delta")` by delta_ops.

    Settings that name classes of delta-spark's jar are removed.

    Args:
        extra_packages: Maven packages for the session.

    Examples:
        >>> from pyspark.sql import SparkSession
        >>> session = configure_spark_with_delta_pip(SparkSession.builder).getOrCreate()
        >>> session.read.format("delta").load("lake/orders").count()
        3
        >>> ds.unregister(session)
    """
    if not hasattr(spark_session_builder, "getOrCreate"):
        raise TypeError(
            "configure_spark_with_delta_pip takes a session builder, SparkSession.builder, but "
            f"got a {type(spark_session_builder).__name__}"
        )
    builder = spark_session_builder
    if extra_packages:
        builder = builder.config("spark.jars.packages", ",".join(extra_packages))
    create = builder.getOrCreate

    def create_registered() -> SparkSession:
        for name, value in _OF_DELTA_SPARK.items():
            if builder._options.get(name) == value:
                del builder._options[name]
        spark = create()
        ds.register(spark)
        return spark

    builder.getOrCreate = create_registered  # type: ignore[method-assign]
    return builder
