"""Look-ups and upserts of scattered keys in Spark, beside delta-spark.

    python -m benchmarks.spark_lookups_beside_delta [--files 1000] [--rows 5000] [--upserted 100]
        [--rounds 5] [--folder DIR]

All tables have the same rows; each value of the key is in one file, and the keys are scattered over
all files. `index`: our table with an inverted index. `plain`: the same table without one. `zorder`:
written by delta-spark, after `OPTIMIZE ... ZORDER BY (key)` into files of 1 MiB. `bloom`: written
by delta-spark with Parquet Bloom filters of the key. Sessions as in `spark_beside_delta`. CPU are
the seconds of a core of Python and the JVM. The sides take turns; the first round warms up and does
not count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import delta_ops.arrow as da
from benchmarks.inverted_index import make_table
from benchmarks.spark_beside_delta import side
from delta_ops import DeltaLog, col
from delta_ops.maintenance import create_index

_PROGRAM = Path(__file__).with_name("spark_lookups_beside_delta_program.py")
CASES = (
    ("delta_ops", "look-up index"),
    ("delta", "look-up plain"),
    ("delta", "look-up zorder"),
    ("delta", "look-up bloom"),
    ("delta_ops", "upsert index"),
    ("delta_ops", "upsert plain"),
    ("delta", "upsert plain"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=5000, help="rows of a file")
    parser.add_argument("--upserted", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        measure(Path(name), arguments)


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    total = arguments.files * arguments.rows
    make_table(folder / "plain", arguments.files, arguments.rows)
    shutil.copytree(folder / "plain", folder / "index", copy_function=os.link)
    create_index(folder / "index", "keys", "key")
    options = [str(folder), str(total), str(arguments.files), str(arguments.upserted)]
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with side("delta_ops", _PROGRAM, *options) as ours, side("delta", _PROGRAM, *options) as peer:
        for name in ("zorder", "bloom"):
            ask(peer, f"make {name}")
        for number in range(arguments.rounds + 1):
            for case in CASES if number % 2 else CASES[::-1]:
                took = ask(ours if case[0] == "delta_ops" else peer, case[1])
                if number:
                    found[case].append(took)
    print(f"{total:,} rows in {arguments.files:,} files, {arguments.upserted:,} keys of an upsert.")
    print(f"The Z-ordered table has {DeltaLog(folder / 'zorder').snapshot().num_files:,} files.")
    left = len(da.explain_scan(folder / "index", col("key") == total // 3))
    print(f"A look-up by the index opens {left:,} file.\n")
    print("| side | case | wall, ms | CPU, ms |\n|---|---|---|---|")
    for case in CASES:
        wall, cpu = (statistics.median(each) * 1000 for each in zip(*found[case], strict=True))
        print(f"| {case[0]} | {case[1]} | {wall:.0f} | {cpu:.0f} |", flush=True)


def ask(process: subprocess.Popen[str], case: str) -> tuple[float, float]:
    """Seconds of a case, and seconds of a core."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{case}\n")
    process.stdin.flush()
    wall, cpu = process.stdout.readline().split()
    return float(wall), float(cpu)


if __name__ == "__main__":
    main()
