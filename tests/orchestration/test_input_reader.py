"""Inputs by partition, lazy inputs, and the choice of the version that an input reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.io_manager.frames import scan_table
from delta_ops.versioning import create_branch, create_tag, open_branch

COLORS = dg.StaticPartitionsDefinition(["red", "blue", "green"])


@dg.asset(partitions_def=COLORS, metadata={"partition_expr": "color"})
def paints(context: dg.AssetExecutionContext) -> pa.Table:
    return pa.table({"color": [context.partition_key], "n": [len(context.partition_key)]})


@dg.asset
def numbers() -> pa.Table:
    return pa.table({"n": [1]})


def manager(root: Path, **fields: Any) -> dict[str, DeltaIOManager]:
    return {"io_manager": DeltaIOManager(root=str(root), **fields)}


def read(
    root: Path,
    instance: dg.DagsterInstance,
    upstream: dg.AssetsDefinition,
    annotation: Any,
    *,
    of_input: Mapping[str, Any] | None = None,
    of_asset: Mapping[str, Any] | None = None,
    of_run: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """The value that an asset with one input gets."""
    got: list[Any] = []

    def reader(up: Any) -> None:
        got.append(up)

    reader.__annotations__ = {"up": annotation, "return": None}
    ins = {"up": dg.AssetIn(upstream.key, metadata=of_input)}
    asset = dg.asset(ins=ins, metadata=of_asset, name="reader")(reader)
    dg.materialize(
        [upstream.to_source_asset(), asset],
        resources=manager(root, **settings),
        instance=instance,
        tags=of_run,
    )
    return got[0]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("kind", [pa.Table, pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_a_dictionary_has_the_rows_of_each_partition(
    tmp_path: Path, instance: dg.DagsterInstance, kind: type
) -> None:
    for key in ("red", "blue"):
        dg.materialize([paints], partition_key=key, resources=manager(tmp_path), instance=instance)
    found = read(tmp_path, instance, paints, dict[str, kind])  # type: ignore[valid-type]
    assert {type(each) for each in found.values()} == {kind}
    frames = {
        key: pl.DataFrame(each.collect() if kind is pl.LazyFrame else each)
        for key, each in found.items()
    }
    assert {key: frame["n"].to_list() for key, frame in frames.items()} == {
        "red": [3],
        "blue": [4],
        "green": [],
    }


def test_a_dictionary_of_optional_values_leaves_out_partitions_without_files(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    dg.materialize([paints], partition_key="red", resources=manager(tmp_path), instance=instance)
    found = read(tmp_path, instance, paints, dict[str, pa.Table | None])
    assert set(found) == {"red"}


def test_an_optional_dictionary_is_none_before_there_is_a_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    annotation = dict[str, pa.Table] | None
    assert read(tmp_path, instance, paints, annotation) is None
    dg.materialize([paints], partition_key="red", resources=manager(tmp_path), instance=instance)
    assert set(read(tmp_path, instance, paints, annotation)) == {"red", "blue", "green"}


def test_an_input_by_partitions_without_a_table_names_the_annotation(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(TableNotFoundError, match=r"with Optional\[dict\[str, Table\]\] to take"):
        read(tmp_path, instance, paints, dict[str, pa.Table])


def test_a_dictionary_has_only_the_partitions_that_are_mapped_to_the_reader(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got = []

    @dg.asset(partitions_def=COLORS)
    def mixed(paints: dict[str, pa.Table]) -> None:
        got.append(paints)

    dg.materialize(
        [paints, mixed], partition_key="red", resources=manager(tmp_path), instance=instance
    )
    assert list(got[0]) == ["red"]


@pytest.mark.parametrize(
    ("upstream", "annotation", "says"),
    [
        pytest.param(numbers, dict[str, pa.Table], "annotate it with Table", id="no partitions"),
        pytest.param(paints, dict, r"choose .* dict\[str, \.\.\.\]", id="no type"),
    ],
)
def test_a_dictionary_that_cannot_be_read_is_rejected(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    upstream: dg.AssetsDefinition,
    annotation: Any,
    says: str,
) -> None:
    key = None if upstream is numbers else "red"
    dg.materialize([upstream], partition_key=key, resources=manager(tmp_path), instance=instance)
    with pytest.raises(InvalidRequestError, match=says):
        read(tmp_path, instance, upstream, annotation)


def test_a_lazy_frame_reads_only_what_a_query_needs(tmp_path: Path) -> None:
    log = DeltaLog(f"{tmp_path}/t")
    rows = pa.table({"a b": [1, 2, 3], "c": ["x", "y", "z"]})
    mapped = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    da.write(begin(log), rows, configuration=mapped)
    da.write(begin(log), rows, mode="append")
    da.delete(log, "c = 'y'")
    frame = scan_table(log.snapshot(), None, None)
    assert frame.collect_schema() == pl.Schema({"a b": pl.Int64, "c": pl.String})
    assert frame.select("a b").collect()["a b"].to_list() == [1, 3, 1, 3]
    assert frame.filter(pl.col("c") == "z").select("a b").collect().rows() == [(3,), (3,)]
    assert frame.select(pl.len()).collect().item() == 4
    assert frame.slice(1, 2).collect()["c"].to_list() == ["z", "x"]
    assert frame.filter(pl.col("c") == "x").head(1).collect().rows() == [(1, "x")]
    for add in log.snapshot().add_files():
        Path(log.uri, add.path).unlink()
    assert scan_table(log.snapshot(), None, None).collect_schema().names() == ["a b", "c"]


def add_outside(root: Path) -> None:
    """Commit a row that Dagster has no event for."""
    da.write(begin(DeltaLog(f"{root}/numbers")), pa.table({"n": [2]}), mode="append")


LATEST = {"delta/read": "latest"}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("places", "rows"),
    [
        pytest.param({}, [1], id="materialized is the default"),
        pytest.param({"of_input": LATEST}, [1, 2], id="of the input"),
        pytest.param({"of_asset": LATEST}, [1, 2], id="of the asset that reads"),
        pytest.param({"metadata": LATEST}, [1, 2], id="of the IO manager"),
        pytest.param({"of_run": {"delta_ops/read": "latest"}}, [1, 2], id="of the run"),
        pytest.param(
            {"of_input": {"delta/read": "materialized"}, "of_asset": LATEST},
            [1],
            id="the input before the asset",
        ),
        pytest.param(
            {"of_input": LATEST, "of_run": {"delta_ops/read": "materialized"}},
            [1],
            id="the run before the input",
        ),
        pytest.param({"of_input": {"delta/read": 1}}, [1, 2], id="a version"),
        pytest.param({"of_input": {"delta/read": 0}, "metadata": LATEST}, [1], id="an old version"),
        pytest.param({"of_input": {"delta/read": "tag:first"}}, [1], id="a tag"),
        pytest.param({"of_run": {"delta_ops/read": "tag:first"}}, [1], id="a tag, of the run"),
        pytest.param({"of_input": {"delta/read": "branch:audit"}}, [1, 7], id="a branch"),
        pytest.param(
            {"of_run": {"delta_ops/read": "branch:audit"}}, [1, 7], id="a branch, of the run"
        ),
    ],
)
def test_the_nearest_setting_chooses_the_version(
    tmp_path: Path, instance: dg.DagsterInstance, places: Mapping[str, Any], rows: list[int]
) -> None:
    dg.materialize([numbers], resources=manager(tmp_path), instance=instance)
    create_tag(tmp_path / "numbers", "first")
    create_branch(tmp_path / "numbers", "audit")
    da.write(open_branch(tmp_path / "numbers", "audit"), pa.table({"n": [7]}))
    add_outside(tmp_path)
    found = read(tmp_path, instance, numbers, pa.Table, **places)
    assert sorted(found["n"].to_pylist()) == rows


def test_the_upstream_may_say_that_its_readers_read_the_latest_version(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(name="numbers", metadata=LATEST)
    def shared() -> pa.Table:
        return pa.table({"n": [1]})

    dg.materialize([shared], resources=manager(tmp_path), instance=instance)
    add_outside(tmp_path)
    assert len(read(tmp_path, instance, shared, pa.Table)) == 2


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("places", "error", "says"),
    [
        ({"of_input": {"delta/read": "newest"}}, InvalidRequestError, 'give "materialized"'),
        ({"of_input": {"delta/read": -1}}, InvalidRequestError, 'give "materialized"'),
        (
            {"of_run": {"delta_ops/read": "1"}},
            InvalidRequestError,
            "choose materialized, latest, or a tag or branch",
        ),
        ({"of_run": {"delta_ops/raed": "latest"}}, InvalidRequestError, "'delta_ops/raed'"),
        ({"of_input": {"delta/read": 9}}, VersionNotFoundError, "version 9"),
        (
            {"of_input": {"delta/read": "tag:x"}},
            VersionNotFoundError,
            "tag x: there is no such tag",
        ),
    ],
)
def test_a_version_that_cannot_be_read_is_rejected(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    places: Mapping[str, Any],
    error: type[Exception],
    says: str,
) -> None:
    dg.materialize([numbers], resources=manager(tmp_path), instance=instance)
    with pytest.raises(error, match=says):
        read(tmp_path, instance, numbers, pa.Table, **places)


def test_an_output_cannot_have_the_setting_of_inputs(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def rows() -> dg.Output[pa.Table]:
        return dg.Output(pa.table({"n": [1]}), metadata=LATEST)

    with pytest.raises(InvalidRequestError, match=r"the Output of asset rows have delta.read"):
        dg.materialize([rows], resources=manager(tmp_path), instance=instance)


def test_the_first_run_of_an_asset_that_reads_itself_names_the_annotation(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(
        partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
        metadata={"partition_expr": "day"},
        ins={
            "total": dg.AssetIn(
                partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
            )
        },
    )
    def total(total: pa.Table) -> pa.Table:
        return total

    with pytest.raises(TableNotFoundError, match=r"annotate the input with Optional\[Table\]"):
        dg.materialize(
            [total], partition_key="2026-01-02", resources=manager(tmp_path), instance=instance
        )


def test_other_metadata_of_the_asset_that_reads_do_not_count(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    dg.materialize([numbers], resources=manager(tmp_path), instance=instance)

    @dg.asset(io_manager_key="other", metadata={"delta/mode": "of another IO manager"})
    def reader(numbers: pa.Table) -> int:
        return len(numbers)

    resources = {**manager(tmp_path), "other": dg.mem_io_manager}
    done = dg.materialize([numbers, reader], resources=resources, instance=instance)
    assert done.output_for_node("reader") == 1
