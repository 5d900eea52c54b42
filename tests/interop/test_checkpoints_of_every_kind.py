"""Our checkpoints of every kind, read by delta-spark and deltalake; and we continue theirs."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import create_checkpoint
from delta_ops.storage import Storage
from tests.peers.delta_spark import DeltaSpark
from tests.support.faulty_storage import crashes
from tests.support.tables import rows

V2 = {"delta.checkpointPolicy": "v2"}
STRUCTS = {
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
}


def written(root: Path, properties: dict[str, str], part_rows: int | None) -> pa.Table:
    """Partitioned rows, some removed, and two checkpoints, without older commits."""
    configuration = {"delta.checkpointInterval": "100", **properties}
    for number in range(6):
        data = pa.table(
            {
                "id": pa.array([number, 10 + number], pa.int64()),
                "day": ["a b", "é%/c"],
                "at": pa.array([number * 1_000_001, None], pa.timestamp("us", "UTC")),
                "x": [number / 7, None],
            }
        )
        # Longer than a year, or another engine's clean-up would delete the log.
        da.write(root, data, partition_by=["day"], configuration=configuration)
        if number == 2:
            create_checkpoint(DeltaLog(root), part_rows=part_rows)
    create_checkpoint(DeltaLog(root), part_rows=part_rows)
    expected = da.to_table(DeltaLog(root))
    for commit in (root / "_delta_log").glob("*.json"):
        if "checkpoint" not in commit.name and not commit.name.endswith("5.json"):
            commit.unlink()
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()
    return expected


@pytest.mark.parametrize(
    "statistics",
    [pytest.param({}, id="json"), pytest.param(STRUCTS, id="structs", marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    ("properties", "part_rows"),
    [
        pytest.param({}, None, id="classic", marks=pytest.mark.full),
        pytest.param({}, 4, id="multi-part", marks=pytest.mark.full),
        pytest.param(V2, None, id="v2"),
    ],
)
def test_delta_spark_reads_it_skips_by_it_and_goes_on(
    delta_spark: DeltaSpark,
    tmp_path: Path,
    properties: dict[str, str],
    part_rows: int | None,
    statistics: dict[str, str],
) -> None:
    root = tmp_path / "t"
    expected = written(root, {**properties, **statistics}, part_rows)
    assert rows(delta_spark.read(root)) == rows(expected)
    assert not delta_spark.warnings
    (found,) = delta_spark.sql(
        f"SELECT count(*) AS n, max(id) AS m FROM delta.`{root}` WHERE id > 13"
    )
    assert (found["n"], found["m"]) == (2, 15)

    delta_spark.write(root, expected.slice(0, 1))
    delta_spark.checkpoint(root)
    create_checkpoint(DeltaLog(root))  # a checksum exists
    assert len(da.to_table(DeltaLog(root))) == len(expected) + 1
    da.write(root, expected.slice(0, 1))
    create_checkpoint(DeltaLog(root), part_rows=part_rows)
    assert len(delta_spark.read(root)) == len(da.to_table(DeltaLog(root))) == len(expected) + 2


@pytest.mark.full
def test_delta_spark_reads_the_table_at_every_moment_of_a_checkpoint_of_parts(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    """A whole checkpoint file exists beside the parts until all parts exist."""
    template = tmp_path / "template"
    for number in range(6):
        da.write(template, pa.table({"id": [number]}))
    numbers = count()

    def fresh() -> Storage:
        return DeltaLog(shutil.copytree(template, tmp_path / str(next(numbers)))).storage

    def run(storage: Storage) -> None:
        create_checkpoint(DeltaLog("", storage=storage), part_rows=2)

    seen: set[frozenset[str]] = set()
    for where, storage in crashes(fresh, run):
        root = Path(storage.uri)
        files = frozenset(p.name for p in (root / "_delta_log").iterdir() if p.name[0] != ".")
        if files not in seen:
            seen.add(files)
            assert rows(delta_spark.read(root)) == [{"id": n} for n in range(6)], where
    assert len(seen) == 7
