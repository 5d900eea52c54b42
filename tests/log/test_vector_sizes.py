"""A deletion vector larger than its data file can need is rejected before it is read."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from delta_ops import DeltaLog
from delta_ops.errors import DataFileError
from delta_ops.log.deletion_vectors import load_deletion_vector
from delta_ops.log.outside_files import OutsideFiles, TableFiles
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.deletion_vectors import VectorFile, pack_vectors
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage

GIB = 1 << 30


def vector_of(root: Path, rows: BitMap64, **claims: Any) -> DeletionVector:
    """A vector in a file as long as it claims; the rest of the file is a hole."""
    packed: VectorFile = pack_vectors([rows], uuid.uuid4())
    vector = replace(packed.vectors[0], **claims)
    with (root / packed.path).open("wb") as file:
        file.write(packed.content)
        file.truncate(max(len(packed.content), vector.size_in_bytes + 9))
    return vector


@pytest.mark.parametrize(
    ("rows", "claims", "reason"),
    [
        pytest.param(
            BitMap64([1]),
            {"size_in_bytes": 2 * GIB},
            f"{2 * GIB} bytes according to the log",
            id="bytes",
        ),
        pytest.param(
            BitMap64([1]),
            {"size_in_bytes": 2 * GIB, "cardinality": GIB},
            f"deletes {GIB} rows, but the file has 30 rows",
            id="bytes and rows",
        ),
        pytest.param(
            BitMap64(range(1 << 23)),
            {},
            f"deletes {1 << 23} rows, but the file has 30 rows",
            id="rows in few bytes",
        ),
    ],
)
def test_nothing_is_read_of_a_vector_that_claims_too_much(
    tmp_path: Path, rows: BitMap64, claims: dict[str, int], reason: str
) -> None:
    pq.write_table(pa.table({"id": range(30)}), tmp_path / "a.parquet")
    read = []

    def note(_number: int, _method: str, path: str, _when: str) -> None:
        read.append(path)

    storage = CountingStorage(open_storage(tmp_path), note)
    files = TableFiles(storage, OutsideFiles())
    vector = vector_of(tmp_path, rows, **claims)
    with pytest.raises(DataFileError, match=reason):
        load_deletion_vector(files, 0, "a.parquet", vector)
    assert set(read) == {"a.parquet"}


def test_a_large_vector_of_a_file_of_as_many_rows_is_read(tmp_path: Path) -> None:
    rows = BitMap64(range(0, 10_000_000, 2))
    count = pa.array([None] * 10_000_000, pa.int8())
    pq.write_table(pa.table({"id": count}), tmp_path / "a.parquet")
    vector = vector_of(tmp_path, rows)
    files = TableFiles(DeltaLog(tmp_path).storage, OutsideFiles())
    assert load_deletion_vector(files, 0, "a.parquet", vector) == rows


def test_a_data_file_that_is_gone_is_named(tmp_path: Path) -> None:
    vector = vector_of(tmp_path, BitMap64(range(1 << 23)))
    files = TableFiles(DeltaLog(tmp_path).storage, OutsideFiles())
    with pytest.raises(DataFileError, match=r"a\.parquet cannot be read"):
        load_deletion_vector(files, 0, "a.parquet", vector)
