"""A file that a checkpoint names twice counts once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.checksum_write.file_figures import count_files
from delta_ops.log.version.repeated_files import drop_repeated, hash_keys
from delta_ops.maintenance import health, optimize, plan_maintenance
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.arrow_schemas import ADD
from tests.support.tables import add, write_log


def twice(log: DeltaLog, *, keep_checksum: bool) -> DeltaLog:
    """The table, with each file action of its latest checkpoint repeated."""
    directory = Path(log.uri) / "_delta_log"
    (checkpoint,) = directory.glob("*.checkpoint.parquet")
    stored = pq.read_table(checkpoint)
    pq.write_table(pa.concat_tables([stored, stored.filter(stored["add"].is_valid())]), checkpoint)
    for commit in directory.glob("*.json"):
        commit.unlink()
    if not keep_checksum:
        for checksum in directory.glob("*.crc"):
            checksum.unlink()
    return DeltaLog(log.uri)


@pytest.fixture(params=[True, False], ids=["with a checksum", "without a checksum"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> DeltaLog:
    da.write(tmp_path, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    da.write(tmp_path, pa.table({"id": [3], "p": ["a"]}), mode="append")
    write_checkpoint(DeltaLog(tmp_path).snapshot(), now_ms=0)
    return twice(DeltaLog(tmp_path), keep_checksum=request.param)


def test_files_that_occur_twice_in_a_checkpoint_count_once(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    assert snapshot.num_files == 3
    assert len(snapshot.files(["path"])) == 3
    assert len(snapshot.add_files()) == 3
    assert snapshot.size_bytes == sum(snapshot.files(["size"])["size"].to_pylist())
    assert count_files(snapshot).num_files == 3


def test_their_rows_are_read_once(log: DeltaLog) -> None:
    assert sorted(da.to_table(log)["id"].to_pylist()) == [1, 2, 3]
    assert da.count_rows(log) == 3
    assert da.to_table(log, predicate=col("id") >= 3)["id"].to_pylist() == [3]
    assert len(log.snapshot().files(["path"], col("p") == "a")) == 2


def test_their_rows_are_compacted_once(log: DeltaLog) -> None:
    optimize(log)
    assert sorted(da.to_table(log)["id"].to_pylist()) == [1, 2, 3]


def test_health_and_the_plan_count_them_once(log: DeltaLog) -> None:
    snapshot, figures = log.snapshot(), health(log).figures
    assert (figures.num_files, figures.size_bytes) == (3, snapshot.size_bytes)
    assert figures.mergeable_files == plan_maintenance(log).small_files == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path, id="the same text"),
        pytest.param(lambda path: path.replace("a", "%61", 1), id="another letter encoded"),
    ],
)
@pytest.mark.parametrize("length", [1, 20, 31, 32, 33, 200])
def test_one_of_several_rows_of_a_file_stays(length: int, change: Callable[[str], str]) -> None:
    paths = [f"a{n}".rjust(length, "a") for n in range(9)]
    rows = pa.Table.from_pylist([{"path": p} for p in [*paths, change(paths[2]), "b"]], ADD)
    stay = drop_repeated(rows, "/t")["path"].to_pylist()
    assert stay == [*paths, "b"]


def test_files_of_paths_with_equal_ends_all_stay(tmp_path: Path) -> None:
    end = "/part-" + "0" * 40
    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="x" * 20, offset=1, size_in_bytes=1, cardinality=1
    )
    adds = [add(f"p={n}{end}") for n in range(3)] + [add(f"p=9{end}", deletion_vector=vector)]
    log = write_log(tmp_path, [adds])
    write_checkpoint(log.snapshot(), now_ms=0)
    assert log.snapshot().num_files == 4
    assert len(log.snapshot().files(["path"])) == 4


def test_few_keys_have_the_same_numbers_as_many() -> None:
    keys = [f"{'é' * (i % 40)}part-{i * 7919}-{i:032x}.parquet"[: 10 + i % 60] for i in range(300)]
    many = hash_keys(pa.chunked_array([keys])).to_pylist()
    few = hash_keys(pa.chunked_array([keys[i : i + 7] for i in range(0, 300, 7)])).to_pylist()
    assert few == many
    assert len(set(many)) > 50
