"""The observation of a maintenance run: numbers for plots and the completed work only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.ddl import cluster_by
from delta_ops.orchestration import (
    MaintenancePolicy,
    TableRef,
    build_maintenance_job,
    maintenance_config,
)

SERIES = {
    "delta/version",
    "delta/num_files",
    "dagster/size_bytes",
    "delta/commits_since_checkpoint",
}
CARDS = {"delta/card", "delta/full_card"}


def observations(
    root: Path, instance: dg.DagsterInstance, commits: int, *configs: dict[str, Any]
) -> list[dg.AssetObservation]:
    """Observations of the job's runs, one after the other, for a table of small commits."""
    for _ in range(commits):
        da.write(root / "t", pa.table({"x": [1, 2, 3]}))
    job = build_maintenance_job([TableRef(asset_key=dg.AssetKey("t"), uri=str(root / "t"))])
    found = []
    for config in configs:
        result = job.execute_in_process(
            instance=instance,
            run_config=maintenance_config(["t"], **config),
            raise_on_error=False,
        )
        (event,) = [each for each in result.all_events if each.is_asset_observation]
        found.append(event.asset_observation_data.asset_observation)
    return found


def test_numbers_for_plots_are_in_every_observation(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found = observations(tmp_path, instance, 4, {}, {}, {"dry_run": True})
    for each in found:
        values = {name: each.metadata[name].value for name in SERIES}
        assert all(type(value) is int for value in values.values())
    assert [each.metadata["delta/num_files"].value for each in found] == [1, 1, 1]


def test_if_nothing_was_due_nothing_else_is_reported(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    (seen,) = observations(tmp_path, instance, 1, {})
    assert set(seen.metadata) == {*SERIES, "delta/card"}
    assert seen.description == "Nothing was due."


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("config", "description", "reported"),
    [
        pytest.param(
            {},
            r"Compacted 4 files \([\d.]+ KiB\) into 1 \(\d+ B\)\.",
            {
                "delta/operations": "optimize",
                "delta/compacted_files": 4,
                "delta/rewritten_into_files": 1,
                "delta/compacted_bytes": int,
                "delta/rewritten_into_bytes": int,
                "delta/bytes_to_be_freed_by_vacuum": int,
            },
            id="what was due",
        ),
        pytest.param(
            {"operations": ["checkpoint"]},
            r"Wrote a checkpoint\.",
            {"delta/operations": "checkpoint", "delta/checkpoints_written": 1},
            id="a requested operation that was not due",
        ),
        pytest.param(
            {"operations": ["vacuum", "clean_up_log"]},
            r"Nothing was left to do\.",
            {"delta/operations": "vacuum, clean_up_log"},
            id="what found nothing to do",
        ),
        pytest.param(
            {"dry_run": True},
            r"Dry run: would compact 4 files \([\d.]+ KiB\)\.",
            {
                "delta/operations": "optimize",
                "delta/dry_run": True,
                "delta/compaction_files_planned": 4,
                "delta/compaction_bytes_planned": int,
            },
            id="what would be done",
        ),
    ],
)
def test_results_are_reported_without_zeros(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    config: dict[str, Any],
    description: str,
    reported: dict[str, Any],
) -> None:
    (seen,) = observations(tmp_path, instance, 4, config)
    values = {n: v.value for n, v in seen.metadata.items() if n not in {*SERIES, *CARDS}}
    assert {n: int if reported.get(n) is int else v for n, v in values.items()} == reported
    assert re.fullmatch(description, str(seen.description))
    assert 0 not in [value for value in values.values() if type(value) is int]


def test_work_that_is_left_to_a_person_is_reported(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "t", pa.table({"x": [1]}))
    next((tmp_path / "t").glob("*.parquet")).unlink()
    (seen,) = observations(tmp_path, instance, 0, {"operations": ["repair"]})
    assert "data files are missing" in str(seen.metadata["delta/left"].value)
    assert "Needs a person: data files are missing (1)" in str(seen.description)


def test_the_full_card_is_there_where_a_run_did_something(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found = observations(
        tmp_path, instance, 4, {"dry_run": True}, {}, {}, {"operations": ["vacuum"]}
    )
    cards = [each.metadata.get("delta/full_card") for each in found]
    assert [card is not None for card in cards] == [True, True, False, False]
    assert isinstance(cards[1], dg.MarkdownMetadataValue)
    assert "version **4**" in str(cards[1].value)
    small = [str(each.metadata["delta/card"].value) for each in found]
    assert all(len(card) < 1000 and "![Files by size](<data:" in card for card in small)


def test_the_depth_of_a_clustered_table_is_reported_before_and_after(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    da.write(tmp_path / "t", pa.table({"x": [1, 9]}))
    cluster_by(tmp_path / "t", ["x"])
    for _ in range(4):
        da.write(tmp_path / "t", pa.table({"x": [1, 9]}))
    table = TableRef(asset_key=dg.AssetKey("t"), uri=str(tmp_path / "t"))
    job = build_maintenance_job([table], policy=MaintenancePolicy())
    assert job.execute_in_process(instance=instance).success
    (record,) = instance.fetch_observations(table.asset_key, limit=1).records
    observation = record.asset_observation
    assert observation is not None
    values = {name: value.value for name, value in observation.metadata.items()}
    assert values["delta/clustering_depth_before"] == 5
    assert values["delta/clustering_depth"] == 1
    assert (values["delta/compacted_files"], values["delta/rewritten_into_files"]) == (5, 1)
