"""How often late data causes rewrites of rows, and how many files hold a value.

A table is clustered by one column, along which it grows: 1,000 commits of 200 rows, laid out after
each tenth. A share of the rows is late, anywhere in the past or mostly by few commits. Bytes are
counted, and files by their statistics; no time is measured.
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import cluster_by
from delta_ops.maintenance import optimize
from delta_ops.maintenance.optimize.clustering import load_clustering

COMMITS, ROWS, SPAN, EVERY = 1_000, 200, 1_000, 10
TARGETS = (20_000, 80_000, 400_000)
LATE = {
    "none": (0.0, None),
    "5%, anywhere in the past": (0.05, None),
    "10%, anywhere in the past": (0.1, None),
    "20%, anywhere in the past": (0.2, None),
    "20%, by 20 commits on average": (0.2, 20),
    "all, anywhere in the past": (1.0, None),
}


def main() -> None:
    print(f"{COMMITS:,} commits; bytes written again to bytes appended, and the most files to a")
    print("value after a run, by the size that files should have. A run has some 30 kB.\n")
    print("| rows late |", " | ".join(f"{size // 1000} kB" for size in TARGETS), "|")
    print("|---|" + "---|" * len(TARGETS))
    for name, (share, commits_late) in LATE.items():
        cells = []
        for target_size in TARGETS:
            with TemporaryDirectory() as folder:
                ratio, depth = grow(Path(folder) / "t", share, commits_late, target_size)
            cells.append(f"{ratio:.2f}, {depth}")
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


def grow(root: Path, share: float, commits_late: int | None, target_size: int) -> tuple[float, int]:
    """Bytes rewritten per appended byte, and the most files with one value."""
    chance, log = random.Random(1), DeltaLog(root)
    appended = rewritten = deepest = 0
    for number in range(COMMITS):
        first = SPAN * number
        values = [
            first + new if chance.random() >= share else late_value(chance, first, commits_late)
            for new in chance.sample(range(SPAN), ROWS)
        ]
        rows = pa.table({"value": values, "note": [str(chance.random()) for _ in values]})
        settings = {"delta.targetFileSize": str(target_size)}
        da.write(root, rows, configuration=None if number else settings)
        (entry,) = log.history(1)
        appended += int(entry.operation_metrics["numOutputBytes"])
        if not number:
            cluster_by(log, ["value"])
        if (number + 1) % EVERY == 0:
            rewritten += optimize(log).bytes_added
            deepest = max(deepest, load_clustering(log.snapshot()).depth)
    return rewritten / appended, deepest


def late_value(chance: random.Random, first: int, commits_late: int | None) -> int:
    """A past value, from any commit or from a few commits before."""
    if commits_late is None:
        return chance.randrange(first + SPAN)
    return max(0, first - int(chance.expovariate(1 / (SPAN * commits_late))))


if __name__ == "__main__":
    main()
