"""Write, audit, publish of a partition, beside the plain asset and its check.

    python -m benchmarks.write_audit_publish [--rows 1000000] [--rounds 7] [--folder DIR]

Each run writes another partition of ten columns, and a blocking check reads it. The audited asset
writes to a branch, and its publish asset commits to main. Both run in this process with Dagster's
own storage on SQLite. The sides take turns; the first round is not counted.
"""

import argparse
import logging
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from delta_ops.orchestration import DeltaIOManager, build_publish_asset

NUM_COLUMNS = 10
PARTITIONED = {"partition_expr": "day", "delta/partition_by": "day"}
AUDITED = {**PARTITIONED, "delta/publish": "audited", "delta/table": "orders"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as lake,
        dg.instance_for_test() as instance,
    ):
        report(Path(lake), instance, arguments.rows, arguments.rounds)


def report(lake: Path, instance: dg.DagsterInstance, num_rows: int, rounds: int) -> None:
    days = dg.StaticPartitionsDefinition([str(number) for number in range(rounds + 1)])
    sides = {
        "plain": asset_and_check("plain", PARTITIONED, days, num_rows),
        "audited": asset_and_check("new_orders", AUDITED, days, num_rows),
    }
    sides["audited"].append(build_publish_asset(sides["audited"][0], "orders"))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in sides if number % 2 else reversed(sides):
            took = run(sides[name], lake, instance, str(number))
            if number:
                found[name].append(took)
    print(f"A partition of {num_rows:,} rows and {NUM_COLUMNS} columns, median of {rounds} runs:\n")
    print("| | audited and published | plain | ratio |\n|---|---|---|---|")
    for place, unit in enumerate(("seconds", "seconds of a core")):
        audited, plain = (
            statistics.median(each[place] for each in found[name]) for name in ("audited", "plain")
        )
        print(f"| {unit} | {audited:.2f} | {plain:.2f} | {audited / plain:.2f} |")


def asset_and_check(
    name: str, metadata: dict[str, Any], days: dg.PartitionsDefinition[Any], num_rows: int
) -> list[Any]:
    """An asset whose partitions have random numbers, and a blocking check that reads them."""
    numbers = np.random.default_rng(0).random((NUM_COLUMNS, num_rows))
    columns = {f"c{place}": column for place, column in enumerate(numbers)}

    def write(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": pa.repeat(context.partition_key, num_rows), **columns})

    def check(rows: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=rows["c0"].null_count == 0)

    asset = dg.asset(name=name, partitions_def=days, metadata=metadata)(write)
    is_complete = dg.asset_check(
        asset=asset, blocking=True, name="is_complete", partitions_def=days
    )(check)
    return [asset, is_complete]


def run(
    definitions: list[Any], lake: Path, instance: dg.DagsterInstance, partition: str
) -> tuple[float, float]:
    """The seconds, and the seconds of a core, of one run."""
    started, cpu = time.perf_counter(), time.process_time()
    result = dg.materialize(
        definitions,
        instance=instance,
        resources={"io_manager": DeltaIOManager(root=str(lake))},
        partition_key=partition,
    )
    assert result.success
    return time.perf_counter() - started, time.process_time() - cpu


if __name__ == "__main__":
    main()
