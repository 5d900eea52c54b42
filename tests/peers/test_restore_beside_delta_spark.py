"""Restore, compared with the reference on copies of one table; it also reads our repairs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log import Snapshot
from delta_ops.maintenance import repair, restore, revert
from tests.maintenance.restored_tables import TXN, actions, commit, describe_files, history, ids
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows

PROPERTIES = "'delta.enableDeletionVectors'='true','delta.enableChangeDataFeed'='true'"
LATEST = 5
METRICS = (
    "operation",
    "operationParameters",
    "operationMetrics",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
)
"""Fields of commitInfo."""


@pytest.fixture(scope="module")
def by_spark(delta_spark: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 inserts ten rows, 2 and 3 delete some by vectors, 4 adds a column, 5 a row."""
    table = tmp_path_factory.mktemp("history") / "t"
    name = f"delta.`{table}`"
    for statement in (
        f"CREATE TABLE {name} (id bigint, p string) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({PROPERTIES})",
        f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, 'a b' FROM range(10)",
        f"DELETE FROM {name} WHERE id = 3",
        f"DELETE FROM {name} WHERE id = 4",
        f"ALTER TABLE {name} ADD COLUMN c int",
        f"INSERT INTO {name} VALUES (20, 'b', 1)",
    ):
        delta_spark.sql(statement)
    return table


def definition(snapshot: Snapshot) -> tuple[Any, ...]:
    protocol = snapshot.protocol
    features = set(protocol.writer_features or ()), set(protocol.reader_features or ())
    return snapshot.metadata, protocol.min_reader_version, protocol.min_writer_version, features


@pytest.mark.full
def test_a_restored_table_equals_the_table_that_the_reference_restores(
    delta_spark: DeltaSpark, by_spark: Path, tmp_path: Path
) -> None:
    ours, theirs = (shutil.copytree(by_spark, tmp_path / name) for name in ("ours", "theirs"))
    log, other = DeltaLog(ours), DeltaLog(theirs)
    for version in (2, LATEST):
        before = log.snapshot().version
        restore(log, version=version)
        delta_spark.sql(f"RESTORE TABLE delta.`{theirs}` TO VERSION AS OF {version}")

        assert describe_files(log.snapshot()) == describe_files(other.snapshot())
        assert definition(log.snapshot()) == definition(other.snapshot())
        done = before + 1
        (reported,), (expected,) = (actions(each, done, "commitInfo") for each in (log, other))
        assert {name: reported[name] for name in METRICS} == {
            name: expected[name] for name in METRICS
        }
        for kind in ("add", "remove"):
            flags = [
                sorted((a["path"], a["dataChange"]) for a in actions(each, done, kind))
                for each in (log, other)
            ]
            assert flags[0] == flags[1]
        seen = rows(delta_spark.read(ours))
        assert seen == rows(delta_spark.read(theirs)) == rows(da.to_table(log))
        assert delta_spark.validate(ours)["version"] == done
    changes = [
        sorted(
            (row["id"], row["_change_type"], row["_commit_version"])
            for row in delta_spark.sql(
                "SELECT id, _change_type, _commit_version FROM "
                f"table_changes_by_path('{each}', {LATEST + 1})"
            )
        )
        for each in (ours, theirs)
    ]
    assert changes[0] == changes[1]
    assert changes[0]
    delta_spark.sql(f"INSERT INTO delta.`{ours}` VALUES (30, 'b', 2)")
    assert 30 in ids(log)


@pytest.mark.full
def test_the_reference_reads_our_reverts_and_repairs(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    log = history(tmp_path / "t")
    revert(log, 3)
    (lost, *_) = log.snapshot().add_files()
    (tmp_path / "t" / lost.path).unlink()
    commit(log, *(replace(add, stats=None) for add in log.snapshot().add_files()))
    repair(log, remove_missing=True)

    assert len(ids(log)) == 3
    assert rows(delta_spark.read(tmp_path / "t")) == rows(da.to_table(log))
    assert delta_spark.validate(tmp_path / "t")["num_files"] == 3
    operations = [entry["operation"] for entry in delta_spark.history(tmp_path / "t")]
    assert operations[:3] == ["FSCK", "TEST", "REVERT"]
    delta_spark.write(tmp_path / "t", pa.table({"id": [30], "p": ["a"]}))
    assert 30 in ids(log)
    stats = [json.loads(add.stats or "{}") for add in log.snapshot().add_files()]
    assert all(each["numRecords"] == 1 for each in stats)


@pytest.mark.full
def test_the_reference_writes_again_what_a_restore_has_undone(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    log = history(table)
    options = {"txnAppId": TXN[0], "txnVersion": str(TXN[1])}
    again = pa.table({"id": [7], "p": ["a"]})
    delta_spark.write(table, again, **options)
    assert log.snapshot().version == 4
    restore(log, version=1)
    assert delta_spark.validate(table)["transactions"][TXN[0]] == -1
    delta_spark.write(table, again, **options)
    assert ids(log) == [0, 1, 7]
