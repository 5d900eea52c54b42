"""Partitions that other integrations lose or fail on: they must be right here.

Each asset is written and read by the replacement of the other integration's class.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.swap_in import dagster_delta, dagster_deltalake
from tests.support.tables import rows_by_deltalake

NEW_YORK = dg.DailyPartitionsDefinition("2026-03-07", timezone="America/New_York")


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as one:
        yield one


BOTH = [dagster_deltalake.DeltaLakePyarrowIOManager, dagster_delta.DeltaLakePyarrowIOManager]


def io_manager(lake: Path, kind: type[DeltaIOManager] = BOTH[0]) -> DeltaIOManager:
    return kind(root_uri=str(lake), storage_options=dagster_deltalake.LocalConfig())


def write(
    manager: DeltaIOManager,
    instance: dg.DagsterInstance,
    partitions: dg.PartitionsDefinition[Any],
    expression: str,
    rows: pa.Table,
    keys: str | tuple[str, str],
) -> None:
    """Materialize a partition, or a range of them in one run, of the asset `t`."""

    @dg.asset(partitions_def=partitions, metadata={"partition_expr": expression})
    def t() -> pa.Table:
        return rows

    one, tags = (keys, None) if isinstance(keys, str) else (None, _range_tags(keys))
    resources = {"io_manager": manager}
    dg.materialize([t], resources=resources, instance=instance, partition_key=one, tags=tags)


def read(
    manager: DeltaIOManager,
    instance: dg.DagsterInstance,
    partitions: dg.PartitionsDefinition[Any],
    expression: str,
    key: str,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows of a partition of the asset `t`, as an input."""
    found: list[pa.Table] = []
    spec = dg.AssetSpec("t", partitions_def=partitions, metadata={"partition_expr": expression})
    metadata = {"columns": columns} if columns else {}

    @dg.asset(partitions_def=partitions, ins={"t": dg.AssetIn(metadata=metadata)})
    def reader(t: pa.Table) -> None:
        found.append(t)

    resources = {"io_manager": manager}
    dg.materialize([spec, reader], resources=resources, instance=instance, partition_key=key)
    return found[0]


def _range_tags(keys: tuple[str, str]) -> dict[str, str]:
    names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    return dict(zip(names, keys, strict=True))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("kind", "column_type"),
    [
        pytest.param(BOTH[0], pa.int32(), id="int"),
        pytest.param(BOTH[1], pa.int64(), id="long"),
        pytest.param(BOTH[0], pa.string(), id="string"),
    ],
)
def test_a_partition_replaces_no_other_whatever_its_column_is(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    kind: type[DeltaIOManager],
    column_type: pa.DataType,
) -> None:
    manager = io_manager(tmp_path, kind)
    partitions = dg.StaticPartitionsDefinition(["1", "2", "3"])
    for key in ("1", "2", "3", "2"):
        rows = pa.table({"n": pa.array([key]).cast(column_type)})
        write(manager, instance, partitions, "n", rows, key)
    found = [str(row["n"]) for row in rows_by_deltalake(tmp_path / "public/t")]
    assert sorted(found) == ["1", "2", "3"]
    assert len(read(manager, instance, partitions, "n", "2")) == 1


def test_a_range_of_keys_replaces_no_other(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    manager, partitions = io_manager(tmp_path), dg.StaticPartitionsDefinition(list("abcd"))
    for key in "ab":
        write(manager, instance, partitions, "k", pa.table({"k": [key]}), key)
    write(manager, instance, partitions, "k", pa.table({"k": ["c", "d"]}), ("c", "d"))
    found = [row["k"] for row in rows_by_deltalake(tmp_path / "public/t")]
    assert sorted(found) == ["a", "b", "c", "d"]


def test_a_week_has_all_of_its_days(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    manager, weeks = io_manager(tmp_path), dg.WeeklyPartitionsDefinition("2026-01-04")
    for first, key in ((4, "2026-01-04"), (11, "2026-01-11")):
        days = [datetime(2026, 1, first + n, tzinfo=UTC) for n in range(7)]
        write(manager, instance, weeks, "at", pa.table({"at": days}), key)
    assert len(read(manager, instance, weeks, "at", "2026-01-04")) == 7
    assert len(read(manager, instance, weeks, "at", "2026-01-11")) == 7


def test_a_day_of_another_zone_is_a_day_there(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    manager = io_manager(tmp_path, BOTH[1])
    # The clocks go forward on the 8th, so it has 23 hours.
    days = {
        "2026-03-07": [datetime(2026, 3, 7, 5, tzinfo=UTC), datetime(2026, 3, 8, 4, tzinfo=UTC)],
        "2026-03-08": [datetime(2026, 3, 8, 5, tzinfo=UTC), datetime(2026, 3, 9, 3, tzinfo=UTC)],
    }
    for key, times in days.items():
        write(manager, instance, NEW_YORK, "at", pa.table({"at": times}), key)
    for key, times in days.items():
        assert read(manager, instance, NEW_YORK, "at", key)["at"].to_pylist() == times


def test_columns_of_an_input_are_these_columns(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    manager, partitions = io_manager(tmp_path, BOTH[1]), dg.StaticPartitionsDefinition(["1"])
    write(manager, instance, partitions, "a", pa.table({"a": ["1"], "b": [2]}), "1")
    found = read(manager, instance, partitions, "a", "1", columns=["b"])
    assert found.to_pylist() == [{"b": 2}]


def test_a_table_that_another_integration_has_laid_out_keeps_its_layout(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    manager, partitions = io_manager(tmp_path), dg.StaticPartitionsDefinition(["x", "y"])
    da.write(tmp_path / "public/t", pa.table({"k": ["x"], "n": [1]}), partition_by=["k"])
    for key in "yx":
        write(manager, instance, partitions, "k", pa.table({"k": [key], "n": [2]}), key)
    folders = sorted(each.name for each in (tmp_path / "public/t").glob("k=*"))
    assert folders == ["k=x", "k=y"]
    assert sorted(r["n"] for r in rows_by_deltalake(tmp_path / "public/t")) == [2, 2]


def test_a_new_table_is_partitioned_by_the_columns_of_the_partitions(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    days = dg.DailyPartitionsDefinition("2026-01-01")
    colors = dg.StaticPartitionsDefinition(["red", "blue"])

    @dg.asset(
        partitions_def=dg.MultiPartitionsDefinition({"day": days, "color": colors}),
        metadata={"partition_expr": {"day": "at", "color": "paint"}},
    )
    def t() -> pa.Table:
        return pa.table({"at": [date(2026, 1, 1)], "n": [1], "paint": ["red"]})

    resources = {"io_manager": io_manager(tmp_path, BOTH[1])}
    dg.materialize([t], resources=resources, instance=instance, partition_key="red|2026-01-01")
    snapshot = DeltaLog(tmp_path / "public/t").snapshot()
    assert snapshot.partition_columns == ("paint", "at")


def test_a_table_without_partition_columns_keeps_its_layout(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    partitions = dg.StaticPartitionsDefinition(["x"])
    da.write(tmp_path / "public/t", pa.table({"k": ["x"], "n": [1]}))
    write(io_manager(tmp_path), instance, partitions, "k", pa.table({"k": ["x"], "n": [2]}), "x")
    assert DeltaLog(tmp_path / "public/t").snapshot().partition_columns == ()
    assert da.to_table(tmp_path / "public/t")["n"].to_pylist() == [2]
