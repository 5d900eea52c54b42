"""Values and names that other writers accept: unsigned integers, odd names, an unnamed index."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.swap_in.dagster_deltalake_pandas import DeltaLakePandasIOManager
from delta_ops.protocol.schema import DecimalType
from delta_ops.protocol.schema.types import LONG

LARGE = 2**63


def unsigned(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.uint64())})


def encoded(*values: int) -> pa.Table:
    return pa.table({"x": pc.run_end_encode(pa.array(values, pa.uint64()))})


def write(root: Path, instance: dg.DagsterInstance, *outputs: Any, **metadata: Any) -> DeltaLog:
    """The table of an asset that returned these outputs, one after the other."""
    rest = list(outputs)

    @dg.asset(metadata={f"delta/{name}": value for name, value in metadata.items()})
    def t() -> Any:
        return rest.pop(0)

    for _ in outputs:
        resources = {"io_manager": DeltaIOManager(root=str(root))}
        dg.materialize([t], resources=resources, instance=instance)
    return DeltaLog(f"{root}/t")


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("rows", "data_type"),
    [
        pytest.param(unsigned(1, 2), LONG, id="values that fit a long"),
        pytest.param(unsigned(1, LARGE), DecimalType(20, 0), id="a value that does not fit"),
        pytest.param(unsigned(1).to_reader(), DecimalType(20, 0), id="a stream"),
        pytest.param(pl.DataFrame(unsigned(1)), LONG, id="polars"),
        pytest.param(unsigned(1).to_pandas(), LONG, id="pandas"),
        pytest.param(encoded(1, 1), LONG, id="run ends"),
        pytest.param(encoded(LARGE), DecimalType(20, 0), id="run ends that do not fit"),
    ],
)
def test_unsigned_integers_become_a_long_or_a_decimal(
    tmp_path: Path, instance: dg.DagsterInstance, rows: Any, data_type: Any
) -> None:
    log = write(tmp_path, instance, rows)
    assert [field.data_type for field in log.snapshot().schema.fields] == [data_type]


def test_unsigned_integers_are_appended_to_either_type(tmp_path: Path) -> None:
    da.write(tmp_path / "large", unsigned(LARGE))
    da.write(tmp_path / "large", unsigned(1), mode="append")
    assert set(da.to_table(tmp_path / "large")["x"].to_pylist()) == {Decimal(LARGE), Decimal(1)}
    da.write(tmp_path / "small", unsigned(1))
    da.write(tmp_path / "small", unsigned(2), mode="append")
    with pytest.raises(InvalidRequestError, match="a value does not fit"):
        da.write(tmp_path / "small", unsigned(LARGE), mode="append")


def test_unsigned_integers_are_found_at_any_depth(tmp_path: Path) -> None:
    nested = pa.struct({"a": pa.list_(pa.uint64()), "m": pa.map_(pa.string(), pa.uint64())})
    rows = pa.table({"s": pa.array([{"a": [LARGE], "m": [("k", 1)]}], nested)})
    da.write(tmp_path, rows)
    (found,) = da.to_table(tmp_path)["s"].to_pylist()
    assert found == {"a": [Decimal(LARGE)], "m": [("k", Decimal(1))]}


@pytest.mark.parametrize("layout", [pa.list_(pa.uint64(), 1), pa.list_view(pa.uint64())], ids=str)
def test_unsigned_integers_are_found_in_each_layout_of_lists(
    tmp_path: Path, layout: pa.DataType
) -> None:
    da.write(tmp_path, pa.table({"x": pa.array([[1], [2]], layout)}))
    assert da.to_table(tmp_path)["x"].type == pa.list_(pa.int64())


def test_a_name_of_unsigned_integers_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    (column,) = unsigned(1).columns
    with pytest.raises(InvalidRequestError, match="Column x occurs twice"):
        da.write(tmp_path, pa.table([column, column], names=["x", "x"]))


def test_a_merge_creates_and_adds_columns_of_unsigned_integers(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    more = unsigned(2).append_column("y", pa.array([LARGE], pa.uint64()))
    merge: dict[str, Any] = {"mode": "merge", "merge_keys": "x", "merge_schema": True}
    log = write(tmp_path, instance, unsigned(1), more, **merge)
    rows = {(row["x"], row["y"]) for row in da.to_table(log).to_pylist()}
    assert rows == {(1, None), (2, Decimal(LARGE))}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(pa.table({"k": [1], "a b (c)": [1]}), id="a column"),
        pytest.param(pa.table({"k": [1], "s": [{"a=b": 1}]}), id="a field"),
        pytest.param(pd.DataFrame({"k": [1], "x,y": [1]}), id="pandas"),
    ],
)
@pytest.mark.parametrize("merge", [{}, {"mode": "merge", "merge_keys": "k"}], ids=str)
def test_a_new_table_gets_column_mapping_for_odd_names(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    rows: Any,
    merge: dict[str, Any],
) -> None:
    log = write(tmp_path, instance, rows, rows, **merge)
    assert log.snapshot().metadata.configuration["delta.columnMapping.mode"] == "name"
    lines = [e.user_message for run in instance.get_runs() for e in instance.all_logs(run.run_id)]
    assert len([line for line in lines if "the new table has column mapping" in line]) == 1
    table = pa.Table.from_pandas(rows) if isinstance(rows, pd.DataFrame) else rows
    assert da.to_table(log).to_pylist()[0] == table.to_pylist()[0]


def test_a_property_turns_column_mapping_for_odd_names_off(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    off = {"delta.columnMapping.mode": "none"}
    with pytest.raises(InvalidRequestError, match="has a character that Delta tables forbid"):
        write(tmp_path, instance, pa.table({"a b": [1]}), configuration=off)


def test_a_table_with_plain_names_gets_no_column_mapping(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    log = write(tmp_path, instance, pa.table({"a.b": [1]}))
    assert not log.snapshot().metadata.configuration


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    ("index", "names"),
    [
        (pd.Index(["k"]), ["x", "__index_level_0__"]),
        (pd.RangeIndex(5, 6), ["x", "__index_level_0__"]),
        (pd.MultiIndex.from_tuples([("a", 1)]), ["x", "__index_level_0__", "__index_level_1__"]),
        (pd.RangeIndex(1), ["x"]),
    ],
    ids=["texts", "numbers", "levels", "a mere count"],
)
@pytest.mark.parametrize("is_swapped_in", [False, True])
def test_an_unnamed_index_is_kept_on_request(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    index: Any,
    names: list[str],
    is_swapped_in: bool,
) -> None:
    frame = pd.DataFrame({"x": [1]}, index)
    if is_swapped_in:

        @dg.asset
        def t() -> pd.DataFrame:
            return frame

        make: Any = DeltaLakePandasIOManager
        resources = {"io_manager": make(root_uri=str(tmp_path.parent), schema=tmp_path.name)}
        dg.materialize([t], resources=resources, instance=instance)
        log = DeltaLog(f"{tmp_path}/t")
    else:
        log = write(tmp_path, instance, frame, keep_index=True)
    assert [field.name for field in log.snapshot().schema.fields] == names


def test_an_index_that_cannot_be_kept_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    frame = pd.DataFrame({"x": [1, 2]}, [{}, 1.5])
    with pytest.raises(InvalidRequestError, match="delta/keep_index is True"):
        write(tmp_path, instance, frame, keep_index=True)
