"""Which columns of a data file are written with a dictionary."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da


def write(root: Path, num_rows: int, **configuration: str) -> dict[str, bool]:
    """Whether each column has a dictionary, in the order of the table."""
    rows = range(num_rows)
    columns = {
        "unique": [i * 7919 % 1_000_003 for i in rows],
        "few": [f"color {i % 5}" for i in rows],
        "runs": [i // 3 for i in rows],
        "text": [f"{i * 7919 % 1_000_003} is no other" for i in rows],
    }
    data = {f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()}
    da.write(root, pa.table(columns), configuration=data)
    (file,) = root.glob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return dict(zip(columns, [chunk.has_dictionary_page for chunk in chunks], strict=True))


@pytest.mark.parametrize("num_rows", [5_000, 40_000])
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_columns_that_repeat_have_one(tmp_path: Path, mode: str, num_rows: int) -> None:
    found = write(tmp_path, num_rows, columnMapping_mode=mode)
    assert found == {"unique": False, "few": True, "runs": True, "text": False}


def test_all_columns_of_few_rows_have_one(tmp_path: Path) -> None:
    assert all(write(tmp_path, 1000).values())


@pytest.mark.parametrize("num_rows", [10_000, 200_000])
def test_a_file_without_dictionaries_in_vain_is_smaller(tmp_path: Path, num_rows: int) -> None:
    values = pa.table({"unique": [i * 7919 % 1_000_003 for i in range(num_rows)]})
    da.write(tmp_path / "t", values)
    (ours,) = (tmp_path / "t").glob("*.parquet")
    pq.write_table(values, tmp_path / "with.parquet", compression="zstd")
    assert ours.stat().st_size < (tmp_path / "with.parquet").stat().st_size


@pytest.mark.parametrize(
    ("num_rows", "has_dictionary"),
    [
        pytest.param(100, False, id="a file of less than a block"),
        pytest.param(1000, True, id="a larger file"),
    ],
)
def test_files_of_few_bytes_in_partitions_have_none(
    tmp_path: Path, num_rows: int, has_dictionary: bool
) -> None:
    rows = pa.table({"few": [f"color {i % 5}" for i in range(num_rows)], "p": [1] * num_rows})
    da.write(tmp_path, rows, partition_by=["p"])
    (file,) = tmp_path.glob("p=1/*.parquet")
    chunk = pq.read_metadata(file).row_group(0).column(0)
    assert chunk.has_dictionary_page is has_dictionary
    assert da.to_table(tmp_path).equals(rows)
