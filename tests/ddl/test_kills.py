"""A change that is killed at any storage call is made or not made, and is made once when rerun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn, add_columns, add_constraint
from delta_ops.log.checksum import validate_checksum
from tests.faulty_storage import copies_of, crashes
from tests.tables import rows_by_deltalake

TXN = ("ddl", 1)


def add_a_column(log: DeltaLog) -> object:
    return add_columns(log, [NewColumn(name="z", data_type="int")], txn=TXN)


def add_a_constraint(log: DeltaLog) -> object:
    return add_constraint(log, "positive", "id > 0", txn=TXN)


@pytest.mark.parametrize("change", [add_a_column, add_a_constraint])
@pytest.mark.parametrize("interval", ["100", "2"], ids=["no checkpoint", "a checkpoint"])
def test_a_kill_leaves_the_change_made_or_not(
    tmp_path: Path, change: Callable[[DeltaLog], object], interval: str
) -> None:
    root = tmp_path / "table"
    da.write(root, pa.table({"id": [1]}), configuration={"delta.checkpointInterval": interval})
    da.write(root, pa.table({"id": [2]}))
    fresh = copies_of(root, tmp_path)
    seen = set()
    for where, left in crashes(fresh, lambda storage: change(DeltaLog("", storage=storage))):
        log = DeltaLog("", storage=left)
        version = log.snapshot().version
        assert version in (1, 2), where
        seen.add(version)
        assert sorted(da.to_table(log)["id"].to_pylist()) == [1, 2], where
        change(log)
        snapshot = log.snapshot()
        assert snapshot.version == 2, where
        is_column = len(snapshot.schema.fields) == 2
        assert is_column or "delta.constraints.positive" in snapshot.metadata.configuration, where
        validate_checksum(snapshot)
        assert len(rows_by_deltalake(Path(left.uri))) == 2, where
    assert seen == {1, 2}
