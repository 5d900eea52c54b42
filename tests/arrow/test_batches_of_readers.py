"""Batches of readers: of any number of rows, and unlike the schema that their reader states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.errors import InvalidRequestError

POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
WriteBatch = Callable[[pa.RecordBatch], Any]


def merge_batch(root: Path, source: pa.RecordBatchReader) -> None:
    merge = da.merge(root, source, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.fixture(params=[da.write, merge_batch], ids=["write", "merge"])
def write_batch(tmp_path: Path, request: pytest.FixtureRequest) -> WriteBatch:
    """Writes a batch of a reader that states the schema of the table."""
    table = pa.table({"id": [0], "a": pa.array([{"x": 0, "y": "a"}], POINT)})
    da.write(tmp_path, table)

    def write(batch: pa.RecordBatch) -> Any:
        request.param(tmp_path, pa.RecordBatchReader.from_batches(table.schema, iter([batch])))
        return da.to_table(tmp_path, predicate="id = 1").to_pylist()

    return write


def test_fields_of_a_batch_in_another_order_than_in_its_reader_keep_their_values(
    write_batch: WriteBatch,
) -> None:
    a = pa.array([{"y": "b", "x": 1}], pa.struct([("y", pa.string()), ("x", pa.int64())]))
    assert write_batch(pa.record_batch({"id": [1], "a": a})) == [{"id": 1, "a": {"x": 1, "y": "b"}}]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        pytest.param({"id": [1], "a": [{"x": "1"}]}, "'a.x' is int64 .* string", id="a type"),
        pytest.param({"a": [{"x": 1}]}, "a batch of the data has the columns", id="no column"),
    ],
)
def test_a_batch_that_contradicts_the_schema_of_its_reader_is_refused(
    write_batch: WriteBatch, batch: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        write_batch(pa.record_batch(batch))


@pytest.mark.parametrize(
    ("num_rows", "expected"),
    [(0, [0]), (1 << 20, [1 << 20]), (2_500_000, [1 << 20, 1 << 20, 402_848])],
)
def test_a_batch_of_many_rows_is_taken_in_parts(num_rows: int, expected: list[int]) -> None:
    rows = pa.record_batch({"id": pa.arange(0, num_rows)})
    batches = list(ArrowData(rows).batches())
    assert list(map(len, batches)) == expected
    assert pa.Table.from_batches(batches) == pa.table(rows)
