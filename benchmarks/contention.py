"""Writers that contend for one table on a local disk, beside deltalake doing the same.

    python -m benchmarks.contention [--writers 8] [--commits 50] [--rounds 5] [--json]

Each writer is a process that appends a small table repeatedly; the time is from the common start
signal to the end of the last writer. Peer: `write_deltalake(table, rows, mode="append")` with its
own number of retries, which it counts in its commits. Both tables get a checkpoint every tenth
version. Ours makes every file durable before it continues; the peer leaves that to the operating
system.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.ratios import Ratio, record_ratio

INTERVAL = {"delta.checkpointInterval": "10"}
ROWS = 100
CHILD = """
import json, sys, time
import pyarrow as pa
{imports}
table, commits = sys.argv[1], int(sys.argv[2])
rows = pa.table({{"id": range({rows}), "x": [0.5] * {rows}}})
print("ready", flush=True)
sys.stdin.readline()
seconds, retries = [], 0
for _ in range(commits):
    started = time.perf_counter()
    {write}
    seconds.append(time.perf_counter() - started)
print(json.dumps([seconds, retries]))
"""
OURS = (
    "import delta_ops.arrow as da\nfrom delta_ops.arrow import write",
    "retries += da.write(table, rows).attempts - 1",
)
PEER = (
    "from deltalake import CommitProperties, write_deltalake\n"
    "properties = CommitProperties(max_commit_retries=100_000)",
    'write_deltalake(table, rows, mode="append", commit_properties=properties)',
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--commits", type=int, default=50, help="of each writer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    pair = [("delta_ops", OURS), ("deltalake", PEER)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name, _ in pair}
    for number in range(arguments.rounds):
        for name, (imports, write) in pair if number % 2 else reversed(pair):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                table = Path(folder) / "t"
                program = CHILD.format(imports=imports, write=write, rows=ROWS)
                found[name].append(
                    measure(name, table, program, arguments.writers, arguments.commits)
                )
    report = {
        name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for name, rounds in found.items()
    }
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(name: str, table: Path, program: str, writers: int, commits: int) -> dict[str, float]:
    create(name, table)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(table), str(commits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(writers)
    ]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    started = time.perf_counter()
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    took = time.perf_counter() - started
    check(table, writers * commits)
    each = [json.loads(output) for output in outputs]
    retries = sum(retries for _, retries in each) or retries_in_log(table)
    seconds = sorted(second for of_one, _ in each for second in of_one)
    return {
        "commits_per_s": len(seconds) / took,
        "median_ms": 1000 * statistics.median(seconds),
        "p99_ms": 1000 * seconds[len(seconds) * 99 // 100],
        "worst_ms": 1000 * seconds[-1],
        "retries": retries,
    }


def create(name: str, table: Path) -> None:
    from deltalake import DeltaTable

    import delta_ops.arrow as da

    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    if name == "delta_ops":
        da.write(table, schema.empty_table(), configuration=INTERVAL)
    else:
        DeltaTable.create(str(table), schema, configuration=INTERVAL)


def check(table: Path, commits: int) -> None:
    """Assert that every commit exists, with all its rows."""
    from delta_ops import DeltaLog

    snapshot = DeltaLog(table).snapshot()
    assert (snapshot.version, snapshot.num_files) == (commits, commits)


def retries_in_log(table: Path) -> int:
    from delta_ops import DeltaLog

    metrics = [entry.operation_metrics for entry in DeltaLog(table).history()]
    return sum(int(of_one.get("num_retries", 0)) for of_one in metrics)


def render_markdown(report: dict[str, dict[str, float]]) -> str:
    lines = [
        "| | commits a second | median, ms | 99 of 100 within, ms | worst, ms | races lost |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {of['commits_per_s']:.1f} | {of['median_ms']:.0f} | {of['p99_ms']:.0f} | "
        f"{of['worst_ms']:.0f} | {of['retries']:.0f} |"
        for name, of in report.items()
    ]
    ours_ms, peer_ms = (1000 / report[who]["commits_per_s"] for who in ("delta_ops", "deltalake"))
    record_ratio(Ratio("contention: a commit", ours_ms, peer_ms, "ms"))
    ratio = report["delta_ops"]["commits_per_s"] / report["deltalake"]["commits_per_s"]
    lines.append(f"\ndelta_ops commits {ratio:.1f} times as often.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
