"""A user's wait before the first row: imports, a command, the code location, the demo.

    python -m benchmarks.start_up [--rounds 5] [--no-demo] [--json]

New processes with compiled modules, median of the rounds. A public name loads on first access, so
imports are measured by what they are for. The peer of an import is `import deltalake`; the peer of
the code location, and of our Dagster integration, is `import dagster`, its lower limit. CPU seconds
are more exact while other programs run. The demo runs twice in an empty folder: first it ingests
the generated month, then it finds no work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

import delta_ops.arrow as da

PROJECT = Path(__file__).resolve().parents[1]

IMPORTS = {
    "import delta_ops": "import delta_ops",
    "to open tables": "from delta_ops import DeltaLog",
    "to read rows": "from delta_ops.arrow import to_table",
    "to write rows": "from delta_ops.arrow import write",
    "all names of delta_ops.arrow": "from delta_ops.arrow import *",
    "import deltalake (peer)": "import deltalake",
    "import pyarrow, fsspec (what delta_ops needs)": "import pyarrow.parquet, fsspec",
    "import delta_ops.orchestration": "import delta_ops.orchestration",
    "the I/O manager": "from delta_ops.orchestration import DeltaIOManager",
    "all names of delta_ops.orchestration": "from delta_ops.orchestration import *",
    "load the code location": "import definitions; definitions.defs.get_repository_def()",
    "import dagster (peer)": "import dagster",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-demo", action="store_true", help="only imports and the command")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    report = measure_imports(arguments.rounds)
    if not arguments.no_demo:
        report |= measure_demo()
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure_imports(rounds: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        da.write(folder, pa.table({"id": [1, 2, 3]}))
        commands = {name: [sys.executable, "-c", code] for name, code in IMPORTS.items()}
        commands["delta-ops show"] = [sys.executable, "-m", "delta_ops.cli", "show", folder]
        found: dict[str, list[Run]] = {name: [] for name in ("", *commands)}
        for _ in range(rounds + 1):
            found[""].append(run([sys.executable, "-c", ""]))
            for name, command in commands.items():
                found[name].append(run(command))
    # The first round compiles modules.
    middle = {
        name: Run(*map(statistics.median, zip(*runs[1:], strict=True)))
        for name, runs in found.items()
    }
    bare = middle.pop("")
    return {
        name: {
            "seconds": round(of.seconds - bare.seconds, 3),
            "cpu_seconds": round(of.cpu_seconds - bare.cpu_seconds, 3),
            "peak_mb": round(of.peak_mb),
        }
        for name, of in middle.items()
    }


def measure_demo() -> dict[str, dict[str, float]]:
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "DAGSTER_HOME": folder,
            "LAKE": str(Path(folder) / "lake"),
            "FLIGHTS": "",
        }
        for name in ("the demo, first run", "the demo, second run"):
            of = run([sys.executable, "-m", "examples.flights.demo"], environment)
            report[name] = {
                "seconds": round(of.seconds, 1),
                "cpu_seconds": round(of.cpu_seconds, 1),
                "peak_mb": round(of.peak_mb),
            }
    return report


class Run(NamedTuple):
    """Measures of one process."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    """The Python process alone; a JVM does not count."""


def run(command: list[str], environment: dict[str, str] | None = None) -> Run:
    code = (
        "import resource, subprocess, sys\n"
        "null = subprocess.DEVNULL\n"
        "done = subprocess.run(sys.argv[1:], stdout=null, stderr=null)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss)\n"
        "sys.exit(done.returncode)\n"
    )
    started = time.perf_counter()
    shown = subprocess.run(
        [sys.executable, "-c", code, *command],
        check=True,
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "PYTHONDONTWRITEBYTECODE": "",  # users have compiled modules
            **(environment or {}),
        },
    )
    took = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    cpu_seconds, peak = shown.stdout.split()
    return Run(took, float(cpu_seconds), int(peak) * unit / 1e6)


def render_markdown(report: dict[str, dict[str, float]]) -> str:
    lines = ["| what | seconds | CPU seconds | peak MB |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {row['seconds']} | {row['cpu_seconds']} | {row['peak_mb']} |"
        for name, row in report.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
