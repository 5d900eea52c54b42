"""A condition is a predicate, an expression or a text wherever one is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, maintenance, parse_expression
from delta_ops.errors import InvalidRequestError

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "s": ["x", "Y", "y", "z"]})
SAME = [
    pytest.param(col("p") == "a", id="predicate"),
    pytest.param("p = 'a'", id="text"),
    pytest.param(parse_expression("p = 'a'"), id="expression"),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    feed = {"delta.enableChangeDataFeed": "true"}
    da.write(tmp_path, ROWS, partition_by=["p"], configuration=feed)
    return tmp_path


@pytest.mark.parametrize("condition", SAME)
def test_the_same_condition_reads_the_same_rows(table: Path, condition: Any) -> None:
    assert sorted(da.to_table(table, predicate=condition)["id"].to_pylist()) == [1, 2]
    assert sum(map(len, da.to_batches(table, ["id"], condition))) == 2
    assert da.count_rows(table, condition) == 2
    assert da.read_changes(table, 0, predicate=condition).read_all().num_rows == 2


@pytest.mark.parametrize("condition", SAME)
def test_the_same_condition_selects_what_is_replaced_and_maintained(
    table: Path, condition: Any
) -> None:
    da.write(table, ROWS.slice(0, 1), "overwrite", replace_where=condition)
    assert sorted(da.to_table(table)["id"].to_pylist()) == [1, 3, 4]
    da.write(table, ROWS.slice(0, 2))
    assert maintenance.optimize(table, predicate=condition).files_removed == 2
    assert maintenance.purge(table, predicate=condition).version is None


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("lower(s) = 'y'", [2, 3]),
        ("id + 1 > 3", [3, 4]),
        ("id % 2 = 0 AND p IS NULL", [4]),
        ("s > upper(s)", [1, 3, 4]),
        ("p = 'b' OR length(s) > 1", [3]),
        ("coalesce(p, 'a') = 'a'", [1, 2, 4]),
    ],
)
def test_a_read_takes_every_expression_of_the_engine(
    table: Path, text: str, ids: list[int]
) -> None:
    for condition in (text, parse_expression(text)):
        found = da.to_table(table, ["id"], condition)
        assert found.column_names == ["id"]
        assert sorted(found["id"].to_pylist()) == ids
        assert da.count_rows(table, condition) == len(ids)


def test_a_read_by_text_skips_files(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for add in DeltaLog(table).snapshot().add_files(col("p") == "b"):
        (table / add.path).unlink()
    assert da.to_table(table, ["id"], "p = 'a' AND lower(s) = 'y'")["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nope = 1", "nope"),
        ("lower(nope) = 'y'", "nope"),
        ('"p" = 1', "double quotes"),
        ("'p' = 'a'", "uses no column"),
        ("id + 1", "condition"),
        ("id >", "id >"),
        ("", "condition|expression|empty"),
    ],
)
def test_a_text_is_refused_as_in_a_delete(table: Path, text: str, problem: str) -> None:
    for call in (da.to_table, da.to_batches, da.count_rows, da.delete):
        with pytest.raises(InvalidRequestError, match=problem):
            call(table, predicate=text)
    assert DeltaLog(table).snapshot().version == 0


def test_what_replaces_or_maintains_rows_takes_comparisons_only(table: Path) -> None:
    condition = parse_expression("lower(s) = 'y'")
    for call in (
        lambda: da.write(table, ROWS, "overwrite", replace_where=condition),
        lambda: maintenance.optimize(table, predicate=condition),
        lambda: maintenance.purge(table, predicate=condition),
        lambda: da.read_changes(table, 0, predicate=condition),
    ):
        with pytest.raises(InvalidRequestError, match="compare columns with literals"):
            call()
