"""A script that a run starts: writes the assets of its session, and may die before it has reported
the first of them."""

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
from dagster_pipes import open_dagster_pipes

from delta_ops import col
from delta_ops.pipes import EXTRAS, write_asset


def die(**_reported: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    with open_dagster_pipes() as pipes:
        marker = Path(pipes.get_extra("marker"))
        if marker.exists():
            marker.unlink()
            setattr(pipes, "report_asset_materialization", die)  # noqa: B010 - it is a method
        key = pipes.partition_key if pipes.is_partition_step else "all"

        def compute() -> pa.Table:
            with Path(pipes.get_extra("computed")).open("a") as lines:
                lines.write(f"{key}\n")
            return pa.table({"key": [key], "run": [pipes.run_id]})

        replaced = col("key") == key if pipes.is_partition_step else None
        for asset_key in pipes.extras[EXTRAS]:
            write_asset(
                pipes,
                compute,
                replace_where=replaced,
                asset_key=asset_key,
                metadata={"where": "far away"},
            )


main()
