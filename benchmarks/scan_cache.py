"""Plans by the scan cache beside plans by our checkpoints, with JSON and with typed statistics.

    python benchmarks/scan_cache.py [--files 1000000] [--rounds 5] [--only TEXT] [--cache-only]
        [--folder DIR]

A plan finds the files of one of 1,000 partitions, and, as a second condition, the files that may
also hold a range of another column, for which statistics are read. Each round is a process of its
own: the time is from the call that opens the table to the files of the plan, without imports. Calls
and bytes are counted in another process, which reads as from a remote store. The small table has a
hundredth of the files in a hundredth of the partitions, so that a plan finds as many files. Peak
memory is the process's, with its imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import pyarrow as pa

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.protocol.actions import Action, AddFile, CommitInfo, Metadata, Protocol
from delta_ops.protocol.schema import schema_to_json
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

COMMITS = 10
PARTITIONS = 1000
SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("p", pa.string())]
)
TYPED = {
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "true",
}
CHECKPOINTS = {"checkpoint, JSON": {}, "checkpoint, typed": TYPED}
"""The tables without a scan cache, with their properties."""
CONDITIONS = {
    "a partition": "col('p') == 'p00003'",
    "a partition and a range": "(col('p') == 'p00003') & (col('id') < 4_000_000)",
}
CHILD = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
import json, time
from delta_ops import DeltaLog, col
from delta_ops.log import plan_scan
{before}
condition = eval(sys.argv[2])
wall, cpu = time.perf_counter(), time.process_time()
plan = plan_scan({log}.snapshot(), condition, columns=("path", "size", "partition_values"))
number = plan.files().num_rows
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
with open('/proc/self/status') as status:
    peak = next(line.split()[1] for line in status if line.startswith('VmHWM'))
by_cache = any(step.name == 'scan cache' for step in plan.steps)
print(json.dumps([wall, cpu, int(peak) // 1024, number, by_cache, {after}]))
"""
TIMED = {"before": "", "log": "DeltaLog(sys.argv[1])", "after": "0, 0"}
COUNTED = {
    "before": """
from delta_ops.storage import open_storage
class Counted:
    has_native_input = False
    calls = num_bytes = 0
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def read(self, path):
        content = self.inner.read(path)
        self.calls, self.num_bytes = self.calls + 1, self.num_bytes + len(content)
        return content
    def read_ranges(self, path, ranges):
        self.calls += 1
        self.num_bytes += sum(end - start for start, end in ranges)
        return self.inner.read_ranges(path, ranges)
    def list_from(self, directory, start):
        self.calls += 1
        return self.inner.list_from(directory, start)
storage = Counted(open_storage(sys.argv[1]))
""",
    "log": "DeltaLog(sys.argv[1], storage=storage)",
    "after": "storage.calls, storage.num_bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of a plan."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    num_files: int
    by_cache: bool
    calls: int
    num_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--only", default="", help="conditions whose name ends with this text")
    parser.add_argument("--cache-only", action="store_true", help="without plans by checkpoints")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        peers = {} if arguments.cache_only else CHECKPOINTS
        report = measure(Path(folder), arguments.files, arguments.rounds, arguments.only, peers)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(
    folder: Path, files: int, rounds: int, only: str, peers: dict[str, dict[str, str]]
) -> dict[str, dict[str, dict[str, float]]]:
    written: dict[str, dict[str, float]] = {}
    tables: dict[str, Path] = {}
    for name, properties in peers.items():
        tables[name] = folder / name.replace(", ", "_")
        log = make_table(tables[name], files, PARTITIONS, properties)
        written[name] = timed_write(lambda log=log: write_checkpoint(log.snapshot(), now_ms=0))
    tables["scan cache"] = folder / "cached"
    log = make_table(tables["scan cache"], files, PARTITIONS, {})
    write_checkpoint(log.snapshot(), now_ms=0)
    written["scan cache"] = timed_write(lambda: write_scan_cache(log.snapshot()))
    small = "scan cache, a hundredth of the files"
    tables[small] = folder / "small"
    log = make_table(tables[small], files // 100, PARTITIONS // 100, {})
    write_checkpoint(log.snapshot(), now_ms=0)
    write_scan_cache(log.snapshot())
    report = {"written": written}
    for title, condition in CONDITIONS.items():
        if not title.endswith(only):
            continue
        runs: dict[str, list[Plan]] = {name: [] for name in tables}
        for number in range(rounds):
            order = list(tables) if number % 2 else list(reversed(tables))
            for name in order:
                runs[name].append(run(TIMED, tables[name], condition))
        counted = {name: run(COUNTED, root, condition) for name, root in tables.items()}
        report[title] = {name: summary(runs[name], counted[name]) for name in tables}
    return report


def timed_write(write: object) -> dict[str, float]:
    wall, cpu = perf_counter(), process_time()
    done = write()  # type: ignore[operator]
    return {
        "wall_s": round(perf_counter() - wall, 2),
        "cpu_s": round(process_time() - cpu, 2),
        "bytes": done.size_bytes,
    }


def summary(runs: list[Plan], counted: Plan) -> dict[str, float]:
    return {
        "files": counted.num_files,
        "by_cache": counted.by_cache,
        "wall_s": round(statistics.median(each.wall_s for each in runs), 4),
        "cpu_s": round(statistics.median(each.cpu_s for each in runs), 4),
        "peak_mb": statistics.median(each.peak_mb for each in runs),
        "calls": counted.calls,
        "bytes": counted.num_bytes,
    }


def run(how: dict[str, str], root: Path, condition: str) -> Plan:
    program = CHILD.format(**how)
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), condition],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    wall, cpu, peak, number, by_cache, calls, num_bytes = json.loads(done.stdout)
    return Plan(
        wall_s=wall,
        cpu_s=cpu,
        peak_mb=peak,
        num_files=number,
        by_cache=by_cache,
        calls=calls,
        num_bytes=num_bytes,
    )


