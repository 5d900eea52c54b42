"""The index of a pandas frame: a column if it has a name or the table has it, else a warning."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager, SourcePart
from delta_ops.orchestration.io_manager.frames import settle_index, table_of_pandas
from delta_ops.orchestration.swap_in.dagster_deltalake_pandas import DeltaLakePandasIOManager

FILTERED = pd.DataFrame({"x": [1, 2, 3]}).query("x > 1")
PAIRS = pd.DataFrame({"x": [7]}, pd.MultiIndex.from_tuples([("a", 2)]))
LEVEL = "__index_level_0__"


def settled(frame: pd.DataFrame, *columns: str) -> tuple[pa.Table, list[str]]:
    """The rows that are written to a table with these columns, and the warnings."""
    warnings: list[str] = []
    return settle_index(table_of_pandas(frame), columns, warnings.append), warnings


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pd.DataFrame({"x": [1, 2]}), id="the default"),
        pytest.param(FILTERED.iloc[:0], id="one without rows"),
        pytest.param(pd.DataFrame({"x": [1, 2]}, [0, 1]), id="one that equals the default"),
    ],
)
def test_an_index_that_says_nothing_is_left_out_without_a_warning(frame: pd.DataFrame) -> None:
    rows, warnings = settled(frame, "x")
    assert rows.column_names == ["x"]
    assert warnings == []


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(FILTERED, id="of a filter"),
        pytest.param(pd.DataFrame({"x": [1, 2]})[1:], id="of a slice"),
        pytest.param(pd.DataFrame({"x": [1]}, ["a"]), id="texts"),
        pytest.param(pd.DataFrame({"x": [1, 2]}, [1, 0]), id="another order"),
        pytest.param(pd.DataFrame({"x": [1, 2]}, [{}, 1.5]), id="what Arrow cannot have"),
    ],
)
def test_an_index_without_a_name_that_says_something_is_left_out_with_a_warning(
    frame: pd.DataFrame,
) -> None:
    rows, (warning,) = settled(frame, "x")
    assert rows.column_names == ["x"]
    assert "rename_axis" in warning
    assert "reset_index(drop=True)" in warning


@pytest.mark.parametrize(
    ("frame", "index"),
    [
        pytest.param(FILTERED, [1, 2], id="of a filter"),
        pytest.param(pd.DataFrame({"x": [1, 2]}), [0, 1], id="the default"),
        pytest.param(pd.DataFrame({"x": [1]}, ["a"]), ["a"], id="texts"),
    ],
)
def test_an_index_is_kept_where_the_table_has_it(frame: pd.DataFrame, index: list[Any]) -> None:
    rows, warnings = settled(frame, "x", LEVEL)
    assert rows[LEVEL].to_pylist() == index
    assert warnings == []


def test_levels_without_names_are_kept_where_the_table_has_them_all() -> None:
    rows, warnings = settled(PAIRS, "x", LEVEL, "__index_level_1__")
    assert rows.to_pylist() == [{"x": 7, LEVEL: "a", "__index_level_1__": 2}]
    assert warnings == []
    with pytest.raises(InvalidRequestError, match="several levels and none has a name"):
        settled(PAIRS, "x", LEVEL)


def test_an_index_that_cannot_be_the_column_of_the_table_is_rejected() -> None:
    with pytest.raises(InvalidRequestError, match=f"the table has the column {LEVEL}"):
        settled(pd.DataFrame({"x": [1, 2]}, [{}, 1.5]), "x", LEVEL)


def test_a_column_of_the_frame_comes_before_the_index() -> None:
    frame = pd.DataFrame({"x": [1, 2], LEVEL: [8, 9]})
    assert settled(frame, "x", LEVEL)[0][LEVEL].to_pylist() == [8, 9]
    rows, warnings = settled(frame[1:], "x", LEVEL)
    assert (rows[LEVEL].to_pylist(), len(warnings)) == ([9], 1)


def test_an_index_with_a_name_is_a_column() -> None:
    rows, warnings = settled(pd.DataFrame({"day": ["a"], "x": [1]}).set_index("day"), "x")
    assert rows.column_names == ["day", "x"]
    assert warnings == []


def test_no_mark_stays_in_the_schema() -> None:
    for frame in (FILTERED, FILTERED[:0], pd.DataFrame({"x": [1, 2]}, [{}, 1.5])):
        assert not any(b"delta_ops" in key for key in settled(frame, "x")[0].schema.metadata)


def warnings_of(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> list[str]:
    entries = instance.all_logs(result.run_id)
    return [each.user_message for each in entries if each.level == logging.WARNING]


def test_an_asset_warns_once_with_the_cure(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset
    def t() -> list[SourcePart]:
        return [SourcePart(data=FILTERED, source=each, position=1) for each in "ab"]

    done = dg.materialize(
        [t], resources={"io_manager": DeltaIOManager(root=str(tmp_path))}, instance=instance
    )
    (warning,) = warnings_of(done, instance)
    assert warning.startswith("asset t: the index of a pandas frame has no name and is not stored")
    assert da.to_table(tmp_path / "t").column_names == ["x"]


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
def test_a_table_of_dagster_deltalake_keeps_the_index(
    tmp_path: Path, instance: dg.DagsterInstance, mode: str
) -> None:
    da.write(tmp_path / "public" / "t", pa.Table.from_pandas(FILTERED, preserve_index=True))
    metadata = {"delta/mode": mode, **({"delta/merge_keys": LEVEL} if mode == "merge" else {})}

    @dg.asset(metadata=metadata)
    def t() -> pd.DataFrame:
        return pd.DataFrame({"x": [30, 40]}, [2, 3])

    manager = DeltaLakePandasIOManager(root_uri=str(tmp_path))
    done = dg.materialize([t], resources={"io_manager": manager}, instance=instance)
    assert warnings_of(done, instance) == []
    found = da.to_table(tmp_path / "public" / "t").to_pylist()
    expected = {
        "append": [(2, 1), (3, 2), (30, 2), (40, 3)],
        "overwrite": [(30, 2), (40, 3)],
        "merge": [(2, 1), (30, 2), (40, 3)],
    }
    assert sorted((row["x"], row[LEVEL]) for row in found) == expected[mode]
