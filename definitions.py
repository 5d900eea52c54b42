"""The code location of the example: flight records into Delta tables, and their maintenance.

`make dev` opens it in Dagster's UI; `make demo` runs it without one.
"""

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    TableRef,
    build_commit_sensor,
    build_maintenance_job,
    build_maintenance_schedule,
    build_maintenance_sensor,
    build_table_checks,
)
from examples.flights.assets import delay_by_origin, flights, flights_quarantine, flights_raw
from examples.flights.jobs import (
    arrivals,
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
ASSETS = [flights_raw, flights, delay_by_origin, flights_quarantine]
TABLES = [TableRef(asset_key=asset.key, uri=f"{LAKE}/{asset.key.path[-1]}") for asset in ASSETS]

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
maintenance_job = build_maintenance_job(TABLES)

defs = dg.Definitions(
    assets=ASSETS,
    asset_checks=build_table_checks(TABLES),
    jobs=[ingest_job, refresh_job, quarantine_job, maintenance_job],
    schedules=[build_maintenance_schedule(maintenance_job)],
    sensors=[
        arrivals,
        late_records,
        build_maintenance_sensor(maintenance_job, TABLES),
        build_commit_sensor(TABLES),
    ],
    resources={
        "spark": spark,
        "delta": DeltaIOManager(root=LAKE, spark=spark),
        "delta_log": DeltaLogResource(root=LAKE),
        "flights_input": FlightsInput(path=str(INPUT), generated=GENERATED),
    },
)