def make_table(root: Path, files: int, partitions: int, properties: dict[str, str]) -> DeltaLog:
    """A log without data: only statistics describe the rows of a file."""
    log = DeltaLog(root)
    for version in range(COMMITS):
        each = adds(version, files // COMMITS, partitions)
        create_commit(
            log.storage, log.log_directory, version, [*actions(version, properties), *each]
        )
    return log


def actions(version: int, properties: dict[str, str]) -> Iterator[Action]:
    yield CommitInfo(values={"timestamp": version, "operation": "WRITE"})
    if version == 0:
        yield Protocol(min_reader_version=1, min_writer_version=2)
        yield Metadata(
            id="00000000-0000-0000-0000-000000000000",
            schema_string=schema_to_json(schema_from_arrow(SCHEMA)),
            partition_columns=("p",),
            configuration=properties,
            created_time=0,
        )


def adds(version: int, files: int, partitions: int) -> Iterator[AddFile]:
    for number in range(files):
        low = (version * files + number) * 1000
        p = f"p{number % partitions:05d}"
        stats = {
            "numRecords": 1000,
            "minValues": {"id": low, "x": low / 7, "s": f"text {low % 97}"},
            "maxValues": {"id": low + 999, "x": low / 7 + 1, "s": f"text {low % 97}z"},
            "nullCount": {"id": 0, "x": 0, "s": 3},
        }
        yield AddFile(
            path=f"p={p}/part-{number:05d}-{version:08x}-c2f3-4b1a-9d35-{low:012x}-c000.snappy.parquet",
            size=123_456 + number,
            partition_values={"p": p},
            modification_time=1_767_000_000_000 + version * 1000,
            data_change=True,
            stats=json.dumps(stats, separators=(",", ":")),
        )


def render_markdown(report: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| written | wall, s | CPU, s | MB |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {of['wall_s']} | {of['cpu_s']} | {of['bytes'] / 1e6:.1f} |"
        for name, of in report["written"].items()
    ]
    for title in filter(report.__contains__, CONDITIONS):
        head = "files | wall, ms | CPU, ms | peak, MB | calls | MB read | times faster, CPU |"
        lines += ["", f"| {title} | {head}", "|---|" + "---|" * 7]
        cached = report[title]["scan cache"]["cpu_s"]
        lines += [
            f"| {name} | {of['files']:,} | {of['wall_s'] * 1e3:.0f} | {of['cpu_s'] * 1e3:.0f} | "
            f"{of['peak_mb']:.0f} | {of['calls']} | {of['bytes'] / 1e6:.2f} | "
            f"{of['cpu_s'] / cached:.1f} |"
            for name, of in report[title].items()
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
