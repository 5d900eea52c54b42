"""Indexes and scan caches in cards, findings and observations of maintenance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.maintenance import (
    HealthThresholds,
    assess,
    create_index,
    create_scan_cache,
    health,
)
from delta_ops.maintenance.indexes.act import IndexInfo
from delta_ops.orchestration import (
    TableRef,
    build_maintenance_job,
    maintenance_config,
    table_card,
)


@pytest.fixture
def table(tmp_path: Path) -> TableRef:
    root = tmp_path / "t"
    da.write(root, pa.table({"id": [1, 2, 3, 4]}))
    create_index(root, "by_id", "id")
    create_scan_cache(root)
    da.write(root, pa.table({"id": [5]}))
    return TableRef(asset_key=dg.AssetKey("t"), uri=str(root))


def test_a_card_lists_the_indexes_and_the_scan_cache(table: TableRef) -> None:
    card = table_card(table.uri)
    assert "scan cache of version 0" in card
    (line,) = [line for line in card.splitlines() if line.startswith("| `by_id`")]
    assert line.startswith("| `by_id` | id | 50% | 50.00% | 1 | ")


def test_an_index_whose_values_are_in_most_files_is_reported(table: TableRef) -> None:
    figures = health(table.uri).figures
    index = IndexInfo(
        name="by_day",
        column="day",
        num_files=100,
        covered_files=100,
        num_runs=1,
        num_entries=900,
        files_per_value=90.0,
        size_bytes=1,
    )
    few = replace(index, name="by_id", files_per_value=2.0)

    def found(*indexes: IndexInfo, limit: float = 0.5) -> tuple[float, str, str]:
        findings = assess(
            replace(figures, indexes=indexes), HealthThresholds(index_selectivity=limit)
        )
        (finding,) = [each for each in findings if each.measure == "index_selectivity"]
        assert isinstance(finding.value, float)
        return finding.value, finding.verdict, finding.advice.partition(":")[0]

    assert found(few, index) == (0.9, "look", "drop by_day")
    assert found(few) == (0.02, "ok", "")
    assert found(few, limit=0.01) == (0.02, "look", "drop by_id")
    assert found(replace(index, num_files=99)) == (0.0, "ok", "")
    assert found() == (0.0, "ok", "")


@pytest.mark.full
def test_a_refresh_reports_coverage_and_selectivity(
    table: TableRef, instance: dg.DagsterInstance
) -> None:
    job = build_maintenance_job([table])
    values = []
    for dry_run in (True, False):
        config = maintenance_config(["t"], operations=["refresh_indexes"], dry_run=dry_run)
        assert job.execute_in_process(instance=instance, run_config=config).success
        (record,) = instance.fetch_observations(table.asset_key, limit=1).records
        assert record.asset_observation is not None
        values.append({n: v.value for n, v in record.asset_observation.metadata.items()})
    planned, done = values
    assert planned["delta/index_files_planned"] == 1
    assert planned["delta/index_coverage/by_id"] == 0.5
    assert done["delta/indexed_files"] == 1
    assert done["delta/index_coverage/by_id"] == 1.0
    assert "delta/index_selectivity/by_id" in done
