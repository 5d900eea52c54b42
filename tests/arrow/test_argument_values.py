"""Python values in updates, merges and predicates are kept or rejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.log import plan_scan
from delta_ops.protocol.predicate import Predicate
from tests.support.argument_values import (
    KEPT,
    NOON,
    Clause,
    Give,
    State,
    insert,
    keeps_values,
    make_table,
    read_row,
    refuses_values,
    update_matched,
    update_others,
)


def merging(clause: Clause, source_id: int) -> Give:
    """Sets values by a clause of a merge with one row."""

    def give(root: Path, argument: Mapping[str, Any]) -> object:
        return clause(da.merge(root, pa.table({"k": [source_id]}), "id = k"), argument)

    return give


WAYS = [
    pytest.param(da.update, 1, id="update"),
    pytest.param(merging(update_matched, 1), 1, id="matched"),
    pytest.param(merging(update_others, 7), 1, id="not matched by source"),
    pytest.param(merging(insert, 2), 2, id="not matched"),
]


@pytest.mark.some_cases(7)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize(("give", "number"), WAYS)
def test_a_value_is_read_as_it_was_written(
    tmp_path: Path, give: Give, number: int, name: str
) -> None:
    keeps_values(give, tmp_path, number, [name])


@pytest.mark.parametrize(("give", "number"), WAYS[:3])
def test_a_value_that_would_be_changed_is_refused(tmp_path: Path, give: Give, number: int) -> None:
    refuses_values(give, tmp_path)


def test_a_field_gets_a_value_of_its_type(tmp_path: Path) -> None:
    make_table(tmp_path)
    da.update(tmp_path, {"s.a": 5.0})
    assert read_row(tmp_path, 1)["s"] == {"a": 5, "b": "x"}
    with pytest.raises(InvalidRequestError, match=r"column s\.b of type string .* 5 of type int"):
        da.update(tmp_path, {"s.b": 5})


def test_a_new_row_may_leave_out_fields_of_a_struct(tmp_path: Path) -> None:
    merging(insert, 2)(make_table(tmp_path), {"s": {"b": "y"}})
    assert read_row(tmp_path, 2)["s"] == {"a": None, "b": "y"}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with one row in each of two partitions."""
    root = tmp_path_factory.mktemp("states")
    times = pa.array([NOON, NOON.replace(microsecond=2)], pa.timestamp("us"))
    days = times.cast(pa.date32(), safe=False)
    data = {"state": ["new", "old"], "text": ["new", "old"], "n": [1, 2], "d": [2.0**53, 0.5]}
    data |= {"flag": [True, False], "price": pa.array([Decimal("1.10"), Decimal("2.20")])}
    da.write(root, pa.table({**data, "local": times, "day": days}), partition_by=["state"])
    return root


FIRST = [
    pytest.param(col("state") == State.NEW, id="an enum for a partition"),
    pytest.param(col("text") == State.NEW, id="an enum"),
    pytest.param(col("text").isin([State.NEW]), id="a list of enums"),
    pytest.param(col("text") == np.str_("new"), id="a text of NumPy"),
    pytest.param(col("text") == pa.scalar("new"), id="a text of Arrow"),
    pytest.param(col("flag") == np.bool_(True), id="a flag of NumPy"),
    pytest.param(col("n") == np.uint8(1), id="an integer of NumPy"),
    pytest.param(col("price") == np.float64(1.1), id="a double for a decimal"),
    pytest.param(col("d") == 2**53, id="an integer that is a double"),
    pytest.param(col("local") == pd.Timestamp(NOON), id="a time of pandas"),
    pytest.param(col("local") < np.datetime64("2026-01-31T12:00:00.000002"), id="one of NumPy"),
    pytest.param((col("day") >= np.datetime64("2026-01-31")) & (col("n") < 2), id="a day"),
]


@pytest.mark.parametrize("predicate", FIRST)
def test_a_predicate_takes_the_value_of_a_literal(states: Path, predicate: Predicate) -> None:
    assert da.to_table(states, predicate=predicate)["n"].to_pylist() == [1]


def test_a_member_of_an_enum_chooses_its_partition(states: Path) -> None:
    (file,) = plan_scan(DeltaLog(states).snapshot(), col("state") == State.NEW)
    assert file.partition_values == {"state": "new"}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: col("local") < pd.Timestamp(1, unit="ns"), id="nanoseconds of pandas"),
        pytest.param(lambda: col("local") < np.datetime64(1, "ns"), id="nanoseconds of NumPy"),
        pytest.param(lambda: col("local") == pd.NaT, id="no time"),
        pytest.param(lambda: col("local").isin([pd.NaT]), id="no time in a list"),
        pytest.param(lambda: col("local") == datetime(2026, 1, 1, tzinfo=UTC), id="an instant"),
        pytest.param(lambda: col("n") == pd.NA, id="no value"),
        pytest.param(lambda: col("d") == 2**53 + 1, id="an integer between doubles"),
        pytest.param(lambda: col("d") > Decimal("1e400"), id="a decimal beyond doubles"),
        pytest.param(lambda: col("text") == 5, id="a number for a text"),
    ],
)
def test_a_literal_that_a_column_cannot_have_is_refused(
    states: Path, make: Callable[[], Predicate]
) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be compared with"):
        da.to_table(states, predicate=make())
