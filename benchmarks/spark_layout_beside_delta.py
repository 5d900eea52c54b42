"""Compaction and Z-order by delta_ops.spark beside delta-spark, on copies of one table.

    python benchmarks/spark_layout_beside_delta.py [--rows 10000000] [--files 1000]
        [--target-mb 8] [--rounds 2] [--folder DIR] [--json]

Sessions as in `spark_beside_delta`; the first round warms up and does not count. Afterwards 100
filters, as in `layout`, are applied to the statistics of each table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.layout import filters, make_table
from benchmarks.ratios import Ratio, record_ratio
from benchmarks.spark_beside_delta import run_case, side
from delta_ops import DeltaLog

CASES = ("compaction", "Z-order")
_PROGRAM = Path(__file__).with_name("spark_layout_beside_delta_program.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--target-mb", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(
            Path(folder),
            arguments.rows,
            arguments.files,
            arguments.target_mb << 20,
            arguments.rounds,
        )
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, rows: int, files: int, target: int, rounds: int) -> dict[str, Any]:
    made = folder / "made"
    make_table(made, rows, files)
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in CASES}
    found: dict[str, list[list[float]]] = {}
    arguments = (str(folder), str(made), str(target))
    with (
        side("delta_ops", _PROGRAM, *arguments) as ours,
        side("delta", _PROGRAM, *arguments) as peer,
    ):
        for number in range(rounds + 1):
            for name in CASES:
                for index in (0, 1) if number % 2 else (1, 0):
                    took = run_case((ours, peer)[index], name)
                    if number:
                        seconds[name][index].append(took)
                    table = folder / f"{('delta_ops', 'delta')[index]}-table"
                    found.setdefault(name, [[], []])[index] = reading(table)
    return {
        "rows": rows,
        "files": files,
        "rounds": rounds,
        "cases": {
            name: {
                "seconds": [round(statistics.median(each), 2) for each in seconds[name]],
                "files": [each[0] for each in found[name]],
                "files read by 100 filters": [each[1] for each in found[name]],
            }
            for name in CASES
        },
    }


def reading(table: Path) -> list[float]:
    """The number of files, and the total number of files that the filters read."""
    snapshot = DeltaLog(table).snapshot()
    return [snapshot.num_files, sum(len(snapshot.add_files(each)) for each in filters())]


def render_markdown(report: dict[str, Any]) -> str:
    lines = [
        f"{report['rows']:,} rows in {report['files']} files, median of {report['rounds']} rounds "
        "after a warm-up round.",
    ]
    for name, figures in report["cases"].items():
        lines += ["", f"{name}:", "", "| | delta_ops | delta-spark | ratio |", "|---|---|---|---|"]
        for what, (ours, peer) in figures.items():
            record_ratio(Ratio(f"spark_layout_beside_delta: {name}, {what}", ours, peer, ""))
            lines.append(f"| {what} | {ours:,} | {peer:,} | {round(ours / peer, 2)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
