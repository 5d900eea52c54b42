"""Metadata of an input: supported settings, and rejected settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager

Load = Callable[..., Any]
DAYS = dg.StaticPartitionsDefinition(["a", "b"])


def load_from(
    root: Path, metadata: dict[str, Any], annotation: Any = pa.Table, **options: Any
) -> Any:
    """The value of an input with these metadata."""
    context = dg.build_input_context(
        asset_key="t",
        definition_metadata=metadata,
        dagster_type=dg.DagsterType(
            lambda _context, _value: True, name="wanted", typing_type=annotation
        ),
        **options,
    )
    return DeltaIOManager(root=str(root)).load_input(context)


@pytest.fixture
def load(tmp_path: Path, instance: dg.DagsterInstance) -> Callable[..., Any]:
    """Loads an input of a table with three rows."""
    da.write(tmp_path / "t", pa.table({"n": [1, 2, 3], "day": ["a", "a", "b"]}))
    return partial(load_from, tmp_path, instance=instance)


@pytest.mark.parametrize("annotation", [pa.Table, pa.RecordBatchReader, pd.DataFrame, pl.DataFrame])
def test_rows_and_columns_are_chosen_for_every_type_of_rows(load: Load, annotation: Any) -> None:
    value = load({"delta/predicate": "n > 1", "columns": ["day"]}, annotation)
    rows = value.read_all() if isinstance(value, pa.RecordBatchReader) else pa.table(value)
    assert rows["day"].to_pylist() == ["a", "b"]


def test_a_predicate_narrows_the_rows_of_the_partition(load: Load) -> None:
    upstream = dg.build_output_context(asset_key="t", definition_metadata={"partition_expr": "day"})
    found = load(
        {"delta/predicate": "n > 1"},
        asset_partition_key_range=dg.PartitionKeyRange("a", "a"),
        asset_partitions_def=DAYS,
        upstream_output=upstream,
    )
    assert found["n"].to_pylist() == [2]


@pytest.mark.parametrize("columns", ["day", dg.MetadataValue.json(["day"]), ("day",)])
def test_columns_are_a_column_or_a_list(load: Load, columns: Any) -> None:
    assert load({"columns": columns}).column_names == ["day"]


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta/predicat": "n > 1"}, "the closest key is 'delta/predicate'"),
        ({"delta/mode": "append"}, "have the key 'delta/mode', which is unknown"),
        ({"Columns": ["n"]}, "the closest key is 'columns'"),
        ({"colums": ["n"]}, "the closest key is 'columns'"),
        ({"predicate": "n > 1"}, "the closest key is 'delta/predicate'"),
        ({"partitionExpr": "day"}, "the closest key is 'partition_expr'"),
        ({"delta/predicate": 3}, "give a condition of SQL"),
        ({"delta/predicate": "n >"}, "n >"),
        ({"delta/predicate": "absent > 1"}, "absent"),
        ({"columns": 3}, "give a column or a list of columns"),
        ({"columns": ["absent"]}, "absent"),
        ({"partition_expr": 3}, "give an expression"),
        ({"partition_expr": "day"}, "leave partition_expr out"),
    ],
)
def test_invalid_settings_of_an_input_are_rejected(
    load: Load, metadata: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as rejected:
        load(metadata)
    assert message in str(rejected.value)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("annotation", [Any, Snapshot, DeltaLog, Snapshot | None])
@pytest.mark.parametrize("name", ["columns", "delta/predicate"])
def test_a_handle_of_the_table_has_no_rows_to_choose(
    load: Load, annotation: Any, name: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"have {name}, and the input is a handle"):
        load({name: "n" if name == "columns" else "n > 1"}, annotation)


def test_metadata_that_are_not_meant_for_us_stay(load: Load) -> None:
    assert len(load({"owner": "me", "dagster/note": 1, "schema": "n"})) == 3
