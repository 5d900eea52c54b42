"""The names and layouts of dagster-polars, with our class."""

from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.orchestration import DeltaLogResource, add_table_metadata
from delta_ops.orchestration.dagster_versions import VERSION
from delta_ops.orchestration.swap_in import dagster_polars
from delta_ops.orchestration.swap_in.dagster_polars import (
    DataFramePartitions,
    DeltaWriteMode,
    LazyFramePartitions,
)

MANAGER: Any = dagster_polars.PolarsDeltaIOManager
COLORS = dg.StaticPartitionsDefinition(["red", "blue"])
GRID = dg.MultiPartitionsDefinition({"size": dg.StaticPartitionsDefinition(["s"]), "color": COLORS})


@dg.asset(partitions_def=COLORS)
def paints(context) -> pl.DataFrame:  # type: ignore[no-untyped-def]
    return pl.DataFrame({"n": [len(context.partition_key)]})


def materialize(
    assets: Any,
    root: Path | None,
    instance: dg.DagsterInstance,
    key: str | None = None,
) -> dg.ExecuteInProcessResult:
    base = {} if root is None else {"base_dir": str(root)}
    return dg.materialize(
        assets,
        resources={"io_manager": MANAGER(**base)},
        instance=instance,
        partition_key=key,
    )


def said_of(result: dg.ExecuteInProcessResult, node: str) -> dict[str, Any]:
    (event,) = [event for event in result.events_for_node(node) if event.is_handled_output]
    metadata: Any = event.event_specific_data
    return {name: value.value for name, value in metadata.metadata.items()}


