"""Checkpoints of every kind, killed before and after each storage call, and run again."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.storage import Storage
from tests.log.test_checkpoint_kinds import KINDS, SIDECARS, Kind, busy, by_deltalake, state
from tests.support.crash_states import crash_states
from tests.support.tables import add, remove


@pytest.mark.some_cases(2)
@KINDS
def test_a_crash_at_any_call_changes_nothing_and_a_rerun_finishes(
    tmp_path: Path, kind: Kind
) -> None:
    """The second checkpoint keeps some sidecars, drops some, and writes new sidecars."""
    template = tmp_path / "template"
    log = busy(kind, template)
    write_checkpoint(log.snapshot(3), now_ms=0, part_rows=kind[2])
    if kind is SIDECARS:
        # A second checkpoint: some of the changed rows are in a sidecar that stays.
        new = [add(f"new/{i}.parquet", partition_values={"p": None}) for i in range(2)]
        create_commit(log.storage, log.log_directory, 6, new)
        write_checkpoint(log.snapshot(), now_ms=0)
        gone = remove("new/0.parquet", deletion_timestamp=1)
        create_commit(log.storage, log.log_directory, 7, [gone])
    expected, foreign = state(log.snapshot()), by_deltalake(template)
    numbers = count()

    def fresh() -> Storage:
        return DeltaLog(shutil.copytree(template, tmp_path / str(next(numbers)))).storage

    def run(storage: Storage) -> None:
        snapshot = DeltaLog("", storage=storage).snapshot()
        write_checkpoint(snapshot, now_ms=0, part_rows=kind[2])

    for where, storage in crash_states(fresh, run):
        left = DeltaLog("", storage=storage)
        assert state(left.snapshot()) == expected, where
        assert by_deltalake(Path(storage.uri)) == foreign, where
        run(storage)
        finished = left.snapshot()
        assert finished.commits_since_checkpoint == 0, where
        assert state(finished) == expected, where
        assert by_deltalake(Path(storage.uri)) == foreign, where
    assert next(numbers) > 10
