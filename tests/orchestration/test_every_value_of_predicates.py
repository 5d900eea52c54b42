"""A predicate in metadata or in `replace_where` selects the rows with its value, for each type.

The surfaces: `delta/predicate` of an input, `predicate` of dagster-delta, and `replace_where` of an
overwrite. For predicates of reads see `tests/arrow/test_every_value.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.swap_in import dagster_delta
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import (
    STRING,
    DataType,
    StructField,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.values.conversion import value_of_type
from tests.support.every_value import PRIMITIVES, VALUES, is_found, is_kept, kept

IN_EACH_RUN = (STRING,)
TYPES = [
    pytest.param(each, id=each.name, marks=() if each in IN_EACH_RUN else pytest.mark.full)
    for each in PRIMITIVES
]


def make_table(table: Path, data_type: DataType) -> list[Any]:
    """Write a row for each value that the type keeps, and return the stored values."""
    values = [value_of_type(each, StructField("v", data_type), "t") for each in kept(data_type)]
    stored = pa.array(values, arrow_type_from_type(data_type))
    da.write(table, pa.table({"n": range(len(stored)), "v": stored}))
    return stored.to_pylist()  # type: ignore[no-any-return]


def numbers_of(value: Any, stored: list[Any], data_type: DataType) -> list[int]:
    """The numbers of the rows with a value."""
    return [n for n, each in enumerate(stored) if is_found(value, each, data_type)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "key", "table"),
    [
        pytest.param(
            lambda root: DeltaIOManager(root=root), "delta/predicate", "t", id="delta_ops"
        ),
        pytest.param(
            lambda root: dagster_delta.DeltaLakePyarrowIOManager(root_uri=root),
            "predicate",
            "public/t",
            id="dagster-delta",
            marks=pytest.mark.full,
        ),
    ],
)
@pytest.mark.parametrize("data_type", TYPES)
def test_the_predicate_of_an_input_finds_the_rows_with_the_value_or_is_refused(
    tmp_path: Path, make: Callable[[str], Any], key: str, table: str, data_type: DataType
) -> None:
    stored = make_table(tmp_path / table, data_type)
    manager = make(str(tmp_path))
    with dg.DagsterInstance.ephemeral() as instance:

        def load(predicate: str) -> list[int]:
            context = dg.build_input_context(
                asset_key="t",
                definition_metadata={key: predicate},
                instance=instance,
                dagster_type=dg.PythonObjectDagsterType(pa.Table),
            )
            found: list[int] = manager.load_input(context)["n"].to_pylist()
            return found

        for value in stored:
            text = predicate_text(col("v") == value)
            assert load(text) == numbers_of(value, stored, data_type), text


@pytest.mark.parametrize("data_type", TYPES)
def test_replace_where_replaces_the_rows_with_the_value_or_is_refused(
    tmp_path: Path, data_type: DataType
) -> None:
    stored = make_table(tmp_path, data_type)
    others = [n for n, _ in enumerate(stored)]
    for value in VALUES:
        if isinstance(value, str) and data_type != STRING:
            continue  # read as a literal of the type
        log = DeltaLog(tmp_path)
        before = log.snapshot().version
        nothing = pa.table({"n": [], "v": []}, schema=da.to_table(log).schema)
        try:
            da.write(log, nothing, mode="overwrite", replace_where=col("v") == value)
        except InvalidRequestError:
            assert not is_kept(value, data_type)
            assert log.snapshot().version == before
            continue
        replaced = set(numbers_of(value, stored, data_type))
        others = [n for n in others if n not in replaced]
        assert sorted(da.to_table(log)["n"].to_pylist()) == others, value
        if replaced:
            restored = [n for n in range(len(stored)) if n in replaced]
            rows = pa.table({"n": restored, "v": [stored[n] for n in restored]})
            da.write(log, rows.cast(nothing.schema))
            others = [*range(len(stored))]
