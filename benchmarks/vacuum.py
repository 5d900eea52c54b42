"""Vacuum dry runs, beside deltalake on the same table, each in its own process.

    python -m benchmarks.vacuum [--files 200000] [--folders 200] [--rounds 5] [--folder DIR]
        [--s3-files 20000] [--only disk] [--json]

Half of the files are live, the others are old orphans. The time is from opening the table to the
list of the files to delete, without imports. The peer is `DeltaTable(path).vacuum(full=True,
dry_run=True)`. Peak memory is the process's, with its imports. The S3 server (moto, a process of
this machine) gets fewer files: it scans all its objects for each page of a listing, so the time of
a full listing grows with their square. Untimed runs count the requests of each side, and in one of
ours the number of concurrent listings: each is held until eight are concurrent, or for a second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.open_table import actions
from benchmarks.ratios import MEMORY_GOAL, Ratio, record_ratio
from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import AddFile
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

OLD_S = 1_000_000_000
COMMITS = 10
IN_FLIGHT = 8
OURS = """
    from datetime import timedelta
    from delta_ops import DeltaLog
    from delta_ops.maintenance import vacuum
"""
PEER = "from deltalake import DeltaTable"
ON_DISK_OURS = "num_files = len(vacuum(DeltaLog(address), dry_run=True).plan.files)"
ON_DISK_PEER = "num_files = len(DeltaTable(address).vacuum(full=True, dry_run=True))"
# The server's files were written a moment ago, and the peer has no clock option.
ON_S3_OURS = """
    plan = vacuum(
        DeltaLog(address, options), dry_run=True, retention=timedelta(0), enforce_retention=False
    ).plan
    num_files = len(plan.files)
"""
ON_S3_PEER = """
    num_files = len(
        DeltaTable(address, storage_options=options).vacuum(
            retention_hours=0, enforce_retention_duration=False, full=True, dry_run=True
        )
    )
