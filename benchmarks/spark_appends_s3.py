"""Appends by delta_ops.spark to an S3 server, beside plain Parquet with Hadoop's v2 committer.

    python benchmarks/spark_appends_s3.py [--rows 5000000] [--rounds 3] [--json]

The server is moto's on loopback, in its own process; Maven provides the connector. The server
counts all requests: ours include the connector's requests and our own log's. In each round every
case runs once, alternating with the peer; the first round warms up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame

import delta_ops.spark as ds
from benchmarks.spark_read_write import DAYS, cached_rows, session, time_run
from benchmarks.vacuum import s3_server
from tests.support.servers.connectors import connector_jars
from tests.support.servers.s3 import S3Server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    jars = connector_jars()
    if not jars:
        sys.exit("Hadoop's connector comes by Maven, which cannot be had here")
    with s3_server() as server:
        report = measure(server, os.pathsep.join(map(str, jars)), arguments.rows, arguments.rounds)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(server: S3Server, class_path: str, rows: int, rounds: int) -> dict[str, Any]:
    spark = session(**{"spark.driver.extraClassPath": class_path})
    source = cached_rows(spark, rows)
    bucket = server.new_bucket()
    seconds: dict[str, tuple[list[float], list[float]]] = {}
    requests: dict[str, tuple[Counter[str], Counter[str]]] = {}
    cases: dict[str, list[str]] = {"append": [], f"append, {DAYS} partitions": ["day"]}
    for number in range(rounds + 1):
        for name, by in cases.items():
            place = f"{bucket}/{number}-{len(by)}"
            sides = (_ours(server, source, place, by), _peer(source, place, by))
            for side in (0, 1) if number % 2 else (1, 0):
                if side == 0 or number == 0:
                    # An existing empty table; the peer's directory is created by its write.
                    ds.write(
                        source.limit(0),
                        f"s3://{place}-ours",
                        partition_by=by,
                        storage_options=server.storage_options,
                    )
                with server.recording() as seen:
                    took = time_run(sides[side])
                if number:
                    seconds.setdefault(name, ([], []))[side].append(took)
                    counted = requests.setdefault(name, (Counter(), Counter()))[side]
                    counted.clear()
                    counted.update(each.kind for each in seen)
    report = {
        "rows": rows,
        "rounds": rounds,
        "spark": spark.version,
        "cases": {
            name: {
                "delta_ops_s": round(statistics.median(ours), 2),
                "spark_s": round(statistics.median(peer), 2),
                "delta_ops_requests": dict(requests[name][0]),
                "spark_requests": dict(requests[name][1]),
            }
            for name, (ours, peer) in seconds.items()
        },
    }
    spark.stop()
    return report


def _ours(server: S3Server, rows: DataFrame, place: str, by: list[str]) -> Callable[[], object]:
    options = server.storage_options
    return lambda: ds.write(rows, f"s3://{place}-ours", partition_by=by, storage_options=options)


def _peer(rows: DataFrame, place: str, by: list[str]) -> Callable[[], object]:
    writer = rows.write.mode("append").partitionBy(*by)
    writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    return lambda: writer.parquet(f"s3a://{place}-peer")


def render_markdown(report: dict[str, Any]) -> str:
    lines = [
        f"{report['rows']:,} rows, Spark {report['spark']}, median of {report['rounds']} after one "
        "to warm up.",
        "",
        "| | delta_ops, s | Parquet, v2, s | ratio | requests of delta_ops | of Parquet, v2 |",
        "|---|---|---|---|---|---|",
    ]
    for name, case in report["cases"].items():
        ratio = round(case["delta_ops_s"] / case["spark_s"], 2)
        ours, peer = (_requests(case[f"{side}_requests"]) for side in ("delta_ops", "spark"))
        lines.append(
            f"| {name} | {case['delta_ops_s']} | {case['spark_s']} | {ratio} | {ours} | {peer} |"
        )
    return "\n".join(lines)


def _requests(by_kind: dict[str, int]) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(by_kind.items()))
    return f"{sum(by_kind.values())} ({kinds})"


if __name__ == "__main__":
    main()
