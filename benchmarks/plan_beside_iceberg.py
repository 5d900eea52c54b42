"""Plans by the scan cache beside `plan_files` of pyiceberg, on disk and on an S3 server.

    python -m benchmarks.plan_beside_iceberg [--iceberg-python PYTHON] [--files 100000] [--rounds 3]
        [--delay-ms 20] [--only {disk,s3}] [--folder DIR]

A plan finds the files of one of 1,000 partitions. Each plan runs in a process of its own, without
its imports, from the call that opens the table. The S3 server is moto's on loopback; a proxy before
it adds a delay to each request. The Iceberg table has ten snapshots, in a SQLite catalog on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.scan_cache import PARTITIONS, make_table
from benchmarks.vacuum import s3_server
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.scan_cache_write.write import write_scan_cache

PROGRAM = Path(__file__).with_name("iceberg_plan_program.py")
OURS = """
import json, os, sys, time
from delta_ops import DeltaLog, col
from delta_ops.log import plan_scan
from delta_ops.storage import open_storage
options = {}
if sys.argv[1].startswith('s3:'):
    import s3fs
    options = {
        'endpoint_url': os.environ['AWS_ENDPOINT_URL'],
        'key': os.environ['AWS_ACCESS_KEY_ID'],
        'secret': os.environ['AWS_SECRET_ACCESS_KEY'],
    }
begun, cpu = time.perf_counter(), time.process_time()
log = DeltaLog(sys.argv[1], storage=open_storage(sys.argv[1], options))
number = len(list(plan_scan(log.snapshot(), col('p') == 'p00003')))
print(json.dumps([time.perf_counter() - begun, time.process_time() - cpu, number]))
"""
Took = tuple[float, float, int]
"""Seconds, seconds of a core, and files."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iceberg-python", help="a Python with pyiceberg[sql-sqlite,s3fs]")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay-ms", type=int, default=20)
    parser.add_argument("--only", choices=("disk", "s3"), help="both if not given")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    print("| where | side | files | wall, ms | CPU, ms |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        log = make_table(folder / "ours", arguments.files, PARTITIONS, {})
        write_checkpoint(log.snapshot(), now_ms=0)
        write_scan_cache(log.snapshot())
        if arguments.only != "s3":
            measure_disk(arguments, folder)
        if arguments.only != "disk":
            measure_s3(arguments, folder)


def measure_disk(arguments: argparse.Namespace, folder: Path) -> None:
    warehouse = f"file://{folder}/warehouse"
    sides = {"delta_ops": [sys.executable, "-c", OURS, str(folder / "ours")]}
    if arguments.iceberg_python is not None:
        make_iceberg(arguments, folder / "disk.db", warehouse, {})
        sides["pyiceberg"] = theirs(arguments, folder / "disk.db", warehouse)
    report("disk", sides, arguments.rounds, {})


def measure_s3(arguments: argparse.Namespace, folder: Path) -> None:
    with s3_server() as server, delaying(server.url, arguments.delay_ms / 1000) as url:
        bucket = server.new_bucket()
        put_tree(server, bucket, folder / "ours")
        warehouse = f"s3://{bucket}/warehouse"
        sides = {"delta_ops": [sys.executable, "-c", OURS, f"s3://{bucket}/ours"]}
        if arguments.iceberg_python is not None:
            make_iceberg(arguments, folder / "s3.db", warehouse, server.environment)
            sides["pyiceberg"] = theirs(arguments, folder / "s3.db", warehouse)
        slow = {**server.environment, "AWS_ENDPOINT_URL": url}
        report(f"S3, {arguments.delay_ms} ms added", sides, arguments.rounds, slow)


def make_iceberg(
    arguments: argparse.Namespace, place: Path, warehouse: str, environment: Mapping[str, str]
) -> None:
    command = theirs(arguments, place, warehouse, "make")
    command += [str(arguments.files), str(PARTITIONS)]
    subprocess.run(command, check=True, env={**outer(), **environment})


def theirs(
    arguments: argparse.Namespace, place: Path, warehouse: str, verb: str = "plan"
) -> list[str]:
    return [arguments.iceberg_python, str(PROGRAM), verb, str(place), warehouse]


def report(
    where: str, sides: Mapping[str, list[str]], rounds: int, environment: Mapping[str, str]
) -> None:
    found: dict[str, list[Took]] = {side: [] for side in sides}
    for number in range(rounds):
        order = list(sides) if number % 2 else list(sides)[::-1]
        for side in order:
            found[side].append(run(sides[side], environment, is_ours=side == "delta_ops"))
    for side, runs in found.items():
        wall, cpu = (statistics.median(each[place] for each in runs) * 1000 for place in (0, 1))
        print(f"| {where} | {side} | {runs[0][2]:,} | {wall:.0f} | {cpu:.0f} |", flush=True)


def run(command: list[str], environment: Mapping[str, str], *, is_ours: bool) -> Took:
    base = dict(os.environ) if is_ours else outer()
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**base, **environment}
    )
    wall, cpu, number = json.loads(done.stdout)
    return wall, cpu, number


def outer() -> dict[str, str]:
    """The environment for another Python."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def put_tree(server: object, bucket: str, root: Path) -> None:
    files = [each for each in root.rglob("*") if each.is_file()]
    for each in files:
        path = each.relative_to(root.parent)
        server.put(bucket, {str(path): each.read_bytes()})  # type: ignore[attr-defined]


@contextmanager
def delaying(url: str, seconds: float) -> Iterator[str]:
    """A proxy before a server that passes each request on after some time."""
    target = urlsplit(url)
    assert target.hostname is not None
    assert target.port is not None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(
            target=_accept, args=(listening, (target.hostname, target.port), seconds), daemon=True
        ).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def _accept(listening: socket.socket, target: tuple[str, int], seconds: float) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:  # closed
            return
        server = socket.create_connection(target)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink, delay in ((client, server, seconds), (server, client, 0.0)):
            threading.Thread(target=_pass_on, args=(source, sink, delay), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, delay: float) -> None:
    try:
        while content := source.recv(1 << 16):
            time.sleep(delay)
            sink.sendall(content)
    except OSError:
        pass
    for each in (source, sink):
        each.close()


if __name__ == "__main__":
    main()