"""
CHILD = """
import json, os, sys, time
address, options = sys.argv[1], json.loads(sys.argv[2])
{imports}
before, started = os.times(), time.perf_counter()
{work}
took, after = time.perf_counter() - started, os.times()
cpu = after.user - before.user + after.system - before.system
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
print(json.dumps([took, cpu, int(peak) // 1024, num_files]))
"""


class Run(NamedTuple):
    """Measures of one run in a process of its own."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    num_files: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--folders", type=int, default=200)
    parser.add_argument("--s3-files", type=int, default=20_000, help="on the S3 server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", choices=["disk", "s3"])
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    report: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.only != "s3":
            root = Path(folder) / "t"
            live, orphans = paths(arguments.files, arguments.folders)
            make_log(root, live)
            make_files(root, [*live, *orphans])
            address = str(root)
            report[f"{arguments.files:,} files in {arguments.folders} folders, on disk"] = measure(
                ((OURS, ON_DISK_OURS, address, {}), (PEER, ON_DISK_PEER, address, {})),
                arguments.rounds,
            )
        if arguments.only != "disk":
            root = Path(folder) / "s3"
            live, orphans = paths(arguments.s3_files, arguments.folders)
            make_log(root, live)
            with s3_server() as server:
                report[f"{arguments.s3_files:,} files in {arguments.folders} folders, on S3"] = (
                    measure_s3(server, root, [*live, *orphans], arguments.rounds)
                )
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def paths(files: int, folders: int) -> tuple[list[str], list[str]]:
    """The paths of live files, and the paths of orphans."""
    names = [
        f"day=2026-{number % folders:03d}/part-{number // folders:05d}-"
        f"c2f3-4b1a-9d35-{number:012x}-c000.snappy.parquet"
        for number in range(files)
    ]
    half = folders * (files // folders // 2)
    return names[:half], names[half:]


def make_log(root: Path, live: list[str]) -> None:
    log = DeltaLog(root)
    for version in range(COMMITS):
        adds = [
            AddFile(path=path, size=0, partition_values={"day": "2026-01-01"}, modification_time=0)
            for path in live[version::COMMITS]
        ]
        create_commit(log.storage, log.log_directory, version, [*actions(version), *adds])
    write_checkpoint(log.snapshot(), now_ms=0)


def make_files(root: Path, names: list[str]) -> None:
    for path in names:
        place = root / path
        place.parent.mkdir(exist_ok=True)
        place.touch()
        os.utime(place, (OLD_S, OLD_S))


@contextmanager
def s3_server() -> Iterator[S3Server]:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.servers.s3_program"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            yield S3Server(int(process.stdout.readline()))
        finally:
            process.terminate()


def measure_s3(server: S3Server, root: Path, names: list[str], rounds: int) -> dict[str, float]:
    bucket = server.new_bucket()
    log_files = {
        f"t/_delta_log/{place.name}": place.read_bytes()
        for place in (root / "_delta_log").iterdir()
    }
    server.put(bucket, log_files)
    for start in range(0, len(names), 10_000):
        server.put(bucket, {f"t/{path}": b"" for path in names[start : start + 10_000]})
    theirs = {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    address = f"s3://{bucket}/t"
    # Its client is imported when a table is opened; the peer contains its own client.
    ours = (f"{OURS}    import s3fs\n", ON_S3_OURS, address, server.storage_options)
    peers = (PEER, ON_S3_PEER, address, theirs)
    found = measure((ours, peers), rounds)
    for name, side in (("delta_ops_requests", ours), ("deltalake_requests", peers)):
        with server.recording() as requests:
            run(*side)
        found[name] = len(requests)
    with server.holding(IN_FLIGHT, lists=True):
        run(*ours)
        return {**found, "listings_in_flight": server.most_held}


def measure(
    pair: tuple[tuple[str, str, str, dict[str, Any]], tuple[str, str, str, dict[str, Any]]],
    rounds: int,
) -> dict[str, float]:
    found: tuple[list[Run], ...] = ([], [])
    for number in range(rounds):
        for who in (0, 1) if number % 2 else (1, 0):
            found[who].append(run(*pair[who]))
    ours, peer = (
        Run(*(statistics.median(values) for values in zip(*runs, strict=True))) for runs in found
    )
    assert {each.num_files for runs in found for each in runs} == {ours.num_files}
    return {
        "files": ours.num_files,
        "delta_ops_s": round(ours.seconds, 2),
        "deltalake_s": round(peer.seconds, 2),
        "times_faster": round(peer.seconds / ours.seconds, 2),
        "delta_ops_cpu_s": round(ours.cpu_seconds, 2),
        "deltalake_cpu_s": round(peer.cpu_seconds, 2),
        "delta_ops_mb": ours.peak_mb,
        "deltalake_mb": peer.peak_mb,
        "memory": round(ours.peak_mb / peer.peak_mb, 2),
    }


def run(imports: str, work: str, address: str, options: dict[str, Any]) -> Run:
    program = CHILD.format(imports=textwrap.dedent(imports), work=textwrap.dedent(work))
    done = subprocess.run(
        [sys.executable, "-c", program, address, json.dumps(options)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Run(*json.loads(done.stdout))


def render_markdown(report: dict[str, dict[str, float]]) -> str:
    lines = [
        "| | delta_ops, s | deltalake, s | times faster | CPU seconds of each | delta_ops, MB | "
        "deltalake, MB | memory | "
        "requests of each | listings in flight |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, of in report.items():
        record_ratio(Ratio(f"vacuum: {name}", of["delta_ops_s"], of["deltalake_s"]))
        memory = of["delta_ops_mb"], of["deltalake_mb"]
        record_ratio(Ratio(f"vacuum: {name}", *memory, "MB", MEMORY_GOAL))
    lines += [
        f"| {name} | {of['delta_ops_s']} | {of['deltalake_s']} | {of['times_faster']} | "
        f"{of['delta_ops_cpu_s']}, {of['deltalake_cpu_s']} | "
        f"{of['delta_ops_mb']} | {of['deltalake_mb']} | {of['memory']} | "
        f"{_requests(of)} | {of.get('listings_in_flight', '')} |"
        for name, of in report.items()
    ]
    return "\n".join(lines)


def _requests(of: dict[str, float]) -> str:
    if "delta_ops_requests" not in of:
        return ""
    return f"{of['delta_ops_requests']}, {of['deltalake_requests']}"


if __name__ == "__main__":
    main()
