"""A code location with tables on S3; only environment variables hold its secrets."""

import dagster as dg
import pyarrow as pa

from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    build_commit_sensor,
    build_health_checks,
    build_maintenance_job,
    build_maintenance_sensor,
    build_table_checks,
)

OPTIONS = {
    "anon": False,
    "key": dg.EnvVar("TEST_S3_KEY"),
    "secret": dg.EnvVar("TEST_S3_SECRET"),
    "client_kwargs": {
        "endpoint_url": dg.EnvVar("TEST_S3_URL"),
        "aws_session_token": dg.EnvVar("TEST_S3_TOKEN"),
        "region_name": "us-east-1",
    },
    "config_kwargs": {"max_pool_connections": dg.EnvVar.int("TEST_S3_POOL")},
}

lake = DeltaLogResource(root=dg.EnvVar("TEST_LAKE"), storage_options=OPTIONS)
NO_LAKE = DeltaIOManager(root="s3://there-is-no-such-bucket", storage_options=OPTIONS)


@dg.asset
def numbers() -> pa.Table:
    return pa.table({"id": [1, 2]})


@dg.asset
def follower(
    context: dg.AssetExecutionContext, numbers: pa.Table, lake: DeltaLogResource
) -> pa.Table:
    rows = lake.snapshot("numbers").num_files
    context.log.info(f"{lake!r} has {rows} files, and this process {len(numbers)} rows")
    print(lake, lake.log("numbers"), lake.table("numbers"))
    return numbers


@dg.asset(io_manager_key="no_lake")
def lost() -> pa.Table:
    return pa.table({"id": [1]})


TABLES = [lake.table("numbers")]
maintenance = build_maintenance_job(TABLES)
commits = build_commit_sensor(TABLES)
upkeep = build_maintenance_sensor(maintenance, TABLES)

defs = dg.Definitions(
    assets=[numbers, follower, lost],
    asset_checks=[*build_table_checks(TABLES), *build_health_checks(TABLES)],
    jobs=[
        dg.define_asset_job("everything", executor_def=dg.in_process_executor),
        dg.define_asset_job("lost_in_a_process", [lost], executor_def=dg.multiprocess_executor),
        maintenance,
    ],
    sensors=[commits, upkeep],
    resources={"io_manager": DeltaIOManager(lake=lake), "no_lake": NO_LAKE, "lake": lake},
)


def everything() -> dg.JobDefinition:
    return defs.resolve_job_def("everything")


def lost_in_a_process() -> dg.JobDefinition:
    """The failing job, with its step in its own process."""
    return defs.resolve_job_def("lost_in_a_process")
