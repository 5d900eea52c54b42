"""Assets with partitions by an expression, written and read through Dagster."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.io_manager.partition_expression import partition_columns
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.support.tables import rows_by_deltalake

DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-02-01")
REGIONS = dg.MultiPartitionsDefinition(
    {"region": dg.StaticPartitionsDefinition(["be", "nl"]), "day": DAYS}
)


@pytest.mark.parametrize(
    ("expressions", "columns"),
    [
        pytest.param(["kind"], ("kind",), id="a string"),
        pytest.param(["KIND", "`day`"], ("kind", "day"), id="two columns, in their order"),
        pytest.param(["kind", "kind"], ("kind",), id="one column twice"),
        pytest.param(["at"], (), id="an instant, which has many values"),
        pytest.param(["date(at)", "kind"], ("kind",), id="a function"),
        pytest.param(["place.kind"], (), id="a field of a struct"),
        pytest.param(["kind", "day", "at", "place"], ("kind", "day"), id="a struct"),
    ],
)
def test_columns_of_expressions_that_can_be_partition_columns(
    expressions: list[str], columns: tuple[str, ...]
) -> None:
    fields = {"kind": pa.string(), "day": pa.date32(), "at": pa.timestamp("us", tz="UTC")}
    place = pa.struct([("kind", pa.string())])
    schema = schema_from_arrow(pa.schema({**fields, "place": place}))
    assert partition_columns(expressions, schema) == columns


def test_a_table_without_other_columns_gets_no_partition_columns() -> None:
    schema = schema_from_arrow(pa.schema({"kind": pa.string()}))
    assert partition_columns(["kind"], schema) == ()


def materialize(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    lake: Path,
    instance: dg.DagsterInstance,
    tags: dict[str, str] | None = None,
    key: str | None = None,
) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        assets,
        instance=instance,
        resources={"io_manager": DeltaIOManager(root=str(lake))},
        partition_key=key,
        tags=tags,
    )


@pytest.mark.parametrize(
    ("layout", "expected"), [(None, ()), ("hour_of_day", ("hour_of_day",))], ids=["none", "by hour"]
)
def test_ten_timestamps_of_a_day_are_one_partition_and_make_no_layout(
    tmp_path: Path, instance: dg.DagsterInstance, layout: str | None, expected: tuple[str, ...]
) -> None:
    loaded: list[int] = []
    runs: Iterator[int] = iter(range(9))

    @dg.asset(
        partitions_def=DAYS, metadata={"partition_expr": "date(at)", "delta/partition_by": layout}
    )
    def measured(context: dg.AssetExecutionContext) -> pa.Table:
        start = context.partition_time_window.start
        times = [start + timedelta(hours=2 * number, minutes=7) for number in range(10)]
        columns = {"at": times, "run": [next(runs)] * 10, "hour_of_day": [t.hour for t in times]}
        return pa.table(columns)

    @dg.asset(partitions_def=DAYS)
    def follower(measured: pa.Table) -> None:
        loaded.append(len(measured))

    for key in ("2026-01-01", "2026-01-02", "2026-01-01"):
        materialize([measured, follower], tmp_path, instance, key=key)
    assert loaded == [10, 10, 10]
    assert DeltaLog(tmp_path / "measured").snapshot().partition_columns == expected
    runs_found = [row["run"] for row in rows_by_deltalake(tmp_path / "measured")]
    assert sorted(runs_found) == [1] * 10 + [2] * 10


def regional(runs: Iterator[int], expression: Any) -> dg.AssetsDefinition:
    @dg.asset(
        partitions_def=REGIONS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"partition_expr": expression},
    )
    def sales(context: dg.AssetExecutionContext) -> pa.Table:
        keys = [REGIONS.get_partition_key_from_str(k) for k in context.partition_keys]
        dimensions = [key.keys_by_dimension for key in keys]
        return pa.table(
            {
                "country": [each["region"] for each in dimensions],
                "at": [datetime.fromisoformat(each["day"]) for each in dimensions],
                "run": [next(runs)] * len(keys),
            }
        )

    return sales


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_partitions_of_several_dimensions_are_written_and_read(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    loaded: list[list[int]] = []
    sales = regional(iter(range(9)), {"region": "country", "day": "at"})

    @dg.asset(partitions_def=REGIONS, backfill_policy=dg.BackfillPolicy.single_run())
    def follower(sales: pa.Table) -> None:
        loaded.append(sales["run"].to_pylist())

    for key in ("2026-01-01|be", "2026-01-01|nl", "2026-01-02|nl", "2026-01-01|nl"):
        materialize([sales, follower], tmp_path, instance, key=key)
    assert loaded == [[0], [1], [2], [3]]
    found = [(r["country"], r["at"].day, r["run"]) for r in rows_by_deltalake(tmp_path / "sales")]
    assert sorted(found) == [("be", 1, 0), ("nl", 1, 3), ("nl", 2, 2)]


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_a_range_over_several_dimensions_is_written(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    sales = regional(iter(range(9)), {"region": "country", "day": "date(at)"})
    over = {
        "dagster/asset_partition_range_start": "2026-01-01|be",
        "dagster/asset_partition_range_end": "2026-01-03|nl",
    }
    for _ in range(2):
        materialize([sales], tmp_path, instance, tags=over)
    found = [(r["country"], r["at"].day, r["run"]) for r in rows_by_deltalake(tmp_path / "sales")]
    assert sorted(found) == [(c, day, 1) for c in ("be", "nl") for day in (1, 2, 3)]
    record = instance.fetch_materializations(
        dg.AssetRecordsFilter(sales.key, asset_partitions=["2026-01-02|nl"]), limit=1
    ).records[0]
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["delta/rows_written"].value == 1


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_one_column_cannot_describe_several_dimensions(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(
        InvalidRequestError, match="does not say which column holds which dimension"
    ):
        materialize([regional(iter([0]), "at")], tmp_path, instance, key="2026-01-01|be")
    assert not (tmp_path / "sales").exists()


def late_files(partitions: dg.PartitionsDefinition[Any] | None) -> dg.AssetsDefinition:
    """Rows of three days; one row arrived with another day's file."""

    @dg.asset(
        partitions_def=partitions,
        metadata={} if partitions is None else {"partition_expr": "arrived"},
    )
    def files() -> pa.Table:
        days = ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-01"]
        return pa.table({"day": days, "arrived": ["2026-01-03"] * 4, "id": [1, 2, 3, 4]})

    return files


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
@pytest.mark.parametrize("partitions", [None, DAYS], ids=["no partitions", "other partitions"])
def test_an_input_with_an_expression_holds_the_rows_of_the_readers_partitions(
    tmp_path: Path, instance: dg.DagsterInstance, partitions: dg.PartitionsDefinition[Any] | None
) -> None:
    loaded: list[list[int]] = []
    files = late_files(partitions)
    mapping = None if partitions is None else dg.AllPartitionMapping()
    taken = dg.AssetIn(partition_mapping=mapping, metadata={"partition_expr": "day"})

    @dg.asset(
        partitions_def=DAYS,
        ins={"files": taken},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def events(files: pa.Table) -> None:
        loaded.append(files["id"].to_pylist())

    materialize([files], tmp_path, instance, key=None if partitions is None else "2026-01-03")
    range_tags = {
        "dagster/asset_partition_range_start": "2026-01-02",
        "dagster/asset_partition_range_end": "2026-01-04",
    }
    others = dg.AssetSpec("files", partitions_def=partitions)
    materialize([others, events], tmp_path, instance, key="2026-01-01")
    materialize([others, events], tmp_path, instance, tags=range_tags)
    assert loaded == [[1, 4], [2, 3]]


def test_only_an_asset_with_partitions_takes_rows_by_an_expression(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    files = late_files(None)

    @dg.asset(ins={"files": dg.AssetIn(metadata={"partition_expr": "day"})})
    def events(files: pa.Table) -> None:
        return None

    with pytest.raises(InvalidRequestError, match=r"input files .* leave partition_expr out"):
        materialize([files, events], tmp_path, instance)
