"""The planning of a layout run before it reads a row, beside the opening of the snapshot.

    python -m benchmarks.layout_plan [--files 1000000] [--rounds 3] [--folder DIR]

A clustered table of that many files in cubes of a thousand, in a checkpoint; and the same table
with 50 new files. Opening counts the files. A plan is the first step of a run; a dry run adds its
estimate, with the depth of the table afterwards. Each is done in its own process; times exclude
imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import pyarrow as pa

import delta_ops.arrow as da
from benchmarks.open_table import run
from delta_ops import DeltaLog
from delta_ops.ddl import cluster_by
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance.checkpoint.act import create_checkpoint
from delta_ops.protocol.actions import AddFile, CommitInfo

CUBE_FILES, NEW_FILES, COMMIT_FILES = 1000, 50, 50_000
IMPORTS = """
    from delta_ops import DeltaLog
    from delta_ops.maintenance import optimize
"""
WITHOUT_ESTIMATE = """
    sys.modules["delta_ops.maintenance.optimize.run"].estimate = lambda *_: None
"""
OPEN = "number = DeltaLog(sys.argv[1]).snapshot().num_files"
PLAN = "number = len(optimize(DeltaLog(sys.argv[1]), dry_run=True).plan.groups)"
WORK = ((IMPORTS, OPEN), (IMPORTS + WITHOUT_ESTIMATE, PLAN), (IMPORTS, PLAN))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    print("| clustered by | new files | groups | opening | plan | ratio | dry run | memory |")
    print("|---|---|---|---|---|---|---|---|")
    for columns in (["id", "b"], ["id"]):
        for num_new in (0, NEW_FILES):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                make_table(Path(folder), arguments.files, num_new, columns)
                opened, planned, tried = (
                    [run(imports, work, Path(folder)) for _ in range(arguments.rounds)]
                    for imports, work in WORK
                )
            opening_s, plan_s, dry_run_s = (
                statistics.median(s for s, *_ in of) for of in (opened, planned, tried)
            )
            print(
                f"| {', '.join(columns)} | {num_new} | {planned[0][2]} | {opening_s:.2f} s "
                f"| {plan_s:.2f} s | {plan_s / opening_s:.2f} | {dry_run_s:.2f} s "
                f"| {max(mb for _, mb, _ in planned):.0f} MB |",
                flush=True,
            )


def make_table(root: Path, num_files: int, num_new: int, columns: list[str]) -> None:
    """Write a log of files that do not exist; no step opens them."""
    da.write(root, pa.table({"id": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}))
    cluster_by(root, columns)
    log = DeltaLog(root)
    first = log.snapshot().version + 1
    for start in range(0, num_files, COMMIT_FILES):
        numbers = range(start, min(start + COMMIT_FILES, num_files))
        adds = [add_of(number, columns, number < num_new) for number in numbers]
        version = first + start // COMMIT_FILES
        create_commit(log.storage, log.log_directory, version, [CommitInfo(values={}), *adds])
    create_checkpoint(log)


def add_of(number: int, columns: list[str], is_new: bool) -> AddFile:
    bounds = {"id": number, "b": number % 1000}
    tags = {
        "ZCUBE_ID": f"cube {number // CUBE_FILES}",
        "ZCUBE_ZORDER_BY": json.dumps(columns, separators=(",", ":")),
        "ZCUBE_ZORDER_CURVE": "hilbert",
    }
    return AddFile(
        path=f"part-{number:05d}-c2f3-4b1a-9d35-{number:012x}-c000.zstd.parquet",
        partition_values={},
        size=(1 if is_new else 100) << 20,
        modification_time=number,
        data_change=False,
        tags=None if is_new else tags,
        clustering_provider=None if is_new else "liquid",
        stats=json.dumps(
            {
                "numRecords": 1000,
                "minValues": bounds,
                "maxValues": bounds,
                "nullCount": {"id": 0, "b": 0},
            }
        ),
    )


if __name__ == "__main__":
    main()
