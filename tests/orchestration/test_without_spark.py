"""Dagster without Spark: the extra does not install it, and it is imported on use only."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "py4j", "dagster_pyspark", "pandas", "polars", "s3fs")
PROGRAM = f"""
import sys
import dagster as dg
import pyarrow as pa

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(f"no module {{name}}", name=name)

sys.meta_path.insert(0, Refuse())
from delta_ops.orchestration import DeltaIOManager

@dg.asset
def numbers() -> pa.Table:
    return pa.table({{"id": [1, 2]}})

@dg.asset
def follower(numbers: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return numbers

@dg.asset
def sizes(follower) -> pa.Table:
    return pa.table({{"n": [follower.num_files]}})

io = DeltaIOManager(root=sys.argv[1])
assets = [numbers, follower, sizes]
print(dg.materialize(assets, resources={{"io_manager": io}}).success)
print(sorted(set({HEAVY}) & set(sys.modules)))
"""


def test_arrow_types_are_materialized_where_spark_cannot_be_imported(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert shown.stdout.splitlines() == ["True", "[]"], shown.stderr


def test_the_extra_for_dagster_installs_no_spark() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert extras["optional-dependencies"]["dagster"] == ["dagster>=1.10"]
