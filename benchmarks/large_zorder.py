"""Z-order of a table far larger than its memory, under a limit of the kernel.

    python -m benchmarks.large_zorder [--rows 100000000] [--memory-mb 1024] [--minutes 30]
        [--folder DIR]

First a tenth of the rows is laid out, and then all of them, each by two columns in its own process
within a control group of this memory. deltalake does the same, with this many minutes. Files in the
kernel's cache count for the limit, too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.layout import CHILD, COLUMNS, WORK, make_table
from delta_ops import DeltaLog
from delta_ops.arrow import count_rows
from tests.support.memory_limits import memory_limit

TARGET_BYTES = 64 << 20
FILE_ROWS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    print(f"{arguments.memory_mb} MB of memory.\n")
    print("| rows | MB | delta_ops | rows a second | deltalake |")
    print("|---|---|---|---|---|")
    for num_rows in (arguments.rows // 10, arguments.rows):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            table = Path(folder) / "t"
            make_table(table, num_rows, max(1, num_rows // FILE_ROWS))
            megabytes = DeltaLog(table).snapshot().size_bytes >> 20
            ours, peer = (
                run(table, side, arguments.memory_mb << 20, arguments.minutes * 60, num_rows)
                for side in WORK["Z-order"]
            )
            rate = "" if isinstance(ours, str) else f"{num_rows / ours:,.0f}"
            print(
                f"| {num_rows:,} | {megabytes:,} | {text_of(ours)} | {rate} | {text_of(peer)} |",
                flush=True,
            )


def run(
    table: Path, side: tuple[str, str], limit: int, timeout_s: float, num_rows: int
) -> float | str:
    """Seconds, or the reason of the failure."""
    imports, work = side
    copy = table.with_name("copy")
    shutil.copytree(table, copy)
    child = CHILD.format(imports=imports, work=work)
    arguments = [str(copy), ",".join(COLUMNS), str(TARGET_BYTES)]
    with memory_limit(limit) as group:
        enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        command = ["/bin/sh", "-c", enter, "sh", sys.executable, "-c", child, *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            output = "late"
        process.wait()
        time.sleep(1)  # until the kernel has removed the process
    if output == "late":
        found: float | str = f"not done in {timeout_s / 60:g} minutes"
    elif process.returncode:
        found = f"killed ({process.returncode})"
    else:
        found = json.loads(output)[0]
        assert count_rows(copy) == num_rows
    shutil.rmtree(copy)
    return found


def text_of(result: float | str) -> str:
    return result if isinstance(result, str) else f"{result:,.1f} s"


if __name__ == "__main__":
    main()
