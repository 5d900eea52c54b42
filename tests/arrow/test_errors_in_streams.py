"""Errors of files that are read after their stream was returned; see decision 068."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.arrow.read.reading import SOON_FILES
from delta_ops.errors import DataFileError

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with more files than are read at once; its last file is missing."""
    root = tmp_path_factory.mktemp("stream") / "t"
    da.write(root, pa.table({"id": [0]}), configuration=FEED)
    transaction = begin(DeltaLog(root))
    for number in range(SOON_FILES + 2):
        transaction.stage(da.stage_write(root, pa.table({"id": [number]})))
    transaction.commit(operation="WRITE")
    (commit,) = DeltaLog(root).commits(1, 1)
    last = commit.adds["path"].to_pylist()[-1]
    (root / last).unlink()
    return root


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda reader: reader.read_all(), id="read_all"),
        pytest.param(list, id="a loop"),
        pytest.param(lambda reader: reader.read_pandas(), id="read_pandas"),
    ],
)
def test_python_code_that_takes_a_stream_gets_the_error_of_a_later_file(
    table: Path, take: Callable[[pa.RecordBatchReader], object]
) -> None:
    with pytest.raises(DataFileError):
        take(da.read_changes(table, 0))


def test_the_c_interface_keeps_the_text_of_an_error_and_not_its_type(table: Path) -> None:
    with pytest.raises(pa.ArrowInvalid, match="DataFileError"):
        pa.table(da.read_changes(table, 0))


def test_batches_raise_the_error_itself(table: Path) -> None:
    with pytest.raises(DataFileError):
        list(da.to_batches(table))
    with pytest.raises(DataFileError):
        da.to_table(table)
