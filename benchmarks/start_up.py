"""A user's wait before the first row: imports, the code location, the demo.

    python benchmarks/start_up.py [--rounds 5] [--json]

New processes, median of the rounds. The peer of an import is `import deltalake`; the peer of the
code location is `import dagster`, its lower limit. The demo runs twice in an empty folder: first it
ingests the generated month, then it finds no work.
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

PROJECT = Path(__file__).resolve().parents[1]

IMPORTS = {
    "import delta_ops": "import delta_ops",
    "import delta_ops.arrow": "import delta_ops.arrow",
    "import deltalake (peer)": "import deltalake",
    "import pyarrow, fsspec (what delta_ops needs)": "import pyarrow.parquet, fsspec",
    "load the code location": "import definitions; definitions.defs.get_repository_def()",
    "import dagster (peer)": "import dagster",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    report = {**measure_imports(arguments.rounds), **measure_demo()}
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure_imports(rounds: int) -> dict[str, dict[str, float]]:
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    peaks: dict[str, float] = {}
    bare: list[float] = []
    for _ in range(rounds + 1):
        bare.append(run([sys.executable, "-c", ""])[0])
        for name, code in IMPORTS.items():
            took, peak = run([sys.executable, "-c", code])
            seconds[name].append(took)
            peaks[name] = peak
    interpreter = statistics.median(bare[1:])
    return {
        name: {
            "seconds": round(statistics.median(values[1:]) - interpreter, 3),
            "peak_mb": round(peaks[name]),
        }
        for name, values in seconds.items()
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
            took, peak = run([sys.executable, "-m", "examples.flights.demo"], environment)
            report[name] = {"seconds": round(took, 1), "peak_mb": round(peak)}
    return report


def run(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float]:
    """Seconds, and the peak memory of the process in MB (of the Python process, not of a JVM)."""
    code = (
        "import resource, subprocess, sys\n"
        "null = subprocess.DEVNULL\n"
        "done = subprocess.run(sys.argv[1:], stdout=null, stderr=null)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "sys.exit(done.returncode)\n"
    )
    started = time.perf_counter()
    shown = subprocess.run(
        [sys.executable, "-c", code, *command],
        check=True,
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **(environment or {})},
    )
    took = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    return took, int(shown.stdout) * unit / 1e6


def render_markdown(report: dict[str, dict[str, float]]) -> str:
    lines = ["| what | seconds | peak MB |", "|---|---|---|"]
    lines += [f"| {name} | {row['seconds']} | {row['peak_mb']} |" for name, row in report.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
