"""Files rewritten for their deletion vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.ddl import change_type, drop_columns, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import purge
from delta_ops.protocol.actions import AddFile
from tests.support.tables import rows

UTC = pa.timestamp("us", "UTC")
PROPERTIES = {"delta.enableDeletionVectors": "true"}


def marked(root: Path) -> DeltaLog:
    """Three files: one without deleted rows, one with a tenth deleted, one with most deleted."""
    for first in (0, 100, 200):
        da.write(root, pa.table({"id": range(first, first + 100)}), configuration=PROPERTIES)
    da.delete(root, (col("id") >= 190) & (col("id") < 290))
    assert (
        sum(add.deletion_vector is not None for add in DeltaLog(root).snapshot().add_files()) == 2
    )
    return DeltaLog(root)


@pytest.mark.parametrize(
    ("share", "removed", "vectors_left"),
    [
        pytest.param(0.0, 2, 0, id="any"),
        pytest.param(0.1, 2, 0, id="the share of the least"),
        pytest.param(0.5, 1, 1, id="half"),
        pytest.param(1.0, 0, 2, id="all"),
    ],
)
def test_files_of_so_many_deleted_rows_are_rewritten(
    tmp_path: Path, share: float, removed: int, vectors_left: int
) -> None:
    log = marked(tmp_path)
    before = rows(da.to_table(log))
    result = purge(log, deleted_share=share)
    assert result.files_removed == removed
    adds = log.snapshot().add_files()
    assert sum(add.deletion_vector is not None for add in adds) == vectors_left
    assert rows(da.to_table(log)) == before
    assert not purge(log, deleted_share=share).plan.has_work


def test_a_file_without_rows_goes(tmp_path: Path) -> None:
    log = marked(tmp_path)
    transaction = begin(log)
    (whole,) = [add for add in log.snapshot().add_files() if add.deletion_vector is None]
    assert isinstance(whole, AddFile)
    transaction.remove([whole])
    transaction.commit(operation="DELETE")
    assert purge(log).files_added == 1


def test_files_without_statistics_are_rewritten_on_request(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2]}))
    commit = tmp_path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(map(json.dumps, lines)))
    for checksum in tmp_path.rglob("*.crc"):
        checksum.unlink()
    assert not purge(tmp_path).plan.has_work
    assert purge(tmp_path, lacking_statistics=True).files_removed == 1
    assert DeltaLog(tmp_path).snapshot().files(["num_records"])["num_records"].to_pylist() == [2]


def test_a_share_is_from_0_to_1(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="from 0 to 1"):
        purge(marked(tmp_path), deleted_share=2.0)


def stored_with(root: Path) -> list[str]:
    """Compressions of the live files' columns."""
    return [
        pq.read_metadata(root / add.path).row_group(0).column(0).compression
        for add in DeltaLog(root).snapshot().add_files()
    ]


def test_files_of_another_compression_are_rewritten_on_request(tmp_path: Path) -> None:
    for number in range(2):
        da.write(tmp_path, pa.table({"id": [number]}))
    with pytest.raises(InvalidRequestError, match=r"set delta\.parquet\.compression\.codec first"):
        purge(tmp_path, other_codec=True)
    set_properties(tmp_path, {"delta.parquet.compression.codec": "gzip"})
    da.write(tmp_path, pa.table({"id": [2]}))
    assert not purge(tmp_path).plan.has_work
    assert purge(tmp_path, other_codec=True).files_removed == 2
    assert set(stored_with(tmp_path)) == {"GZIP"}
    assert rows(da.to_table(tmp_path)) == rows(pa.table({"id": [0, 1, 2]}))
    assert not purge(tmp_path, other_codec=True).plan.has_work


@pytest.mark.parametrize("mode", ["none", "name"])
def test_files_of_an_old_schema_are_rewritten_on_request(tmp_path: Path, mode: str) -> None:
    nested = pa.array([{"x": 1, "l": [{"y": 2}]}])
    data = pa.table({"id": [1], "s": nested, "t": pa.array([0], UTC), "p": ["a"]})
    properties = {"delta.columnMapping.mode": mode}
    da.write(tmp_path, data, partition_by=["p"], configuration=properties)
    assert not purge(tmp_path, old_schema=True).plan.has_work
    more = data.append_column("z", [[3]])
    da.write(tmp_path, more, merge_schema=True)
    assert purge(tmp_path, old_schema=True).files_removed == 1
    if mode == "name":
        drop_columns(tmp_path, ["z"])
        assert purge(tmp_path, old_schema=True).files_removed == 2
    assert not purge(tmp_path, old_schema=True).plan.has_work
    assert da.to_table(tmp_path)["s"].to_pylist() == 2 * nested.to_pylist()


def test_files_of_narrower_types_are_rewritten_on_request(tmp_path: Path) -> None:
    properties = {"delta.enableTypeWidening": "true"}
    da.write(tmp_path, pa.table({"id": pa.array([1], pa.int32())}), configuration=properties)
    change_type(tmp_path, "id", "long")
    da.write(tmp_path, pa.table({"id": pa.array([1 << 40])}))
    assert purge(tmp_path, old_schema=True).files_removed == 1
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == [1, 1 << 40]
    assert not purge(tmp_path, old_schema=True).plan.has_work


def test_files_of_large_row_groups_are_rewritten_on_request(tmp_path: Path) -> None:
    least = 64 << 20
    with pytest.raises(InvalidRequestError, match=f"at least {least}"):
        purge(tmp_path_of_rows(tmp_path), max_row_group_bytes=least - 1)
    (add,) = DeltaLog(tmp_path).snapshot().add_files()
    numbers = np.random.default_rng(1).integers(0, 2**62, 9 << 20)
    pq.write_table(pa.table({"id": numbers}), tmp_path / add.path, row_group_size=9 << 20)
    replaced = (tmp_path / add.path).stat().st_size
    rewrite_size(tmp_path, replaced)
    assert purge(tmp_path, max_row_group_bytes=least).files_removed == 1
    assert da.count_rows(tmp_path) == 9 << 20
    assert not purge(tmp_path, max_row_group_bytes=least).plan.has_work


def tmp_path_of_rows(root: Path) -> Path:
    da.write(root, pa.table({"id": [1]}))
    return root


def rewrite_size(root: Path, size: int) -> None:
    """Write the file's real statistics to the log."""
    commit = root / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["size"] = size
            del line["add"]["stats"]
    commit.write_text("\n".join(map(json.dumps, lines)))
    for checksum in root.rglob("*.crc"):
        checksum.unlink()


def test_vectors_may_be_no_reason(tmp_path: Path) -> None:
    assert not purge(marked(tmp_path), deleted_share=None).plan.has_work
