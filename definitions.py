"""The code location of the example: flight records into Delta tables, and their maintenance.

`make dev` opens it in Dagster's UI; `make demo` runs it without one.
"""

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    add_table_metadata,
    delta_ops_definitions,
    external_table,
)
from examples.flights.assets import delay_by_origin, flights, flights_quarantine, flights_raw
from examples.flights.jobs import (
    arrivals,
    check_job,
    ingest_job,
    late_records,
    quarantine_job,
    refresh_job,
)
from examples.flights.settings import (
    PROJECT,
    FlightsInput,
    connectors,
    flights_path,
    lake_address,
)

LAKE = lake_address()
INPUT, GENERATED = flights_path()

lake = DeltaLogResource(root=LAKE)
spark = LazyPySparkResource(
    spark_config={
        "spark.master": "local[2]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **connectors(LAKE),
    }
)

WEATHER = lake.table("weather")
weather = external_table(
    WEATHER,
    description="The weather at airports, which another program appends: "
    "python -m examples.flights.weather is its next hour.",
).replace_attributes(group_name="flights")
PIPELINE = [flights_raw, flights, delay_by_origin, flights_quarantine]
TABLES = [lake.table(asset.key) for asset in PIPELINE]

defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[*add_table_metadata(PIPELINE, lake.table), weather],
        jobs=[ingest_job, refresh_job, quarantine_job, check_job],
        sensors=[arrivals, late_records],
        executor=dg.in_process_executor,  # the steps of a run share a Spark session
        resources={
            "io_manager": DeltaIOManager(lake=lake, spark=spark),
            "spark": spark,
            "flights_input": FlightsInput(path=str(INPUT), generated=GENERATED),
        },
    ),
    delta_ops_definitions(lake, [*PIPELINE, weather]),
)
