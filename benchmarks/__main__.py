"""Run every benchmark, or the named benchmarks, and store the reports here: `make bench`.

The last table has the ratios that the benchmarks recorded, worst first, and is stored as
`ratios.report.md` after a run of all of them.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.ratios import environment_of, ratio_table, recorded_ratios

HERE = Path(__file__).resolve().parent
BENCHMARKS = (
    "start_up",
    "optimisations",
    "spark_read_write",
    "spark_versions",
    "spark_appends",
    "spark_appends_s3",
    "spark_beside_delta",
    "spark_dml_beside_delta",
    "spark_layout_beside_delta",
    "spark_lookups_beside_delta",
    "spark_streams_beside_delta",
    "spark_sql",
    "spark_vectors",
    "open_table",
    "replay_memory",
    "small_appends",
    "read_rows",
    "arrow_writes",
    "shapes",
    "shape_grid",
    "ddl",
    "dml",
    "dml_on_s3",
    "small_file_changes",
    "contention",
    "changes_beside_compaction",
    "checkpoints",
    "scan_cache",
    "plan_beside_iceberg",
    "vacuum",
    "inverted_index",
    "layout",
    "layout_plan",
    "late_data",
    "late_rows",
    "ordered_scan",
    "large_zorder",
    "log_cleanup",
    "health",
    "dagster_fleet",
    "versioning",
    "write_audit_publish",
    "arrays",
    "large_tables",
)


PACKAGES = ("pyarrow", "deltalake", "pyspark")
"""Packages whose versions a report names."""


def main() -> None:
    names = sys.argv[1:] or BENCHMARKS
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ratios"
        for name in names:
            run(name, environment_of(place))
        ratios = recorded_ratios(place)
    below = sum(each.is_below_goal for each in ratios)
    shown = f"{ratio_table(ratios)}\n\n{below} of {len(ratios)} are below their goals."
    print(shown)
    if names is BENCHMARKS:
        store("ratios", shown)


def run(name: str, environment: Mapping[str, str]) -> None:
    command = [sys.executable, f"benchmarks/{name}.py"]
    print(f"{name} ...", flush=True)
    shown = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parent,
        env={**os.environ, "PYTHONPATH": str(HERE.parent), **environment},
    )
    store(name, shown.stdout)
    print(shown.stdout)


def store(name: str, shown: str) -> None:
    report = f"# {name}\n\n{machine()}\n\nMade by `make bench`.\n\n{shown}"
    (HERE / f"{name}.report.md").write_text(report)


def machine() -> str:
    """Describe when and where a benchmark ran."""
    day = datetime.now(UTC).date().isoformat()
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{day}, {platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, {versions}"
    )


if __name__ == "__main__":
    main()
