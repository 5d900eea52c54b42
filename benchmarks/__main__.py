"""Run every benchmark, or the named benchmarks, and store the reports here: `make bench`."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

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
    "spark_streams_beside_delta",
    "spark_sql",
    "spark_vectors",
    "open_table",
    "replay_memory",
    "small_appends",
    "read_rows",
    "arrow_writes",
    "shapes",
    "ddl",
    "dml",
    "dml_on_s3",
    "small_file_changes",
    "contention",
    "changes_beside_compaction",
    "checkpoints",
    "scan_cache",
    "vacuum",
    "inverted_index",
    "layout",
    "layout_plan",
    "late_data",
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


def main() -> None:
    for name in sys.argv[1:] or BENCHMARKS:
        command = [sys.executable, f"benchmarks/{name}.py"]
        print(f"{name} ...", flush=True)
        shown = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parent,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        report = f"# {name}\n\n{machine()}\n\nMade by `make bench`.\n\n{shown.stdout}"
        (HERE / f"{name}.report.md").write_text(report)
        print(shown.stdout)


def machine() -> str:
    day = datetime.now(UTC).date().isoformat()
    return f"{day}, {platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
