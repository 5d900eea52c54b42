"""A checkpoint of ours of any table that another engine wrote changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from delta_ops import DeltaLog, Snapshot
from delta_ops.errors import DeltaOpsError, UnsupportedFeatureError
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.arrow_schemas import REMOVE
from delta_ops.protocol.features import FEATURES
from delta_ops.protocol.stats import num_records
from tests.support.tables import SHARED, needs_shared

pytestmark = needs_shared

TABLES = sorted(path.parent for path in SHARED.glob("data/tables/**/_delta_log"))


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
"""Fields of tombstones that the reference leaves out."""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_checkpoint_changes_nothing(table: Path, tmp_path: Path) -> None:
    root = tmp_path / "t"
    shutil.copytree(table / "_delta_log", root / "_delta_log")
    log = DeltaLog(root)
    try:
        before = log.snapshot()
    except DeltaOpsError:
        return  # of a damaged log there is no state to keep
    try:
        written = create_checkpoint(log, clock=lambda: 0).written
    except UnsupportedFeatureError as error:
        assert not set(error.features) & KNOWN  # noqa: PT017
        return
    after = DeltaLog(root).snapshot()
    assert written is None or after.commits_since_checkpoint == 0
    assert state(after) == state(before)
