"""Tables without columns, and reads of no column: only the number of rows remains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, ddl, maintenance, parse_predicate
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import Predicate
from tests.support.column_less import create_without_columns

TRUE, FALSE = parse_predicate("TRUE"), parse_predicate("FALSE")
ROWS = pa.table({"a": [1, 2, 3], "p": ["x", "y", "y"]})


@pytest.fixture(params=[0, 3], ids=["no rows", "3 rows"])
def num_rows(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def table(tmp_path: Path, num_rows: int) -> Path:
    return create_without_columns(tmp_path / "t", num_rows)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(lambda table: len(da.to_table(table)), id="to_table"),
        pytest.param(lambda table: sum(map(len, da.to_batches(table))), id="to_batches"),
        pytest.param(da.count_rows, id="count_rows"),
        pytest.param(lambda table: da.count_rows(table, TRUE), id="count_rows that match"),
        pytest.param(lambda table: len(da.to_table(table, predicate=TRUE)), id="rows that match"),
        pytest.param(
            lambda table: len(da.read_changes(table, 0).read_all()), id="changes and what they are"
        ),
        pytest.param(
            lambda table: len(da.read_changes(table, 0, columns=[]).read_all()), id="changes"
        ),
    ],
)
def test_a_table_without_columns_has_its_rows(
    table: Path, num_rows: int, count: Callable[[Path], int]
) -> None:
    assert count(table) == num_rows


def test_a_table_without_columns_is_read_without_columns(table: Path) -> None:
    assert da.to_table(table).schema == pa.schema([])
    assert da.count_rows(table, FALSE) == len(da.to_table(table, predicate=FALSE)) == 0


def test_a_condition_on_a_table_without_columns_says_that_there_are_none(table: Path) -> None:
    with pytest.raises(InvalidRequestError, match="no column a; there are no columns"):
        da.to_table(table, predicate=col("a") > 1)
    with pytest.raises(InvalidRequestError, match=r"no column 'a'.* Its columns are none"):
        da.write(table, pa.table({"a": [1]}))
    with pytest.raises(InvalidRequestError, match="no column a; there are no columns"):
        ddl.set_comment(table, "a", "x")


def test_rows_of_a_table_without_columns_are_deleted(table: Path, num_rows: int) -> None:
    assert da.delete(table, "TRUE").metrics["numDeletedRows"] == num_rows
    assert da.count_rows(table) == 0


def test_a_table_without_columns_gets_its_first_column(table: Path, num_rows: int) -> None:
    da.write(table, pa.table({"a": [1]}), merge_schema=True)
    assert sorted(da.to_table(table)["a"].to_pylist(), key=str) == [1, *[None] * num_rows]


def test_a_table_without_columns_is_maintained(table: Path, num_rows: int) -> None:
    log = DeltaLog(table)
    assert maintenance.health(log).figures.mergeable_files == 0
    for operation in (maintenance.maintain, maintenance.optimize, maintenance.create_checkpoint):
        operation(log)
    ddl.generate_manifest(log)
    assert da.count_rows(table) == num_rows


@pytest.mark.some_cases(5)
@pytest.mark.parametrize(
    ("predicate", "num_rows"),
    [
        pytest.param(None, 2, id="every row"),
        pytest.param(TRUE, 2, id="true"),
        pytest.param(FALSE, 0, id="false"),
        pytest.param(col("a") > 1, 1, id="a column of files"),
        pytest.param(col("p") == "y", 1, id="a partition column"),
        pytest.param(col("a") > 7, 0, id="no row"),
    ],
)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_read_of_no_column_has_as_many_rows(
    tmp_path: Path, vectors: str, predicate: Predicate | None, num_rows: int
) -> None:
    properties = {"delta.enableDeletionVectors": vectors, "delta.enableChangeDataFeed": "true"}
    da.write(tmp_path, ROWS, partition_by=["p"], configuration=properties)
    da.delete(tmp_path, "a = 3")
    assert da.to_table(tmp_path, [], predicate).schema == pa.schema([])
    assert len(da.to_table(tmp_path, [], predicate)) == num_rows
    inserts = da.read_changes(tmp_path, 0, 0, columns=[], predicate=predicate).read_all()
    assert len(inserts) == da.count_rows(tmp_path, predicate, version=0) >= num_rows
