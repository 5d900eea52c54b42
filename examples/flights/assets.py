"""The pipeline: files of flight records become four Delta tables.

flights_raw         every record, in the partition of the day its file arrived; each generation
                    of a file once, a corrected file in place of what it corrects
flights             typed, without repeats, joined with airports; one partition a flight day
delay_by_origin     one row an origin and flight day
flights_quarantine  records that cannot be used, with the reason
"""

import warnings

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark users know)

from delta_ops import col
from delta_ops.orchestration import SourcePart
from examples.flights.records import classify, raw_records
from examples.flights.settings import FlightsInput, first_day

START = first_day()
days = dg.DailyPartitionsDefinition(start_date=START.isoformat(), end_offset=2)
"""From the pipeline's first day to tomorrow: a record may be from a time zone that is ahead."""

single_run = dg.BackfillPolicy.single_run()
# Dagster calls the parameter beta; it has existed for years and has no alternative.
warnings.filterwarnings("ignore", message="Parameter `backfill_policy`", category=dg.BetaWarning)


@dg.asset(
    partitions_def=days,
    backfill_policy=single_run,
    kinds={"deltalake", "pyspark"},
    group_name="flights",
    metadata={
        "partition_expr": "arrival_day",
        "delta/partition_by": "arrival_day",
        "delta/idempotency": "source",
    },
)
def flights_raw(
    context: dg.AssetExecutionContext, spark: LazyPySparkResource, flights_input: FlightsInput
) -> list[SourcePart]:
    """Every record of the files that arrived on a day."""
    arrived = set(context.partition_keys)
    return [
        SourcePart(
            data=raw_records(spark.spark_session, file),
            source=file.name,
            position=file.generation,
            replaces=col("source_file") == file.name,
        )
        for file in flights_input.files()
        if file.arrival_day.isoformat() in arrived
    ]


@dg.asset(
    partitions_def=days,
    backfill_policy=single_run,
    kinds={"deltalake", "pyspark"},
    group_name="flights",
    ins={
        # Any file may hold a flight: read all rows whose flight day is in the run's partitions.
        "flights_raw": dg.AssetIn(
            partition_mapping=dg.AllPartitionMapping(), metadata={"partition_expr": "flight_day"}
        )
    },
    metadata={
        "partition_expr": "flight_day",
        "delta/partition_by": "flight_day",
        "delta/idempotency": "partition",
    },
)
def flights(
    flights_raw: DataFrame, spark: LazyPySparkResource, flights_input: FlightsInput
) -> DataFrame:
    """The flights of a day, from all files, each once, with their airports."""
    valid = classify(flights_raw, START).where("reason IS NULL")
    typed = [
        "flight_day",
        "departed_at",
        "delay_minutes",
        "distance_miles",
        "origin",
        "destination",
    ]
    unique = valid.groupBy(*typed).agg(F.min("source_file").alias("source_file"))
    airports = flights_input.airports(spark.spark_session)
    for end in ("origin", "destination"):
        place = airports.select(
            F.col("iata").alias(end),
            F.col("city").alias(f"{end}_city"),
            F.col("state").alias(f"{end}_state"),
        )
        unique = unique.join(F.broadcast(place), end, "left")
    return unique.select(
        *typed,
        "origin_city",
        "origin_state",
        "destination_city",
        "destination_state",
        "source_file",
    )


@dg.asset(
    partitions_def=days,
    backfill_policy=single_run,
    kinds={"deltalake", "pyspark"},
    group_name="flights",
    metadata={
        "partition_expr": "flight_day",
        "delta/partition_by": "flight_day",
        "delta/idempotency": "partition",
    },
)
def delay_by_origin(flights: DataFrame) -> DataFrame:
    """Departure delays of a day, by origin."""
    return flights.groupBy("flight_day", "origin").agg(
        F.count("*").alias("flights"),
        F.avg("delay_minutes").alias("mean_delay_minutes"),
        F.max("delay_minutes").alias("max_delay_minutes"),
        F.count_if(F.col("delay_minutes") > 15).alias("delayed_over_15"),
    )


@dg.asset(
    partitions_def=days,
    backfill_policy=single_run,
    kinds={"deltalake", "pyspark"},
    group_name="flights",
    ins={
        # A corrected file removes its records from the day of its earlier arrival: read the newest
        # version of any day, not the version of the run's own day.
        "flights_raw": dg.AssetIn(
            partition_mapping=dg.AllPartitionMapping(), metadata={"partition_expr": "arrival_day"}
        )
    },
    metadata={
        "partition_expr": "arrival_day",
        "delta/partition_by": "arrival_day",
        "delta/idempotency": "partition",
    },
)
def flights_quarantine(flights_raw: DataFrame) -> DataFrame:
    """The records that arrived on a day and cannot be used, with the reason."""
    rejected = classify(flights_raw, START).where("reason IS NOT NULL")
    return rejected.select("arrival_day", "source_file", "record", "flight_day", "reason")