def test_partitions_without_a_column_are_tables_of_their_own(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got: dict[str, Any] = {}

    @dg.asset
    def eager(paints: DataFramePartitions) -> None:
        got["eager"] = {key: frame["n"].item() for key, frame in paints.items()}

    @dg.asset
    def lazy(paints: LazyFramePartitions) -> None:
        got["lazy"] = {key: frame.collect()["n"].item() for key, frame in paints.items()}

    @dg.asset(partitions_def=COLORS)
    def same(paints: pl.DataFrame) -> None:
        got["same"] = paints["n"].item()

    for key in ("red", "blue"):
        materialize([paints, same], tmp_path, instance, key)
        materialize([paints], tmp_path, instance, key)
    materialize([paints.to_source_asset(), eager, lazy], tmp_path, instance)
    numbers = {"red": 3, "blue": 4}
    assert got == {"eager": numbers, "lazy": numbers, "same": 4}
    assert DeltaLog(f"{tmp_path}/paints/red.delta").snapshot().version == 1


def test_several_dimensions_are_nested_folders(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=GRID)
    def tiles() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    result = materialize(
        [tiles], tmp_path, instance, dg.MultiPartitionKey({"size": "s", "color": "red"})
    )
    assert said_of(result, "tiles")["path"] == f"{tmp_path}/tiles/red/s.delta"


def test_a_partition_without_a_table_is_missing_or_left_out(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    def reader(annotation: Any, **metadata: Any) -> Any:
        def read(paints: Any) -> None:
            assert list(paints) == ["red"]

        read.__annotations__ = {"paints": annotation, "return": None}
        return dg.asset(ins={"paints": dg.AssetIn(metadata=metadata)})(read)

    materialize([paints], tmp_path, instance, "red")
    source = paints.to_source_asset()
    materialize([source, reader(dict[str, pl.DataFrame | None])], tmp_path, instance)
    allowed = reader(dict[str, pl.LazyFrame], allow_missing_partitions=True)
    materialize([source, allowed], tmp_path, instance)
    with pytest.raises(TableNotFoundError, match=r"paints/blue\.delta"):
        materialize([source, reader(dict[str, pl.DataFrame])], tmp_path, instance)


def test_several_partitions_at_once_need_a_column(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=COLORS)
    def tiles() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    tags = {
        "dagster/asset_partition_range_start": "red",
        "dagster/asset_partition_range_end": "blue",
    }
    resources = {"io_manager": MANAGER(base_dir=str(tmp_path))}
    with pytest.raises(InvalidRequestError, match="add partition_by, or start a run for each"):
        dg.materialize([tiles], resources=resources, instance=instance, tags=tags)


def test_messages_name_partition_by(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset(partitions_def=COLORS, metadata={"partition_by": "shade"})
    def other() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    with pytest.raises(InvalidRequestError, match="partition_by 'shade' matches no") as error:
        materialize([other], tmp_path, instance, "red")
    assert "partition_expr" not in str(error.value)


def test_the_default_of_base_dir_is_the_storage_of_the_instance(
    instance: dg.DagsterInstance,
) -> None:
    @dg.asset
    def leaves() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    @dg.asset
    def after(leaves: pl.LazyFrame) -> pl.DataFrame:
        return leaves.collect()

    result = materialize([leaves, after], None, instance)
    assert said_of(result, "after")["path"] == f"{instance.storage_directory()}/after.delta"
    with pytest.raises(InvalidRequestError, match="give base_dir"):
        MANAGER().log("leaves")


@pytest.mark.skipif(
    VERSION < (1, 12, 22), reason="this Dagster runs no asset with an enum in metadata"
)
def test_events_have_the_names_of_the_other_integration(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"mode": DeltaWriteMode.append})
    def leaves() -> pl.DataFrame:
        return pl.DataFrame({"n": [1, 2]})

    materialize([leaves], tmp_path, instance)
    said = said_of(materialize([leaves], tmp_path, instance), "leaves")
    assert (said["append_row_count"], said["dagster/row_count"], said["version"]) == (2, 4, 1)
    assert said["path"] == f"{tmp_path}/leaves.delta"


def test_an_input_has_the_version_that_its_metadata_name(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got = []

    @dg.asset(metadata={"mode": "append"})
    def leaves() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    @dg.asset(ins={"leaves": dg.AssetIn(metadata={"version": "0"})})
    def after(leaves: pl.DataFrame) -> None:
        got.append(len(leaves))

    for _ in range(2):
        materialize([leaves], tmp_path, instance)
    materialize([leaves.to_source_asset(), after], tmp_path, instance)
    assert got == [1]


def test_merge_options_without_a_merge_are_ignored_with_a_warning(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"mode": "append", "delta_merge_options": {"predicate": "n = n"}})
    def leaves() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    with pytest.warns(UserWarning, match="delta_merge_options, which changes nothing"):
        materialize([leaves], tmp_path, instance)
    assert DeltaLog(f"{tmp_path}/leaves.delta").snapshot().version == 0


def test_the_tables_of_partitions_are_below_the_name_of_the_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got = []

    @dg.asset(partitions_def=COLORS, metadata={"delta/table": "old/tiles"})
    def tiles() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    @dg.asset(partitions_def=COLORS)
    def reader(tiles: pl.DataFrame) -> None:
        got.append(len(tiles))

    result = materialize([tiles, reader], tmp_path, instance, "red")
    assert said_of(result, "tiles")["path"] == f"{tmp_path}/old/tiles/red.delta"
    assert got == [1]


def test_the_definition_may_show_the_folder_of_the_tables_of_partitions(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    got = []

    @dg.asset(partitions_def=COLORS)
    def same(paints: pl.DataFrame) -> None:
        got.append(paints["n"].item())

    (shown,) = add_table_metadata([paints], DeltaLogResource(root=str(tmp_path)).table)
    materialize([shown, same], tmp_path, instance, "red")
    assert DeltaLog(f"{tmp_path}/paints/red.delta").exists()
    assert got == [3]


def test_one_place_for_all_partitions_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(partitions_def=COLORS, metadata={"dagster/uri": str(tmp_path / "t")})
    def tiles() -> pl.DataFrame:
        return pl.DataFrame({"n": [1]})

    with pytest.raises(InvalidRequestError, match="each partition is a table of its own"):
        materialize([tiles], tmp_path, instance, "red")


DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04")


@pytest.mark.parametrize(
    ("partitions", "partition_by", "keys", "filters", "sql"),
    [
        pytest.param(
            dg.StaticPartitionsDefinition(["it's"]),
            "kind",
            ["it's"],
            [("kind", "in", ["it's"])],
            "kind = 'it''s'",
            id="a key with a quote",
        ),
        pytest.param(
            DAYS,
            "day",
            ["2026-01-01", "2026-01-02"],
            [("day", "in", ["2026-01-01", "2026-01-02"])],
            "day in (DATE '2026-01-01', DATE '2026-01-02')",
            id="days",
        ),
        pytest.param(
            dg.MultiPartitionsDefinition({"day": DAYS, "color": COLORS}),
            {"day": "at", "color": "color"},
            ["red|2026-01-01", "red|2026-01-02"],
            [("color", "in", ["red"]), ("at", "in", ["2026-01-01", "2026-01-02"])],
            "color in ('red') AND at in (DATE '2026-01-01', DATE '2026-01-02')",
            id="two dimensions",
        ),
        pytest.param(COLORS, None, ["red"], [], None, id="no column"),
    ],
)
@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_the_partitions_of_a_step_are_conditions_for_deltalake(
    partitions: Any,
    partition_by: Any,
    keys: list[str],
    filters: Any,
    sql: str | None,
    instance: dg.DagsterInstance,
) -> None:
    got: dict[str, Any] = {}

    class Conditions(dg.IOManager):
        def handle_output(self, context: dg.OutputContext, obj: object) -> None:
            got["output"] = MANAGER.get_partition_filters(context), MANAGER.get_predicate(context)

        def load_input(self, context: dg.InputContext) -> None:
            got["input"] = MANAGER.get_partition_filters(context), MANAGER.get_predicate(context)

    metadata = {} if partition_by is None else {"partition_by": partition_by}
    policy = dg.BackfillPolicy.single_run()

    @dg.asset(partitions_def=partitions, metadata=metadata, backfill_policy=policy)
    def up() -> int:
        return 1

    @dg.asset(partitions_def=partitions, backfill_policy=policy)
    def down(up: Any) -> None: ...

    tags = {"dagster/asset_partition_range_start": keys[0]}
    tags |= {"dagster/asset_partition_range_end": keys[-1]}
    resources = {"io_manager": Conditions()}
    dg.materialize([up, down], resources=resources, instance=instance, tags=tags)
    for side in ("output", "input"):
        found, text = got[side]
        assert (side, sorted(found), text) == (side, sorted(filters), sql)
