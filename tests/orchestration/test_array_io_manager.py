"""Datasets as assets: partitions as regions, reruns, parallel runs and steps, rejected outputs."""

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray")

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core.indexing import LazilyIndexedArray

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore
from delta_ops.errors import ChunkConflictError, InvalidRequestError
from delta_ops.orchestration import DeltaArrayIOManager
from delta_ops.versioning import list_sessions
from tests.orchestration import array_jobs
from tests.orchestration.array_jobs import AFTER_WRITE, DAYS, IN_JOIN, IN_PART, dataset_of, hours
from tests.support.servers.s3 import S3Server

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.UnstableSpecificationWarning", "ignore:Parameter `backfill_policy`"
)

IN_PROCESS: dict[str, Any] = {"in_process": {}}
IN_PROCESSES: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 2,
        "start_method": {"forkserver": {"preload_modules": [array_jobs.__name__]}},
    }
}


def dataset_in(lake: Path | str, name: str) -> Any:
    return xarray.open_zarr(DeltaStore(f"{lake}/{name}"), consolidated=False).load()


def asset_of(
    make: Callable[[dg.AssetExecutionContext], Any],
    name: str = "air",
    metadata: Mapping[str, Any] | None = None,
    partitions_def: dg.PartitionsDefinition[Any] | None = DAYS,
    backfill_policy: dg.BackfillPolicy | None = None,
) -> dg.AssetsDefinition:
    """An asset whose output the function makes."""

    @dg.asset(
        name=name,
        partitions_def=partitions_def,
        metadata={"partition_expr": "time"} if metadata is None else metadata,
        backfill_policy=backfill_policy,
    )
    def made(context: dg.AssetExecutionContext) -> Any:
        return make(context)

    return made


def _given(dataset: Any, _: dg.AssetExecutionContext) -> Any:
    return dataset


def _scaled(factor: float, context: dg.AssetExecutionContext) -> Any:
    return dataset_of(context.partition_key) * factor


def day_asset() -> dg.AssetsDefinition:
    return asset_of(lambda context: dataset_of(context.partition_key))


def run(
    lake: Path | str,
    instance: dg.DagsterInstance,
    assets: list[Any],
    selection: Any = None,
    **options: Any,
) -> dg.ExecuteInProcessResult:
    resources = {"io_manager": DeltaArrayIOManager(root=str(lake))}
    return dg.materialize(
        assets, instance=instance, resources=resources, selection=selection, **options
    )


def event_of(result: dg.ExecuteInProcessResult, name: str = "air") -> dg.AssetMaterialization:
    (event,) = result.asset_materializations_for_node(name)
    return event


