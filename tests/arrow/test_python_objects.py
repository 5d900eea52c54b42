"""Frames on their way to Arrow: no value is changed, and a fault names its column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from delta_ops.arrow.arrow_data import reader_of
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.type_handlers import rows_of

DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12)
AWARE = NOON.replace(tzinfo=UTC)
NANOSECOND = pd.Timestamp(1)
INT128: Any = {"y": pl.Int8, "x": pl.List(pl.Int128)}


def frame_of(*values: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


@pytest.mark.parametrize("convert", [reader_of, rows_of])
@pytest.mark.parametrize(
    ("frame", "value"),
    [
        pytest.param(frame_of(DAY, NOON), NOON, id="a time would become a date"),
        pytest.param(frame_of(NOON, AWARE), AWARE, id="a zone would be lost"),
        pytest.param(frame_of(AWARE, NOON), NOON, id="a zone would be added"),
        pytest.param(frame_of(NANOSECOND), NANOSECOND, id="nanoseconds would be lost"),
        pytest.param(frame_of(b"a", "b"), "b", id="text would become bytes"),
        pytest.param(frame_of(0.5, True), True, id="a boolean would become a number"),
        pytest.param(frame_of([DAY, NOON]), NOON, id="in a list"),
        pytest.param(frame_of({"a": [b"a"]}, {"a": ["b"]}), "b", id="in a struct"),
        pytest.param(pd.DataFrame({"x": pd.Categorical([DAY, NOON])}), NOON, id="in a category"),
        pytest.param(
            pd.DataFrame({"y": [1, 2]}, pd.Index([DAY, NOON], name="x")), NOON, id="in an index"
        ),
    ],
)
def test_a_value_that_arrow_would_change_is_refused(
    convert: Any, frame: pd.DataFrame, value: Any
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        convert(frame)
    assert f"would change its value {value!r}" in str(refused.value)


@pytest.mark.parametrize(
    ("frame", "stored"),
    [
        pytest.param(frame_of(DAY, pd.NaT, float("nan")), [DAY, None, None], id="dates"),
        pytest.param(frame_of(AWARE, pd.Timestamp(AWARE)), [AWARE, AWARE], id="times"),
        pytest.param(frame_of([DAY, None], None), [[DAY, None], None], id="lists"),
        pytest.param(frame_of({"a": b"a"}, {}), [{"a": b"a"}, {"a": None}], id="structs"),
        pytest.param(frame_of(1, 0.5, None), [1, 0.5, None], id="numbers"),
    ],
)
def test_values_of_one_type_are_stored(frame: pd.DataFrame, stored: list[Any]) -> None:
    assert reader_of(frame).read_all()["x"].to_pylist() == stored


@pytest.mark.parametrize("name", [None, float("nan"), ("a", 1)], ids=str)
@pytest.mark.parametrize("convert", [reader_of, rows_of])
def test_a_column_name_that_is_no_text_is_refused(convert: Any, name: Any) -> None:
    frame = pd.DataFrame([[1]], columns=pd.Index([name], tupleize_cols=False))
    with pytest.raises(InvalidRequestError, match="which is no text; rename it"):
        convert(frame)


@pytest.mark.parametrize("convert", [reader_of, rows_of])
@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        pytest.param(frame_of(1, "a"), "its values have the types int, str", id="two types"),
        pytest.param(frame_of(2**70), "too large", id="a number over 64 bits"),
        pytest.param(frame_of(Decimal("Infinity")), "types Decimal", id="an infinite decimal"),
        pytest.param(frame_of("\ud800"), "surrogates not allowed", id="text that is no Unicode"),
        pytest.param(pl.DataFrame({"y": [1], "x": [[1]]}, INT128), "_pli128", id="128 bits"),
    ],
)
def test_the_column_that_cannot_be_converted_is_named(
    convert: Any, frame: Any, reason: str
) -> None:
    with pytest.raises(InvalidRequestError, match=r"^column x of a .+\.DataFrame ") as refused:
        convert(frame)
    assert reason in str(refused.value)
    assert str(refused.value).endswith("); cast, rename or drop the column")


@pytest.mark.parametrize("convert", [reader_of, rows_of])
def test_names_that_occur_twice_are_refused_with_a_sentence(convert: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"Duplicate column names found: \['a', 'a'\]"):
        convert(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("convert", [reader_of, rows_of])
@pytest.mark.parametrize("data", [pl.Series("a", [1]), pa.chunked_array([[1]])], ids=type)
def test_a_column_without_a_table_is_refused(convert: Any, data: Any) -> None:
    with pytest.raises(InvalidRequestError, match="is one column, not a table; give a table or a"):
        convert(data)


@pytest.mark.parametrize("convert", [reader_of, rows_of])
@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a\0b": [1]}),
        pl.DataFrame({"a": [[{"b": {"c\0d": 1}}]]}),
    ],
    ids=["of a column", "of a field"],
)
def test_a_name_with_nul_does_not_reach_the_code_of_polars_which_aborts(
    convert: Any, frame: Any
) -> None:
    with pytest.raises(InvalidRequestError, match="has the character NUL in its name; rename it"):
        convert(frame)
