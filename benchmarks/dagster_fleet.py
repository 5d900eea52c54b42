"""A fleet of tables in Dagster: load time of its location, and time of a tick and of its runs.

    python -m benchmarks.dagster_fleet [--tables 1000] [--s3] [--no-runs] [--folder DIR]

Each table is an asset of a location with `delta_ops_definitions`, checks included. One in ten needs
work: half of these have 12 small files, half a log of 12 commits without a checkpoint. Loading is
`dagster definitions validate`, from the start of its process to its end. A tick is the sensor's
evaluation, in this process; then Dagster's daemon runs with a new home on SQLite, until all
requested runs are done. Events are the events of all runs; the megabytes are the growth of the
home: a file for each run, and an index. With --s3 the tables are on moto's server on loopback, a
single Python process; its requests share the two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dagster as dg
import pyarrow as pa

import delta_ops.arrow as da
from benchmarks.vacuum import s3_server
from tests.support.servers.s3 import S3Server

SENSOR = "delta_maintenance_sensor"
LOCATION = """
import sys
sys.path.insert(0, {project!r})
import dagster as dg
from delta_ops.orchestration import DeltaLogResource, delta_ops_definitions

specs = [dg.AssetSpec(f"t{{number}}") for number in range({tables!r})]
lake = DeltaLogResource(root={lake!r}, storage_options={options!r})
defs = dg.Definitions.merge(dg.Definitions(assets=specs), delta_ops_definitions(lake, specs))
"""
SETTINGS = """
telemetry: {enabled: false}
concurrency: {runs: {max_concurrent_runs: 2}}
"""
WRITES = 12
PATIENCE_S = 7_200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--s3", action="store_true", help="on moto's S3 server")
    parser.add_argument("--no-runs", action="store_true", help="only load, and look once")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder)))
        make_templates(root)
        if arguments.s3:
            server = stack.enter_context(s3_server())
            lake, options = put_fleet(server, root, arguments.tables), server.storage_options
            # Literal secrets are rejected; the daemon's processes have them in the environment.
            os.environ.update(FLEET_KEY=options["key"], FLEET_SECRET=options["secret"])
            options |= {"key": {"env": "FLEET_KEY"}, "secret": {"env": "FLEET_SECRET"}}
        else:
            lake, options = copy_fleet(root, arguments.tables), {}
        figures = measure(
            root / "home", lake, arguments.tables, options, with_runs=not arguments.no_runs
        )
    place = "moto's S3 server" if arguments.s3 else "a disk"
    print(f"{arguments.tables:,} tables on {place}, {len(needy(arguments.tables)):,} in need:\n")
    print("| | |\n|---|---|")
    for name, value in figures.items():
        print(f"| {name} | {value:,} |")


def needy(tables: int) -> dict[int, str]:
    """The tables that need work, with the name of their template."""
    numbers = range(0, tables, 10)
    return {number: ("files", "log")[place % 2] for place, number in enumerate(numbers)}


def make_templates(root: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]})
    da.write(root / "fine", rows)
    seldom, often = ({"delta.checkpointInterval": interval} for interval in ("100", "10"))
    for _ in range(WRITES):
        da.write(root / "files", rows, configuration=seldom, hooks=())
        da.write(root / "log", rows, "overwrite", configuration=often, hooks=())


def copy_fleet(root: Path, tables: int) -> str:
    kinds = needy(tables)
    for number in range(tables):
        shutil.copytree(root / kinds.get(number, "fine"), root / "lake" / f"t{number}")
    return str(root / "lake")


def put_fleet(server: S3Server, root: Path, tables: int) -> str:
    bucket, kinds = server.new_bucket(), needy(tables)
    objects = {
        name: {str(p.relative_to(root / name)): p.read_bytes() for p in files}
        for name in ("fine", "files", "log")
        for files in [[p for p in (root / name).rglob("*") if p.is_file()]]
    }
    for number in range(tables):
        kind = objects[kinds.get(number, "fine")]
        server.put(bucket, {f"t{number}/{path}": data for path, data in kind.items()})
    return f"s3://{bucket}"


def measure(
    home: Path, lake: str, tables: int, options: dict[str, Any], *, with_runs: bool
) -> dict[str, float]:
    home.mkdir()
    (home / "dagster.yaml").write_text(SETTINGS)
    project = str(Path(__file__).resolve().parents[1])
    text = LOCATION.format(project=project, lake=lake, tables=tables, options=options)
    (home / "location.py").write_text(text)
    os.environ["DAGSTER_HOME"] = str(home)
    began = time.perf_counter()
    command(home, "dagster", "definitions", "validate")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "seconds until the location is loaded": round(time.perf_counter() - began, 1),
        "seconds of a core for that": round(used.ru_utime + used.ru_stime, 1),
    }
    defs = runpy.run_path(str(home / "location.py"))["defs"]
    with dg.DagsterInstance.from_config(str(home)) as instance:
        requests, reported = evaluate(defs, instance)
        figures |= reported
        if with_runs:
            figures |= run_all(home, instance, requests)
            _, reported = evaluate(defs, instance)
            figures |= {f"{name}, after that": value for name, value in reported.items()}
    return figures


def run_all(home: Path, instance: dg.DagsterInstance, requests: int) -> dict[str, float]:
    """Let the daemon complete the requested runs; return their figures."""
    empty_bytes = size_bytes(home)
    command(home, "dagster", "sensor", "start", SENSOR)
    began = time.perf_counter()
    with daemon(home):
        wait_for_runs(instance, requests)
        took = time.perf_counter() - began
    runs = list(instance.get_runs())
    return {
        "seconds until all runs are done": round(took, 1),
        "runs that failed": sum(run.status is not dg.DagsterRunStatus.SUCCESS for run in runs),
        "events": sum(len(instance.all_logs(run.run_id)) for run in runs),
        "megabytes of event log and runs": round((size_bytes(home) - empty_bytes) / 1e6, 1),
    }


def evaluate(defs: dg.Definitions, instance: dg.DagsterInstance) -> tuple[int, dict[str, float]]:
    """The number of a tick's requests, and its figures."""
    sensor = defs.get_repository_def().get_sensor_def(SENSOR)
    began, used = time.perf_counter(), time.process_time()
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance))
    requests = len(tick.run_requests or [])
    return requests, {
        "seconds of a tick": round(time.perf_counter() - began, 1),
        "seconds of a core for a tick": round(time.process_time() - used, 1),
        "runs that a tick requests": requests,
        "bytes of a cursor": len((tick.cursor or "").encode()),
    }


def wait_for_runs(instance: dg.DagsterInstance, expected: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        runs = instance.get_runs()
        if len(runs) >= expected and all(run.is_finished for run in runs):
            return
        time.sleep(0.5)
    raise SystemExit(f"{len(instance.get_runs())} of {expected} runs came in {PATIENCE_S} s")


@contextmanager
def daemon(home: Path) -> Iterator[None]:
    with (home / "daemon.log").open("w") as output:
        process = subprocess.Popen(
            arguments(home, "dagster-daemon", "run"),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def command(home: Path, *words: str) -> None:
    done = subprocess.run(arguments(home, *words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(json.dumps([*words, done.stdout[-2000:], done.stderr[-2000:]]))


def arguments(home: Path, program: str, *words: str) -> list[str]:
    return [str(Path(sys.executable).parent / program), *words, "-f", str(home / "location.py")]


def size_bytes(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*.db*") if p.is_file())


if __name__ == "__main__":
    main()
