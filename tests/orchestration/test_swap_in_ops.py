"""Ops and resources of dagster-deltalake and dagster-delta, with our classes."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dagster._check import CheckError

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration.swap_in import (
    dagster_delta,
    dagster_deltalake,
    dagster_deltalake_pandas,
    dagster_polars,
)

MANAGERS: dict[str, Any] = {
    "arrow": dagster_delta.DeltaLakePyarrowIOManager,
    "pandas": dagster_deltalake_pandas.DeltaLakePandasIOManager,
    "polars": dagster_delta.DeltaLakePolarsIOManager,
}
KINDS: dict[str, Any] = {"arrow": pa.Table, "pandas": pd.DataFrame, "polars": pl.DataFrame}


def rows_of(log: DeltaLog) -> list[int]:
    rows: list[int] = da.to_table(log)["n"].to_pylist()
    return sorted(rows)


def job_of(root: Path, kind: str, metadata: dict[str, Any], **fields: Any) -> dg.JobDefinition:
    """A job of two ops, whose outputs name a schema."""
    frame = KINDS[kind]

    def add_one(rows: Any) -> Any:
        numbers = [n + 1 for n in pl.DataFrame(rows)["n"].to_list()]
        return pa.table({"n": numbers})

    add_one.__annotations__ = {"rows": frame}
    first = dg.op(name="first", out=dg.Out(metadata={"schema": "one", **metadata}))(
        lambda: pa.table({"n": [1, 2]})
    )
    second = dg.op(name="second", out=dg.Out(metadata={"schema": "two"}))(add_one)

    @dg.job(resource_defs={"io_manager": MANAGERS[kind](root_uri=str(root), **fields)})
    def numbers() -> None:
        second(first())

    return numbers


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("kind", KINDS)
def test_an_output_that_names_a_schema_is_a_table(
    tmp_path: Path, instance: dg.DagsterInstance, kind: str
) -> None:
    job = job_of(tmp_path, kind, {}, writer_engine=dagster_deltalake.WriterEngine.rust)
    for _ in range(2):
        job.execute_in_process(instance=instance)
    assert rows_of(DeltaLog(f"{tmp_path}/one/result")) == [1, 2]
    assert rows_of(DeltaLog(f"{tmp_path}/two/result")) == [2, 3]
    assert DeltaLog(f"{tmp_path}/one/result").snapshot().version == 1


def test_the_metadata_of_an_out_are_settings_of_its_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    metadata = {
        "mode": "append",
        "commit_properties": {"custom_metadata": {"userName": "Ann"}},
        "writer_properties": {"compression": "ZSTD"},
    }
    job = job_of(tmp_path, "arrow", metadata)
    for _ in range(2):
        job.execute_in_process(instance=instance)
    log = DeltaLog(f"{tmp_path}/one/result")
    assert rows_of(log) == [1, 1, 2, 2]
    assert rows_of(DeltaLog(f"{tmp_path}/two/result")) == [2, 2, 3, 3]
    (commit,) = log.commits(1, 1)
    assert commit.info is not None
    assert commit.info.values["userName"] == "Ann"
    assert {add.path.split(".")[-2] for add in log.snapshot().add_files()} == {"zstd"}


def test_an_op_chooses_its_mode_while_it_runs(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.op(out=dg.Out(metadata={"schema": "one", "mode": "append"}), config_schema=dict)
    def numbers(context) -> pa.Table:  # type: ignore[no-untyped-def]
        context.add_output_metadata(context.op_config)
        return pa.table({"n": [1]})

    @dg.job(resource_defs={"io_manager": MANAGERS["arrow"](root_uri=str(tmp_path))})
    def job() -> None:
        numbers()

    for config in ({}, {}, {"mode": "overwrite"}):
        run_config = {"ops": {"numbers": {"config": config}}}
        job.execute_in_process(instance=instance, run_config=run_config)
    log = DeltaLog(f"{tmp_path}/one/result")
    assert [len(da.to_table(log.snapshot(version))) for version in range(3)] == [1, 2, 1]


def test_an_output_with_a_name_is_a_table_of_the_default_schema(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.op(out={"leaves": dg.Out(), "count": dg.Out()})
    def count() -> tuple[pa.Table, int]:
        return pa.table({"n": [1]}), 1

    @dg.op
    def check(leaves: pa.Table, count: int) -> pa.Table:
        return leaves.slice(0, count)

    manager = MANAGERS["arrow"](root_uri=str(tmp_path), op_outputs="pickle")

    @dg.job(resource_defs={"io_manager": manager})
    def job() -> None:
        check(*count())

    job.execute_in_process(instance=instance)
    assert [path.parent.name for path in tmp_path.rglob("_delta_log")] == ["leaves"]
    assert rows_of(DeltaLog(f"{tmp_path}/public/leaves")) == [1]


def test_an_op_reads_the_version_that_the_op_before_it_wrote(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got = []

    @dg.op(out=dg.Out(metadata={"schema": "one"}))
    def numbers() -> pa.Table:
        return pa.table({"n": [1]})

    @dg.op(out=dg.Out(dg.Nothing), ins={"start": dg.In(dg.Nothing)})
    def somebody_else() -> None:
        da.write(DeltaLog(f"{tmp_path}/one/result"), pa.table({"n": [9]}), mode="append")

    @dg.op(ins={"start": dg.In(dg.Nothing)})
    def read(rows: pa.Table) -> None:
        got.extend(rows["n"].to_pylist())

    @dg.job(resource_defs={"io_manager": MANAGERS["arrow"](root_uri=str(tmp_path))})
    def job() -> None:
        rows = numbers()
        read(rows=rows, start=somebody_else(start=rows))

    job.execute_in_process(instance=instance)
    assert got == [1]


def test_an_op_reads_the_version_that_its_input_names(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got = []

    @dg.op(out={"rows": dg.Out(metadata={"mode": "append"})})
    def append() -> pa.Table:
        return pa.table({"n": [1]})

    @dg.op(ins={"rows": dg.In(metadata={"table_version": 0})})
    def count(rows: pa.Table) -> None:
        got.append(len(rows))

    @dg.job(resource_defs={"io_manager": MANAGERS["arrow"](root_uri=str(tmp_path))})
    def job() -> None:
        count(append())

    for _ in range(2):
        job.execute_in_process(instance=instance)
    assert got == [1, 1]
    assert rows_of(DeltaLog(f"{tmp_path}/public/rows")) == [1, 1]


def test_a_custom_merge_has_the_clauses_of_its_operations(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    operations = dagster_delta.MergeOperationsConfig(
        when_matched_update=[
            dagster_delta.WhenMatchedUpdate(updates={"n": "s.n + 1"}, predicate="s.n > 5")
        ],
        when_not_matched_insert_all=[dagster_delta.WhenNotMatchedInsertAll()],
    )
    manager = MANAGERS["arrow"](
        root_uri=str(tmp_path),
        mode=dagster_delta.WriteMode.merge,
        merge_config=dagster_delta.MergeConfig(
            merge_type=dagster_delta.MergeType.custom,
            predicate="s.id = t.id",
            source_alias="s",
            target_alias="t",
            merge_operations_config=operations,
        ),
    )
    ids = [1, 2]

    @dg.asset
    def merged() -> pa.Table:
        return pa.table({"id": ids, "n": [9, 9]})

    dg.materialize([merged], resources={"io_manager": manager}, instance=instance)
    ids = [2, 3]
    dg.materialize([merged], resources={"io_manager": manager}, instance=instance)
    assert rows_of(DeltaLog(f"{tmp_path}/public/merged")) == [9, 9, 10]


@pytest.mark.parametrize(("version", "rows"), [(None, [1, 2]), (0, [1])])
def test_the_table_resource_loads_a_version(
    tmp_path: Path, instance: dg.DagsterInstance, version: int | None, rows: list[int]
) -> None:
    url = f"{tmp_path}/t"
    da.write(DeltaLog(url), pa.table({"n": [1]}))
    da.write(DeltaLog(url), pa.table({"n": [2]}), mode="append")
    got: list[Any] = []

    @dg.asset
    def reader(table: dagster_deltalake.DeltaTableResource) -> None:
        loaded = table.load()
        got.extend([loaded.version(), loaded.to_pyarrow_table(), loaded.to_pandas(["n"])])
        assert loaded.to_pyarrow_dataset().schema == loaded.schema()
        assert table.storage_options.dict() == {}

    config = dagster_deltalake.LocalConfig()
    table = dagster_deltalake.DeltaTableResource(url=url, storage_options=config, version=version)
    dg.materialize([reader], resources={"table": table}, instance=instance)
    assert got[0] == (1 if version is None else version)
    assert sorted(got[1]["n"].to_pylist()) == sorted(got[2]["n"]) == rows


def test_events_have_the_names_of_the_other_integration(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def leaves() -> pl.DataFrame:
        return pl.DataFrame({"n": [1, 2]})

    manager = MANAGERS["polars"](root_uri=str(tmp_path))
    dg.materialize([leaves], resources={"io_manager": manager}, instance=instance)
    event = instance.get_latest_materialization_event(dg.AssetKey("leaves"))
    assert event is not None
    assert event.asset_materialization is not None
    said = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert said["table_uri"] == f"{tmp_path}/public/leaves"
    assert (said["table_version"], said["num_rows_in_source"]) == (0, 2)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("make", "config", "table"),
    [
        (MANAGERS["arrow"], {"root_uri": "ROOT", "storage_options": {"local": {}}}, "public/t"),
        (MANAGERS["arrow"], {"root_uri": "ROOT", "schema": "s", "mode": "append"}, "s/t"),
        (dagster_polars.PolarsDeltaIOManager, {"base_dir": "ROOT", "mode": "append"}, "t.delta"),
    ],
    ids=["a root", "a schema and a mode", "dagster-polars"],
)
def test_the_config_of_a_run_has_the_names_of_the_other_integration(
    tmp_path: Path, instance: dg.DagsterInstance, make: Any, config: Any, table: str
) -> None:
    @dg.asset
    def t() -> pa.Table:
        return pa.table({"n": [1]})

    given = {name: str(tmp_path) if value == "ROOT" else value for name, value in config.items()}
    for _ in range(2):
        dg.materialize(
            [t],
            resources={"io_manager": make.configure_at_launch()},
            instance=instance,
            run_config={"resources": {"io_manager": {"config": given}}},
        )
    assert len(rows_of(DeltaLog(f"{tmp_path}/{table}"))) == (2 if "mode" in config else 1)


def test_a_value_without_rows_is_rejected_as_by_the_other_integration(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.op
    def count() -> int:
        return 1

    @dg.job(resource_defs={"io_manager": MANAGERS["arrow"](root_uri=str(tmp_path))})
    def job() -> None:
        count()

    with pytest.raises(CheckError, match="does not have a handler for type '<class 'int'>'"):
        job.execute_in_process(instance=instance)


def test_ops_of_a_graph_asset_pass_rows_without_a_name(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.op
    def numbers() -> pa.Table:
        return pa.table({"n": [1]})

    @dg.op
    def more(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([rows, rows])

    @dg.graph_asset
    def leaves() -> Any:
        return more(more(numbers()))

    manager = MANAGERS["arrow"](root_uri=str(tmp_path))
    dg.materialize([leaves], resources={"io_manager": manager}, instance=instance)
    assert [path.parent.name for path in tmp_path.rglob("_delta_log")] == ["leaves"]
    assert rows_of(DeltaLog(f"{tmp_path}/public/leaves")) == [1, 1, 1, 1]
