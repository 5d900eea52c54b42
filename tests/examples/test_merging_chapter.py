"""The examples of docs/merging.md, as printed, and the same merge with Spark rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from delta_ops.orchestration import DeltaIOManager
from delta_ops.spark.versions import frame_of_arrow
from tests.support.tables import rows_by_deltalake

PAGE = Path(__file__).resolve().parents[2] / "docs" / "merging.md"


def run_examples() -> dict[str, Any]:
    """The names that the examples define."""
    first, second = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = {"__name__": "__main__"}
    for example in (first, second):
        exec(compile(example, PAGE.name, "exec", dont_inherit=True), found)
    return found


def test_the_examples_merge_as_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_examples()
    for _ in range(2):
        dg.materialize([found["customers"], found["members"]], resources=found["resources"])
    rows = [
        [tuple(row.values()) for row in rows_by_deltalake(tmp_path / "lake" / name)]
        for name in ("customers", "members")
    ]
    assert sorted(rows[0]) == [(2, "Bert", 1), (3, "Cem", 1)]
    assert rows[1] == [(1, 2)]


@pytest.mark.spark
def test_rows_of_spark_are_merged_by_the_same_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = iter(
        [
            pa.table({"id": [1, 2], "visits": [1, 4], "is_closed": [False, False]}),
            pa.table({"id": [1, 2, 3], "visits": [2, 0, 5], "is_closed": [False, True, False]}),
        ]
    )

    @dg.asset(metadata=run_examples()["changes"])
    def people() -> DataFrame:
        return frame_of_arrow(spark, next(outputs))

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path / "lake"))}
    for _ in range(2):
        result = dg.materialize([people], resources=resources)
    assert sorted(tuple(row.values()) for row in rows_by_deltalake(tmp_path / "lake/people")) == [
        (1, 3),
        (3, 5),
    ]
    (event,) = result.get_asset_materialization_events()
    metadata = event.materialization.metadata
    figures = ("delta/rows_inserted", "delta/rows_updated", "delta/rows_deleted")
    assert [metadata[name].value for name in figures] == [1, 1, 1]
