"""Precedence of output settings: the Output, then the asset, then the IO manager."""

import json
import logging
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.io_manager.output_settings import settings_from
from delta_ops.orchestration.metadata import definition_metadata
from tests.support.tables import rows_by_deltalake

DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-02-01")
OUTPUT, ADDED, ASSET = "the Output", "what the asset adds", "the asset"
MANAGER = "the IO manager"


def write(
    lake: Path,
    instance: dg.DagsterInstance,
    rows: pa.Table,
    metadata: dict[str, dict[str, Any]],
    **partitions: Any,
) -> DeltaLog:
    """The table of an asset that is materialized once with metadata in these places."""

    @dg.asset(metadata=metadata.get(ASSET), partitions_def=partitions.get("partitions_def"))
    def t(context: dg.AssetExecutionContext) -> dg.Output[pa.Table]:
        context.add_asset_metadata(metadata.get(ADDED, {}))
        return dg.Output(rows, metadata=metadata.get(OUTPUT))

    # Dagster's config takes no null.
    defaults = {k: v for k, v in metadata.get(MANAGER, {}).items() if v is not None}
    io_manager = DeltaIOManager(root=str(lake), metadata=defaults)
    defs = dg.Definitions(assets=[t], resources={"io_manager": io_manager})
    job = defs.resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=instance, partition_key=partitions.get("partition_key"))
    return DeltaLog(lake / "t")


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("metadata", "num_rows"),
    [
        pytest.param(
            {OUTPUT: {"delta/mode": "append"}, ADDED: {"delta/mode": "overwrite"}},
            2,
            id="the Output overrides what is added",
        ),
        pytest.param(
            {ADDED: {"delta/mode": "append"}, ASSET: {"delta/mode": "overwrite"}},
            2,
            id="what is added overrides the asset",
        ),
        pytest.param(
            {ASSET: {"delta/mode": "overwrite"}, MANAGER: {"delta/mode": "append"}},
            1,
            id="the asset overrides the IO manager",
        ),
        pytest.param({MANAGER: {"delta/mode": "append"}}, 2, id="the IO manager says it"),
    ],
)
def test_the_mode_is_taken_from_the_nearest_place_that_says_it(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    metadata: dict[str, dict[str, Any]],
    num_rows: int,
) -> None:
    for number in range(2):
        write(tmp_path, instance, pa.table({"x": [number]}), metadata)
    assert len(rows_by_deltalake(tmp_path / "t")) == num_rows


def warnings_of_runs(instance: dg.DagsterInstance) -> list[str]:
    return [
        entry.user_message
        for run in instance.get_runs()
        for entry in instance.all_logs(run.run_id)
        if entry.level == logging.WARNING
    ]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_properties_that_an_existing_table_lacks_are_a_warning_of_the_run(
    tmp_path: Path, instance: dg.DagsterInstance, mode: str
) -> None:
    settings: dict[str, Any] = {"delta/mode": mode, "delta/configuration": {"a": "1"}}
    if mode == "merge":
        settings["delta/merge_keys"] = ["x"]
    for number in range(2):
        write(tmp_path, instance, pa.table({"x": [number]}), {ASSET: settings})
    assert warnings_of_runs(instance) == []
    changed = {**settings, "delta/configuration": {"a": "2"}}
    log = write(tmp_path, instance, pa.table({"x": [2]}), {ASSET: changed})
    (warning,) = warnings_of_runs(instance)
    assert warning.startswith(
        "asset t: the property a = '2' is for a new table, and this table has '1'"
    )
    assert log.snapshot().metadata.configuration == {"a": "1"}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("place", [OUTPUT, ADDED, ASSET, MANAGER])
def test_every_setting_is_heard_in_every_place(
    tmp_path: Path, instance: dg.DagsterInstance, place: str
) -> None:
    settings = {
        "partition_expr": "day",
        "delta/partition_by": ["day"],
        "delta/idempotency": "partition",
        "delta/configuration": {"delta.checkpointInterval": "7"},
        "delta/merge_schema": True,
        "delta/user_metadata": {"team": "green"},
    }
    day = {"partitions_def": DAYS, "partition_key": "2026-01-01"}
    first = pa.table({"day": ["2026-01-01"], "x": [1]})
    log = write(tmp_path, instance, first, {place: settings}, **day)
    write(tmp_path, instance, first.append_column("n", [["new"]]), {place: settings}, **day)
    table = log.snapshot()
    assert table.partition_columns == ("day",)
    assert table.metadata.configuration["delta.checkpointInterval"] == "7"
    assert list(table.transactions()) == ["dagster:partition:t[2026-01-01]"]
    assert rows_by_deltalake(tmp_path / "t") == [{"day": "2026-01-01", "x": 1, "n": "new"}]
    (commit,) = log.commits(0, 0)
    assert commit.info is not None
    recorded = json.loads(commit.info.values["userMetadata"])
    assert (recorded["team"], recorded["dagster/partition"]) == ("green", "2026-01-01")
    replaced: dict[str, Any] = {
        "delta/overwrite_schema": True,
        "partition_expr": None,
        "delta/partition_by": [],
    }
    log = write(tmp_path, instance, pa.table({"m": [1]}), {place: replaced})
    assert log.snapshot().schema.fields[0].name == "m"


