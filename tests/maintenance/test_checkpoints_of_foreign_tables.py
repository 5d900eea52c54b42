"""Our checkpoints of foreign tables change nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from delta_ops import DeltaLog, Snapshot
from delta_ops.errors import DeltaOpsError, UnsupportedFeatureError
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.arrow_schemas import REMOVE
from delta_ops.protocol.features import FEATURES
from delta_ops.protocol.stats.file_stats import num_records
from tests.support.tables import SHARED, needs_shared

pytestmark = needs_shared

TABLES = sorted(path.parent for path in SHARED.glob("data/tables/**/_delta_log"))
OF_FEATURES = {
    "COVID-19_NYT",
    "cdf-table-with-cdc-and-dvs",
    "checkpoints_vacuumed",
    "compacted-log-files-table",
    "delta-0.8.0-special-partition",
    "delta-2.2.0-partitioned-types",
    "delta-live-table",
    "name",
    "partitioned_with_materialize_feature",
    "table-with-domain-metadata",
    "table_failed_last_checkpoint_update",
    "table_with_deletion_logs",
    "table_with_edge_timestamps",
    "table_with_liquid_clustering",
    "v1-multi-part-partitioned-struct-stats-only",
    "v2-checkpoints-json-with-sidecars",
    "v2-checkpoints-parquet-with-sidecars",
    "with-short-dv",
}
"""Tables in `make test`: one for each feature and kind of checkpoint."""


def state(snapshot: Snapshot) -> object:
    adds = snapshot.add_rows().sort_by("path").to_pylist()
    removes = snapshot.tombstones().sort_by("path").to_pylist()
    return (
        snapshot.version,
        snapshot.protocol,
        snapshot.metadata,
        dict(snapshot.transactions()),
        dict(snapshot.domain_metadata()),
        [{**row, "dataChange": None, "stats": num_records(row["stats"])} for row in adds],
        [{name: row[name] for name in REMOVE.names if name not in LEFT_OUT} for row in removes],
    )


KNOWN = {feature.name for feature in FEATURES}
LEFT_OUT = ("dataChange", "stats", "tags")
"""Tombstone fields that the reference omits."""


IN_MAKE_TEST = [each for each in TABLES if OF_FEATURES & {each.name, each.parent.name}]


@pytest.mark.some_cases(10)
@pytest.mark.parametrize("table", IN_MAKE_TEST, ids=lambda table: table.name)
def test_a_checkpoint_changes_nothing(table: Path, tmp_path: Path) -> None:
    check_checkpoint(table, tmp_path / "t")


@pytest.mark.full
@pytest.mark.parametrize("writer", ["delta_rs", "golden", "kernel"])
def test_a_checkpoint_of_any_other_table_changes_nothing(writer: str, tmp_path: Path) -> None:
    others = [each for each in TABLES if writer in each.parts and each not in IN_MAKE_TEST]
    assert len(others) > 5
    for number, table in enumerate(others):
        try:
            check_checkpoint(table, tmp_path / str(number))
        except BaseException as error:
            error.add_note(f"of {table}")
            raise


def check_checkpoint(table: Path, root: Path) -> None:
    shutil.copytree(table / "_delta_log", root / "_delta_log")
    log = DeltaLog(root)
    try:
        before = log.snapshot()
    except DeltaOpsError:
        return  # a damaged log has no state to keep
    try:
        written = create_checkpoint(log, clock=lambda: 0).written
    except UnsupportedFeatureError as error:
        assert not set(error.features) & KNOWN  # noqa: PT017
        return
    after = DeltaLog(root).snapshot()
    assert written is None or after.commits_since_checkpoint == 0
    assert state(after) == state(before)
