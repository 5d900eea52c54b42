"""Python objects in a pandas frame: none is changed on its way to Arrow."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pandas as pd
import pytest

from delta_ops.arrow.arrow_data import reader_of
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.type_handlers import rows_of

DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12)
AWARE = NOON.replace(tzinfo=UTC)
NANOSECOND = pd.Timestamp(1)


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
