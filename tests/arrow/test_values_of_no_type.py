"""Values outside their Arrow type are rejected before any write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from tests.support.tables import rows_by_deltalake

BYTES = [b"ok", b"\xff\xfe", None]
TEXT = pa.array(BYTES).view(pa.string())

COLUMNS = [
    pytest.param(TEXT, id="text"),
    pytest.param(pa.array(BYTES, pa.large_binary()).view(pa.large_string()), id="large text"),
    pytest.param(pa.array(BYTES, pa.binary_view()).view(pa.string_view()), id="a view"),
    pytest.param(TEXT.dictionary_encode(), id="a dictionary"),
    pytest.param(pa.StructArray.from_arrays([TEXT], ["x"]), id="in a struct"),
    pytest.param(pa.ListArray.from_arrays([0, 1, 2, 3], TEXT), id="in a list"),
    pytest.param(
        pa.MapArray.from_arrays([0, 1, 2, 2], pa.array(["k", "k"]), TEXT[:2]), id="in a map"
    ),
]


def files(root: Path) -> list[Path]:
    return sorted(place for place in root.rglob("*") if place.is_file())


@pytest.mark.parametrize("column", COLUMNS)
def test_text_that_is_not_utf_8_is_refused(tmp_path: Path, column: pa.Array) -> None:
    with pytest.raises(InvalidRequestError, match=r"column v .*UTF-?8.* binary column"):
        da.write(tmp_path / "t", pa.table({"id": [1, 2, 3], "v": column}))
    assert not files(tmp_path)


def test_a_partition_value_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [0], "p": ["a"]}), partition_by=["p"])
    before = files(tmp_path)
    data = pa.table({"id": [1, 2, 3], "p": TEXT})
    with pytest.raises(InvalidRequestError, match=r"column p .*UTF-?8"):
        da.write(tmp_path, data)
    with pytest.raises(InvalidRequestError, match=r"column p .*UTF-?8"):
        da.write(tmp_path, data, mode="overwrite", replace_where=col("p") == "a")
    assert files(tmp_path) == before
    assert len(DeltaLog(tmp_path).snapshot().add_files()) == 1


def test_rows_before_a_batch_that_is_refused_are_not_left(tmp_path: Path) -> None:
    good = pa.record_batch({"id": [1] * 3, "v": ["é"] * 3})
    bad = pa.record_batch({"id": [2] * 3, "v": TEXT})
    data = pa.RecordBatchReader.from_batches(good.schema, [good, bad])
    with pytest.raises(InvalidRequestError, match="column v"):
        da.write(tmp_path, data)
    assert not files(tmp_path)


def test_values_hidden_by_a_null_or_a_slice_are_ignored(tmp_path: Path) -> None:
    offsets, data = TEXT.buffers()[1:]
    nulled = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x01"), offsets, data])
    sliced = pa.concat_arrays([TEXT, pa.array(["a", "b"])])[2:]
    da.write(tmp_path, pa.table({"id": [1, 2, 3], "v": nulled, "w": sliced}))
    expected = [(1, "ok", None), (2, None, "a"), (3, None, "b")]
    assert [tuple(row.values()) for row in rows_by_deltalake(tmp_path)] == expected
