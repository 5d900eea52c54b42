"""Frames and merge clauses keep the value of each type, or are rejected and write nothing.

The surfaces: frames of pandas and polars for `da.write` and as outputs of assets, and the values in
`delta/merge_clauses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.arrow.casting import plan_fit
from delta_ops.ddl import create_table
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.io_manager.output_merge import OutputMerge, merge_rows
from delta_ops.orchestration.io_manager.output_settings import settings_from
from delta_ops.orchestration.io_manager.type_handlers import rows_of
from delta_ops.planning.assigned_columns import is_sql_text
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.values.conversion import value_of_type
from tests.support.every_value import PRIMITIVES, VALUES, means_same

IN_EACH_RUN = (STRING, TIMESTAMP)
TYPES = [
    pytest.param(each, id=each.name, marks=() if each in IN_EACH_RUN else pytest.mark.full)
    for each in PRIMITIVES
]
PACKAGES: dict[str, Callable[[Any], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


@cache
def frames_of(package: str) -> tuple[tuple[Any, Any], ...]:
    """A frame for each supported value, and the value that the frame reports."""
    return tuple(_make_frames(package))


def _make_frames(package: str) -> Iterator[tuple[Any, Any]]:
    for value in VALUES:
        if package == "polars" and type(value) is int and value.bit_length() > 128:
            continue  # polars panics, and its panic cannot print the number
        try:
            frame = PACKAGES[package](
                {"v": [value.as_py() if isinstance(value, pa.Scalar) else value]}
            )
            held = frame["v"][0]
            if package == "polars" and str(frame["v"].dtype) in ("Float16", "Float32"):
                held = np.float32(held)  # polars returns a float of Python
            is_null = bool(pd.isna(held))
        except (Exception, pl.exceptions.PanicException):
            continue  # the package does not support the class of the value
        if not is_null:
            yield frame, held


def is_taken(frame: Any, data_type: DataType) -> bool:
    """Whether a table takes the frame for a column of the type."""
    target = pa.schema([("v", arrow_type_from_type(data_type))])
    try:
        rows = rows_of(frame)
        batches = rows.to_batches() if isinstance(rows, pa.Table) else list(rows)
        fit = plan_fit(batches[0].schema, target, "t")
        for batch in batches:
            list(fit(batch))
    except DeltaOpsError:
        return False
    return True


def write(table: Path, frame: Any) -> None:
    da.write(table, frame)


def materialize(table: Path, frame: Any) -> None:
    @dg.asset(name=table.name, metadata={"delta/mode": "append"})
    def asset() -> Any:
        return frame

    dg.materialize([asset], resources={"io_manager": DeltaIOManager(root=str(table.parent))})


def frames_of_types() -> Iterator[Any]:
    """A test for each type, package and way to give a frame; of polars `make test` runs a few."""
    for package, data_type, give in product(PACKAGES, PRIMITIVES, (write, materialize)):
        is_quick = package == "pandas" or (give == write and data_type in IN_EACH_RUN)
        marks = () if is_quick else pytest.mark.full
        name = f"{data_type.name}-{package}-{give.__name__}"
        yield pytest.param(data_type, package, give, id=name, marks=marks)


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(("data_type", "package", "give"), [*frames_of_types()])
def test_a_value_of_a_frame_is_stored_as_it_is(
    tmp_path: Path, data_type: DataType, package: str, give: Callable[[Path, Any], None]
) -> None:
    taken = [each for each in frames_of(package) if is_taken(each[0], data_type)]
    names = [f"c{number}" for number in range(len(taken))]
    assert names
    columns = {name: frame["v"] for name, (frame, _) in zip(names, taken, strict=True)}
    table = tmp_path / "t"
    create_table(table, StructType(tuple(StructField(name, data_type) for name in names)))
    give(table, PACKAGES[package](columns))
    stored = da.to_table(table)
    for name, (_, held) in zip(names, taken, strict=True):
        assert means_same(held, stored[name][0]), (held, stored[name][0])


@pytest.mark.parametrize(
    ("package", "give"),
    [
        ("pandas", write),
        ("polars", write),
        pytest.param("pandas", materialize, marks=pytest.mark.full),
        pytest.param("polars", materialize, marks=pytest.mark.full),
    ],
)
def test_a_value_of_a_frame_that_does_not_fit_writes_nothing(
    tmp_path: Path, package: str, give: Callable[[Path, Any], None]
) -> None:
    for data_type in PRIMITIVES:
        table = tmp_path / f"of_{data_type.name}".replace("(", "_").replace(",", "_").replace(
            ")", ""
        )
        create_table(table, StructType((StructField("v", data_type),)))
        refused = [frame for frame, _ in frames_of(package) if not is_taken(frame, data_type)]
        for frame in refused[:: len(refused) // 2 or 1]:
            with pytest.raises(DeltaOpsError):
                give(table, frame)
        assert DeltaLog(table).snapshot().num_files == 0


def merge_value(table: Path, column: str, value: Any) -> None:
    """Set a column of the only row with `delta/merge_clauses`."""
    clauses = [{"when": "matched", "then": "update", "set": {column: value}}]
    metadata = {"delta/mode": "merge", "delta/merge_keys": "id", "delta/merge_clauses": clauses}
    settings = settings_from(
        [("the metadata of asset t", metadata)], {}, dg.AssetKey("t"), has_partitions=False
    )
    assert settings.merge is not None
    merge_rows(
        begin(DeltaLog(table)),
        pa.table({"id": [1]}),
        OutputMerge(
            settings=settings.merge,
            txns=(),
            among=None,
            merge_schema=False,
            partition_by=None,
            configuration=None,
            user_metadata=None,
            hooks=(),
        ),
    )


@pytest.mark.full
@pytest.mark.parametrize("data_type", TYPES)
def test_a_value_of_a_merge_clause_is_the_same_or_refused(
    tmp_path: Path, data_type: DataType
) -> None:
    column = StructField("v", data_type)
    create_table(tmp_path, StructType((StructField("id", LONG), column)))
    da.write(tmp_path, pa.table({"id": [1]}), merge_schema=True)
    for value in VALUES:
        if is_sql_text(value):
            continue
        before = DeltaLog(tmp_path).snapshot().version
        try:
            value_of_type(value, column, "t")
        except InvalidRequestError:
            with pytest.raises(InvalidRequestError):
                merge_value(tmp_path, "v", value)
            assert DeltaLog(tmp_path).snapshot().version == before
            continue
        merge_value(tmp_path, "v", value)
        (stored,) = da.to_table(tmp_path)["v"]
        assert not stored.is_valid or means_same(value, stored), (value, stored)