def test_metadata_of_one_partition_count_in_a_run_of_one_partition(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def t(context: dg.AssetExecutionContext) -> pa.Table:
        added = {"delta/mode": "append", "mine": 1}
        context.add_asset_metadata(added, partition_key=context.partition_keys[0])
        return pa.table({"day": list(context.partition_keys)})

    defs = dg.Definitions(assets=[t], resources={"io_manager": DeltaIOManager(root=str(tmp_path))})
    job = defs.resolve_implicit_global_asset_job_def()
    for _ in range(2):
        job.execute_in_process(instance=instance, partition_key="2026-01-01")
    assert len(rows_by_deltalake(tmp_path / "t")) == 2
    both = ("2026-01-01", "2026-01-02")
    names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    with pytest.raises(InvalidRequestError, match="writes several partitions at once"):
        job.execute_in_process(instance=instance, tags=dict(zip(names, both, strict=True)))
    assert len(rows_by_deltalake(tmp_path / "t")) == 2


@pytest.mark.parametrize(
    ("place", "key", "nearest"),
    [
        (OUTPUT, "delta/mod", "delta/mode"),
        (ADDED, "delta/partitionBy", "delta/partition_by"),
        (ASSET, "delta/idempotence", "delta/idempotency"),
        (MANAGER, "delta/mod", "delta/mode"),
        (MANAGER, "mode", "delta/mode"),
        pytest.param(ASSET, "delta_ops/mode", "delta/mode", marks=pytest.mark.full),
        pytest.param(ASSET, "delta/properties", "delta/configuration", marks=pytest.mark.full),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_before_anything_is_written(
    tmp_path: Path, instance: dg.DagsterInstance, place: str, key: str, nearest: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        write(tmp_path, instance, pa.table({"x": [1]}), {place: {key: "append"}})
    assert f"the closest key is '{nearest}'" in str(refused.value)
    assert str(refused.value).startswith("the metadata ")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta/partition_by": 3}, "give a column or a list of columns"),
        ({"delta/configuration": {"delta.checkpointInterval": 7}}, "table properties to strings"),
        ({"partition_expr": 3}, "give an expression"),
        ({"delta/overwrite_schema": 1}, "give True or False"),
        ({"delta/mode": "upsert"}, "choose append, overwrite, merge"),
        ({"delta/user_metadata": {"dagster/job": "mine"}}, "give it another name"),
        ({"delta/idempotency": "partition", "delta/mode": "append"}, "is for overwrites"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        settings_from([(OUTPUT, metadata)], {}, dg.AssetKey("t"), has_partitions=False)
    assert message in str(refused.value)


def test_a_known_key_without_its_prefix_is_warned_of(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    write(tmp_path, instance, pa.table({"x": [1]}), {ASSET: {"mode": "append", "owner": "me"}})
    (run,) = instance.get_runs()
    lines = [
        each.user_message
        for each in instance.all_logs(run.run_id)
        if int(each.level) >= logging.WARNING
    ]
    assert lines == [
        "the metadata of asset t have the key 'mode', which has no effect; use 'delta/mode'"
    ]


def test_the_link_to_the_console_of_a_store_is_no_unknown_key() -> None:
    metadata = definition_metadata("t", "gs://lake/t")
    assert "delta/browse" in metadata
    settings = settings_from([(ASSET, metadata)], {}, dg.AssetKey("t"), has_partitions=False)
    assert settings.mode == "overwrite"


def test_a_value_is_refused_before_anything_is_written(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(InvalidRequestError, match="give True or False"):
        write(tmp_path, instance, pa.table({"x": [1]}), {OUTPUT: {"delta/overwrite_schema": 1}})
    assert not (tmp_path / "t").exists()


def test_a_table_that_is_laid_out_otherwise_is_not_written(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    rows = pa.table({"x": [1], "y": [1]})
    write(tmp_path, instance, rows, {OUTPUT: {"delta/partition_by": "x"}})
    with pytest.raises(InvalidRequestError, match="is partitioned by x, not by y"):
        write(tmp_path, instance, rows, {OUTPUT: {"delta/partition_by": "y"}})
    assert DeltaLog(tmp_path / "t").snapshot().version == 0


def test_a_field_that_the_io_manager_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="DeltaIOManager has no field mode"):
        DeltaIOManager(root="lake", mode="append")


def test_a_field_of_a_subclass_is_one_of_the_io_manager() -> None:
    class Mine(DeltaIOManager):
        team: str = "none"

    assert Mine(root="lake", team="green").team == "green"