def test_a_partition_is_a_region_and_other_partitions_are_missing_values(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    air = day_asset()
    for day in ("2026-01-03", "2026-01-01"):
        event = event_of(run(tmp_path, instance, [air], partition_key=day))
    found = dataset_in(tmp_path, "air")
    assert found.sizes == {"time": 24 * 12, "lat": 3}
    for day in ("2026-01-01", "2026-01-03"):
        xarray.testing.assert_identical(found.sel(time=day), dataset_of(day))
    assert bool(np.isnan(found["air"].sel(time="2026-01-02")).all())
    assert (np.diff(found["time"].values) == np.timedelta64(1, "h")).all()
    metadata: dict[str, Any] = {key: each.value for key, each in event.metadata.items()}
    assert metadata["delta/version"] == 2
    assert metadata["delta/chunks_written"] == 1
    assert metadata["delta/bytes_written"] > 0
    assert event.tags["dagster/data_version"].endswith("@2")  # type: ignore[index]
    columns = {each.name: each for each in metadata["dagster/column_schema"].columns}
    assert (columns["air"].type, columns["air"].description) == ("float64 (time, lat)", "(K)")


@pytest.mark.full
def test_an_input_has_the_partitions_that_it_reads(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    seen: dict[str, Any] = {}
    two_days = dg.TimeWindowPartitionMapping(start_offset=-1)

    @dg.asset(ins={"air": dg.AssetIn(metadata={"columns": ["air"]})}, partitions_def=DAYS)
    def one(air: xarray.Dataset) -> None:
        seen["one"] = air

    @dg.asset(ins={"air": dg.AssetIn(partition_mapping=two_days)}, partitions_def=DAYS)
    def two(air: dict[str, xarray.Dataset]) -> None:
        seen["two"] = air

    @dg.asset
    def everything(air):  # type: ignore[no-untyped-def]
        seen["all"] = air

    @dg.asset
    def by_hand(air: DeltaStore) -> None:
        seen["store"] = air

    air = day_asset()
    for day in ("2026-01-01", "2026-01-02"):
        run(tmp_path, instance, [air], partition_key=day)
    day = "2026-01-02"
    run(tmp_path, instance, [air, one, two], [one, two], partition_key=day)
    run(tmp_path, instance, [air, by_hand], [by_hand])
    xarray.testing.assert_equal(seen["one"].load(), dataset_of(day))
    assert list(seen["two"]) == ["2026-01-01", "2026-01-02"]
    for key, each in seen["two"].items():
        xarray.testing.assert_identical(each.load(), dataset_of(key))
    assert repr(seen["store"]).endswith("version=2)")


def test_the_same_dataset_again_makes_no_version(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    grid = asset_of(lambda _: dataset_of("2026-01-01"), metadata={}, partitions_def=None)
    first, second = (event_of(run(tmp_path, instance, [grid])) for _ in range(2))
    assert [each.metadata["delta/version"].value for each in (first, second)] == [1, 1]
    assert second.metadata["delta/chunks_written"].value == 0
    tag = "dagster/data_version"
    assert first.tags[tag] == second.tags[tag]  # type: ignore[index]
    xarray.testing.assert_identical(dataset_in(tmp_path, "air"), dataset_of("2026-01-01"))


@pytest.mark.full
def test_a_dataset_without_partitions_replaces_the_group(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    datasets = [dataset_of("2026-01-01"), dataset_of("2026-01-02")[["air"]].isel(lat=slice(2))]
    datasets[1]["more"] = ("lat", [1, 2])
    for each in datasets:
        grid = asset_of(partial(_given, each), metadata={}, partitions_def=None)
        run(tmp_path, instance, [grid])
    xarray.testing.assert_identical(dataset_in(tmp_path, "air"), datasets[1])


@pytest.mark.full
def test_an_unchanged_partition_keeps_its_data_version(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    air = day_asset()
    days = ("2026-01-01", "2026-01-02", "2026-01-01")
    events = [event_of(run(tmp_path, instance, [air], partition_key=day)) for day in days]
    versions = [each.tags["dagster/data_version"] for each in events]  # type: ignore[index]
    assert [each.partition("@")[2] for each in versions] == ["1", "2", "1"]


@pytest.mark.full
def test_a_single_run_writes_several_partitions(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lands = dg.StaticPartitionsDefinition(["no", "de", "fr"])

    def make(context: dg.AssetExecutionContext) -> Any:
        keys = list(reversed(context.partition_keys))
        sizes = [float(len(key) + ord(key[0])) for key in keys]
        return xarray.Dataset({"size": ("land", sizes)}, coords={"land": keys})

    air = asset_of(
        make,
        metadata={"partition_expr": "land"},
        partitions_def=lands,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    tags = {
        "dagster/asset_partition_range_start": "no",
        "dagster/asset_partition_range_end": "de",
    }
    run(tmp_path, instance, [air], tags=tags)
    found = dataset_in(tmp_path, "air")
    assert found["land"].values.tolist() == ["no", "de", "fr"]
    assert found["size"].values[:2].tolist() == [112.0, 102.0]
    assert np.isnan(found["size"].values[2])


@pytest.mark.full
def test_a_dynamic_partition_gets_the_next_place(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    sites = dg.DynamicPartitionsDefinition(name="sites")
    air = asset_of(
        lambda context: xarray.Dataset(
            {"wind": (("site", "x"), [[1.0, 2.0]])}, coords={"site": [context.partition_key]}
        ),
        metadata={"partition_expr": "site"},
        partitions_def=sites,
    )
    for site in ("oslo", "a-much-longer-name", "bergen"):
        instance.add_dynamic_partitions("sites", [site])
        run(tmp_path, instance, [air], partition_key=site)
    found = dataset_in(tmp_path, "air")
    assert found["site"].values.tolist() == ["oslo", "a-much-longer-name", "bergen"]
    assert found["wind"].values.tolist() == [[1.0, 2.0]] * 3


ODD = np.array([0, 1, 2], "i8")


def odd_values(day: str) -> Any:
    """A variable of each type; strings of the second day are longer."""
    time = hours(day, 3)
    values: dict[str, Any] = {
        "text": np.array(["é", "", day * int(day[-2:])]),
        "flag": ODD == 1,
        "when": np.array([time[0], "NaT", time[2] + 7], "M8[ns]"),
        "lasts": np.array([5, "NaT", 2**40], "m8[ns]"),
        "complex": ODD + 1j,
        "half": np.array([np.nan, np.inf, -0.0], "f2"),
        "bytes": np.array([b"a", b"", b"ab"], "S2"),
        "many": ODD.astype("u8") + 2**63,
    }
    found = xarray.Dataset(
        {name: ("time", data, {"kind": name}) for name, data in values.items()},
        coords={"time": time, "level": 5, "age": ("time", ODD)},
        attrs={"title": "odd"},
    )
    found["time"].attrs["axis"] = "T"
    found["packed"] = ("time", [0.5, np.nan, 1.5])
    found["packed"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}
    return found


@pytest.mark.full
def test_partitions_of_every_type_are_read_as_they_were_written(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    day_of_three = dg.TimeWindowPartitionsDefinition(
        start="2026-01-01-00:00",
        fmt="%Y-%m-%d-%H:%M",
        cron_schedule="0 */3 * * *",
        end="2026-01-02-00:00",
    )
    assert day_of_three.get_partition_keys()[1] == "2026-01-01-03:00"

    def make(context: dg.AssetExecutionContext) -> Any:
        start = context.partition_time_window.start
        time = hours("2026-01-01", 3) + np.timedelta64(start.hour, "h")
        return odd_values("2026-01-01").assign_coords(time=("time", time, {"axis": "T"}))

    air = asset_of(make, partitions_def=day_of_three)
    for key in ("2026-01-01-06:00", "2026-01-01-00:00"):
        run(tmp_path, instance, [air], partition_key=key)
    found = dataset_in(tmp_path, "air")
    first = found.isel(time=slice(0, 3))
    xarray.testing.assert_identical(first, odd_values("2026-01-01"))
    gap = found.isel(time=slice(3, 6))
    assert np.isnat(gap["when"].values).all()
    assert np.isnat(gap["lasts"].values).all()
    assert np.isnan(gap["packed"].values).all()
    assert np.isnan(gap["half"].values).all()
    assert gap["text"].values.tolist() == [""] * 3


@pytest.mark.full
def test_longer_strings_and_shards_of_later_partitions_are_kept(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    def make(context: dg.AssetExecutionContext) -> Any:
        day = context.partition_key
        found = dataset_of(day)
        found["text"] = ("time", np.array([day * int(day[-2:])] * 24))
        found["air"].encoding = {"chunks": (6, 3), "shards": (12, 3)}
        return found

    air = asset_of(make)
    for day in ("2026-01-01", "2026-01-03"):
        run(tmp_path, instance, [air], partition_key=day)
    found = dataset_in(tmp_path, "air")
    assert set(found["text"].sel(time="2026-01-03").values) == {"2026-01-03" * 3}
    assert (found["air"].sel(time="2026-01-03") == 3).all()
    keys = {f"air/c/{number}/0" for number in (0, 1, 4, 5)}
    store = DeltaStore(tmp_path / "air")
    assert all(store.get_sync(key) is not None for key in keys)


@pytest.mark.full
def test_a_partition_of_missing_values_replaces_values(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    for factor in (1.0, np.nan):
        air = asset_of(partial(_scaled, factor))
        run(tmp_path, instance, [air], partition_key="2026-01-01")
    assert np.isnan(dataset_in(tmp_path, "air")["air"].values).all()


# --- rejected outputs -------------------------------------------------------------------------


def wide(context: dg.AssetExecutionContext) -> Any:
    return dataset_of(context.partition_key)


@pytest.mark.parametrize(
    ("make", "metadata", "message"),
    [
        pytest.param(
            wide,
            {"partition_expr": "time", "delta/chunks": {"time": 10}},
            r"array air has chunks of 10 along time.*Sizes that fit: 1, 2, 3, 4, 6, 8, 12, 24",
            id="chunks that a region cuts",
        ),
        pytest.param(wide, {}, "do not say which dimension", id="no dimension"),
        pytest.param(
            wide, {"partition_expr": "day"}, "has no dimension day", id="an unknown dimension"
        ),
        pytest.param(
            wide, {"partition_expr": {"a": "b"}}, "the name of one dimension", id="a mapping"
        ),
        pytest.param(
            wide,
            {"partition_expr": "time", "delta/mode": "append"},
            "the key 'delta/mode', which is unknown",
            id="a key of tables",
        ),
        pytest.param(
            wide,
            {"partition_expr": "time", "delta/chunks": {"time": 0}},
            "chunk sizes by dimension",
            id="a chunk of nothing",
        ),
        pytest.param(
            lambda context: dataset_of(context.partition_key).drop_vars("time"),
            None,
            "the dimension time has no coordinate",
            id="no labels",
        ),
        pytest.param(
            lambda context: dataset_of(context.partition_key)["air"],
            None,
            "returned a xarray.core.dataarray.DataArray; return an xarray.Dataset",
            id="an array",
        ),
        pytest.param(
            lambda context: dataset_of(context.partition_key).assign(
                air=("time", np.array([{}] * 24, object))
            ),
            None,
            "xarray cannot write the dataset",
            id="objects",
        ),
    ],
)
@pytest.mark.some_cases(3)
def test_an_output_that_does_not_fit_is_rejected(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    make: Callable[[dg.AssetExecutionContext], Any],
    metadata: Mapping[str, Any] | None,
    message: str,
) -> None:
    air = asset_of(make, metadata=metadata)
    with pytest.raises(InvalidRequestError, match=message):
        run(tmp_path, instance, [air], partition_key="2026-01-02")
    log = DeltaLog(tmp_path / "air")
    assert not log.exists() or (log.snapshot().version, list_sessions(log)) == (0, [])


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda found: found.drop_vars("lat"), "lacks variable lat", id="lost"),
        pytest.param(
            lambda found: found.assign(more=("time", np.zeros(24))),
            "the new variable more",
            id="new",
        ),
        pytest.param(
            lambda found: found.assign_coords(lat=[10.0, 20.0, 31.0]),
            "variable lat does not have the dimension time",
            id="another coordinate",
        ),
        pytest.param(lambda found: found.transpose(), "has the dimensions", id="transposed"),
        pytest.param(lambda found: found.astype("f4"), "is of type float32", id="another type"),
        pytest.param(
            lambda found: found.assign(air=found["air"].assign_attrs(source="buoy")),
            "has the attribute source='buoy', and in the table None",
            id="a new attribute",
        ),
        pytest.param(
            lambda found: found.isel(time=slice(0, 24, 2)),
            "lack 2026-01-02T01:00:00 of partition",
            id="fewer labels than before",
        ),
    ],
)
def test_a_partition_of_another_form_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance, change: Callable[[Any], Any], message: str
) -> None:
    run(tmp_path, instance, [day_asset()], partition_key="2026-01-01")
    air = asset_of(lambda context: change(dataset_of(context.partition_key)))
    with pytest.raises(InvalidRequestError, match=message):
        run(tmp_path, instance, [air], partition_key="2026-01-02")
    assert DeltaLog(tmp_path / "air").snapshot().version == 1


@pytest.mark.full
def test_arrays_with_chunks_that_a_region_cuts_are_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    whole = xarray.concat([dataset_of(f"2026-01-{day:02}") for day in range(1, 13)], "time")
    whole["air"].encoding = {"chunks": (36, 3)}
    run(tmp_path, instance, [asset_of(lambda _: whole, metadata={}, partitions_def=None)])
    with pytest.raises(InvalidRequestError, match="array air has chunks of 36 along time"):
        run(tmp_path, instance, [day_asset()], partition_key="2026-01-02")


def packed(day: str, **encoding: Any) -> Any:
    found = dataset_of(day).astype("f8")
    found["air"] = found["air"].round(1).assign_attrs(units="K", valid=np.array([1.0, np.nan]))
    found["air"].encoding = encoding
    return found


TENTHS = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -999}


@pytest.mark.full
@pytest.mark.parametrize(
    ("encoding", "units", "message"),
    [
        pytest.param(TENTHS, "K", None, id="the same"),
        pytest.param(TENTHS, None, None, id="no attribute"),
        pytest.param(TENTHS, "degC", "units='degC', and in the table 'K'", id="another unit"),
        pytest.param({}, "K", "is packed in the table", id="no packing"),
        pytest.param(
            {**TENTHS, "scale_factor": 1.0}, "K", "is packed in the table", id="another scale"
        ),
    ],
)
def test_a_partition_has_the_units_and_the_packing_of_the_first(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    encoding: dict[str, Any],
    units: str | None,
    message: str | None,
) -> None:
    def second() -> Any:
        found = packed("2026-01-02", **encoding)
        found["air"].attrs = {} if units is None else {**found["air"].attrs, "units": units}
        return found

    first = asset_of(lambda _: packed("2026-01-01", **TENTHS))
    run(tmp_path, instance, [first], partition_key="2026-01-01")
    air = asset_of(lambda _: second())
    if message is not None:
        with pytest.raises(InvalidRequestError, match=message):
            run(tmp_path, instance, [air], partition_key="2026-01-02")
        return
    run(tmp_path, instance, [air], partition_key="2026-01-02")
    found = xarray.open_zarr(DeltaStore(tmp_path / "air"), consolidated=False).isel(
        time=slice(24, 48)
    )
    np.testing.assert_allclose(found["air"], second()["air"], atol=1e-9)
    assert found["air"].attrs["units"] == "K"


@pytest.mark.full
def test_a_conflict_about_one_chunk_is_an_error(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    run(tmp_path, instance, [day_asset()], partition_key="2026-01-01")

    class Overtaken(BackendArray):
        """Values that are read while the output is written; another writer is faster."""

        shape, dtype = (24, 3), np.dtype("f8")

        def __getitem__(self, key: Any) -> Any:
            other = DeltaStore.begin(tmp_path / "air")
            part = dataset_of("2026-01-02").drop_vars(["time", "lat"]) * 5
            part.to_zarr(other, region={"time": slice(24, 48)}, consolidated=False)
            other.commit()
            return np.zeros(self.shape)

    def make(context: dg.AssetExecutionContext) -> Any:
        values = xarray.Variable(("time", "lat"), LazilyIndexedArray(Overtaken()))
        return dataset_of(context.partition_key).assign(air=values)

    air = asset_of(make)
    with pytest.raises(ChunkConflictError):
        run(tmp_path, instance, [air], partition_key="2026-01-02")
    found = dataset_in(tmp_path, "air")["air"].sel(time="2026-01-02")
    assert (found == 10).all()
    assert list_sessions(DeltaLog(tmp_path / "air")) == []


# --- runs -------------------------------------------------------------------------------------


class Runs:
    """Runs of the jobs of `array_jobs`, in a lake and an instance on disk."""

    def __init__(self, lake: Path, instance: dg.DagsterInstance) -> None:
        self.lake, self.instance = lake, instance

    def run(
        self,
        job: Callable[[], dg.JobDefinition],
        executor: dict[str, Any],
        *,
        fail_at: str = "",
        partition: str | None = None,
        again: dg.ReexecutionOptions | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> dg.JobExecutionResult:
        config = {
            "execution": {"config": executor},
            "resources": {"lake": {"config": {"root": str(self.lake)}}},
        }
        given = {"test/lake": str(self.lake), "test/fail_at": fail_at, **(tags or {})}
        return dg.execute_job(
            dg.reconstructable(job),
            self.instance,
            run_config=config if again is None else None,
            tags=given | ({} if partition is None else {"dagster/partition": partition}),
            reexecution_options=again,
        )

    def events(self, result: dg.JobExecutionResult) -> list[dg.AssetMaterialization]:
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION
        entries = self.instance.all_logs(result.run_id, of_type=kind)
        return [each.asset_materialization for each in entries if each.asset_materialization]

    def version(self, name: str) -> int:
        return DeltaLog(self.lake / name).snapshot().version


@pytest.fixture
def runs(tmp_path: Path, instance_on_disk: dg.DagsterInstance) -> Runs:
    return Runs(tmp_path, instance_on_disk)


@pytest.mark.parametrize(
    "executor",
    [pytest.param(IN_PROCESS, id="a process"), pytest.param(IN_PROCESSES, id="processes")],
)
@pytest.mark.full
def test_a_step_that_died_after_its_commit_finds_it(runs: Runs, executor: dict[str, Any]) -> None:
    day = "2026-01-03"
    result = runs.run(array_jobs.days_job, executor, fail_at=AFTER_WRITE, partition=day)
    assert result.success
    (event,) = runs.events(result)
    assert event.metadata["delta/adopted"].value is True
    assert event.metadata["delta/version"].value == runs.version("days") == 1
    found = dataset_in(runs.lake, "days").sel(time=day)
    xarray.testing.assert_identical(found, dataset_of(day))


@pytest.mark.full
def test_a_backfill_of_parallel_runs_writes_each_partition(runs: Runs) -> None:
    days = DAYS.get_partition_keys()[:6]
    instance, lake = runs.instance.get_ref(), str(runs.lake)
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        done = [pool.submit(array_jobs.run_day, instance, lake, day) for day in days]
        assert all(each.result() for each in done)
    found = dataset_in(runs.lake, "days")
    for day in days:
        xarray.testing.assert_identical(found.sel(time=day), dataset_of(day))
    assert runs.version("days") == len(days)
    assert list_sessions(DeltaLog(runs.lake / "days")) == []


def joined(lake: Path) -> list[float]:
    values: list[float] = dataset_in(lake, "joined")["air"].values.tolist()
    return values


ALL_PARTS = [float(number // 10 + 1) for number in range(40)]


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(IN_PROCESS, id="a process"),
        pytest.param(IN_PROCESSES, id="processes", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("", id="no failure"),
        pytest.param(IN_PART, id="a retried part", marks=pytest.mark.full),
    ],
)
def test_parallel_steps_write_in_one_session(
    runs: Runs, executor: dict[str, Any], point: str
) -> None:
    result = runs.run(array_jobs.joined_job, executor, fail_at=point)
    assert result.success
    assert (joined(runs.lake), runs.version("joined")) == (ALL_PARTS, 1)
    (event,) = runs.events(result)
    assert event.metadata["delta/chunks_written"].value == 4
    assert list_sessions(DeltaLog(runs.lake / "joined")) == []


@pytest.mark.full
@pytest.mark.parametrize("point", [IN_JOIN, AFTER_WRITE])
def test_the_rest_of_a_failed_run_commits_the_session_once(runs: Runs, point: str) -> None:
    failed = runs.run(array_jobs.joined_job, IN_PROCESS, fail_at=point)
    assert not failed.success
    assert runs.version("joined") == (0 if point == IN_JOIN else 1)
    again = dg.ReexecutionOptions.from_failure(failed.run_id, runs.instance)
    assert runs.run(array_jobs.joined_job, IN_PROCESS, again=again).success
    assert (joined(runs.lake), runs.version("joined")) == (ALL_PARTS, 1)


@pytest.mark.full
def test_partitions_on_an_s3_server(
    s3_server: S3Server, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, options = f"s3://{s3_server.new_bucket()}", dict(s3_server.storage_options)
    for name in ("key", "secret"):
        monkeypatch.setenv(f"TEST_{name}", str(options[name]))
        options[name] = dg.EnvVar(f"TEST_{name}")
    resources = {"io_manager": DeltaArrayIOManager(root=lake, storage_options=options)}
    for day in ("2026-01-02", "2026-01-01"):
        dg.materialize([day_asset()], instance=instance, resources=resources, partition_key=day)
    store = DeltaStore(DeltaLog(f"{lake}/air", s3_server.storage_options))
    found = xarray.open_zarr(store, consolidated=False)
    xarray.testing.assert_identical(found.sel(time="2026-01-01").load(), dataset_of("2026-01-01"))


def test_arrays_of_two_assets_do_not_share_a_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    assets = [
        asset_of(
            partial(_given, dataset_of("2026-01-01")),
            name,
            {"delta/table": "air"},
            partitions_def=None,
        )
        for name in ("air", "other")
    ]
    with pytest.raises(InvalidRequestError, match="both write to the table"):
        run(tmp_path, instance, assets)
