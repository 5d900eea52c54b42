"""Delete and merge by delta_ops.spark beside delta-spark: the same commands on the same rows.

    python benchmarks/spark_dml_beside_delta.py [--rows 10000000] [--files 100] [--rounds 3]
        [--only TEXT] [--folder DIR] [--json]

Sessions as in `spark_beside_delta`. Each case starts with a new table whose files do not overlap in
the key. A merge updates one row in a hundred, and inserts a tenth of that number after the table's
last key, or before its first key in the case where the keys are a tenth of all. The first round
warms up and does not count.
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

from benchmarks.ratios import Ratio, record_ratio
from benchmarks.spark_beside_delta import run_case, side

CASES = (
    "upsert: 5% of the files",
    "upsert: a tenth of the keys",
    "upsert: half of the files",
    "upsert: all files",
    "upsert: all files, by vectors",
    "insert-only merge: 1% new keys",
    "delete-only merge: 5% of the files",
    "delete: 0.1% of the rows",
    "delete: 0.1% of the rows, by vectors",
)
_PROGRAM = Path(__file__).with_name("spark_dml_beside_delta_program.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the cases that have this text in their names")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(
            Path(folder), arguments.rows, arguments.files, arguments.rounds, arguments.only
        )
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(folder: Path, rows: int, files: int, rounds: int, only: str) -> dict[str, Any]:
    cases = [name for name in CASES if only in name]
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in cases}
    arguments = (str(folder), str(rows), str(files))
    with (
        side("delta_ops", _PROGRAM, *arguments) as ours,
        side("delta", _PROGRAM, *arguments) as peer,
    ):
        for number in range(rounds + 1):
            for name in cases:
                for index in (0, 1) if number % 2 else (1, 0):
                    took = run_case((ours, peer)[index], name)
                    if number:
                        seconds[name][index].append(took)
    medians = {
        name: [round(statistics.median(each), 2) for each in pair] for name, pair in seconds.items()
    }
    return {"rows": rows, "files": files, "rounds": rounds, "cases": medians}


def render_markdown(report: dict[str, Any]) -> str:
    lines = [
        f"{report['rows']:,} rows in {report['files']} files, median of {report['rounds']} rounds "
        "after a warm-up round.",
        "",
        "| | delta_ops, s | delta-spark, s | ratio |",
        "|---|---|---|---|",
    ]
    for name, (ours, peer) in report["cases"].items():
        record_ratio(Ratio(f"spark_dml_beside_delta: {name}", ours, peer))
        lines.append(f"| {name} | {ours} | {peer} | {round(ours / peer, 2)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
