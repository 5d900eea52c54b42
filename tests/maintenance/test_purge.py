"""Files rewritten for their deletion vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import purge
from delta_ops.protocol.actions import AddFile
from tests.tables import rows

PROPERTIES = {"delta.enableDeletionVectors": "true"}


def marked(root: Path) -> DeltaLog:
    """Three files: of one no row is deleted, of one a tenth, of one most."""
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


def test_files_without_statistics_are_rewritten_where_that_is_asked_for(tmp_path: Path) -> None:
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


def test_the_commit_says_what_it_is(tmp_path: Path) -> None:
    log = marked(tmp_path)
    version = purge(log).version
    text = (tmp_path / "_delta_log" / f"{version:020d}.json").read_text()
    (info,) = [
        line["commitInfo"] for line in map(json.loads, text.splitlines()) if "commitInfo" in line
    ]
    assert info["operation"] == "REORG"
    assert info["operationMetrics"]["numDeletionVectorsRemoved"] == "2"
