"""Repair: differences between log and store are found, and fixed on request."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import optimize, plan_repair, repair, restore, vacuum
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import data_file, inline_vector, vector_file
from tests.cli.test_commands import run
from tests.maintenance.restored_tables import (
    actions,
    commit,
    describe_files,
    history,
    ids,
    make_with_vectors,
    racing,
    write,
    writer_protocol,
)
from tests.support.tables import rows, rows_by_deltalake


def later() -> int:
    """A month from now, when uncommitted files are orphans."""
    return system_clock() + 30 * DAY_MS


def lose(log: DeltaLog, value: int) -> str:
    """Delete the file of the row with this id; return its path."""
    files = log.snapshot().add_files(col("id") == value)
    (path,) = [add.path for add in files]
    (Path(log.uri) / path).unlink()
    return path


def without_statistics(root: Path, stats: str | None = None) -> DeltaLog:
    """A table without file statistics."""
    log = history(root)
    commit(log, *(replace(add, stats=stats) for add in log.snapshot().add_files()))
    return log


def test_a_sound_table_needs_no_repair(tmp_path: Path) -> None:
    log = history(tmp_path)
    result = repair(log, remove_missing=True)
    assert (result.version, result.plan.has_work, result.plan.is_healthy) == (None, False, True)
    assert (result.plan.num_files, result.plan.orphans) == (2, ())
    assert log.snapshot().version == 4


def test_an_entry_whose_file_is_gone_leaves_the_table_on_request_only(tmp_path: Path) -> None:
    log = history(tmp_path)
    path = lose(log, 10)
    found = repair(log)
    assert [add.path for add in found.plan.missing] == [path]
    assert (found.version, log.snapshot().version) == (None, 4)
    assert repair(log, remove_missing=True, dry_run=True).version is None

    result = repair(log, remove_missing=True)
    assert (result.version, result.removed_files) == (5, 1)
    assert ids(log) == [9]
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(log))
    assert validate_checksum(log.snapshot())
    (info,) = actions(log, 5, "commitInfo")
    assert info["operation"] == "FSCK"
    assert info["operationMetrics"]["numMissingFiles"] == "1"
    (remove,) = actions(log, 5, "remove")
    assert (remove["path"], remove["dataChange"]) == (path, True)
    assert [txn["appId"][:17] for txn in actions(log, 5, "txn")] == ["delta_ops:repair:"]
    assert repair(log, remove_missing=True).version is None


def test_a_table_that_is_gone_as_a_whole_is_not_emptied(tmp_path: Path) -> None:
    log = history(tmp_path)
    lose(log, 9)
    lose(log, 10)
    with pytest.raises(InvalidRequestError, match=r"all .* files of the table are missing"):
        repair(log, remove_missing=True)
    assert len(repair(log).plan.missing) == 2
    assert log.snapshot().version == 4


def test_a_file_behind_a_link_is_not_missing(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot().add_files(col("id") == 10)
    (tmp_path / add.path).rename(tmp_path / "_moved")
    (tmp_path / add.path).symlink_to("_moved")
    assert repair(log, remove_missing=True).plan.is_healthy
    assert ids(log) == [9, 10]


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    "stats",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("{}", id="nothing in them"),
        pytest.param("not JSON", id="malformed"),
        pytest.param('{"numRecords":null,"minValues":{"id":0}}', id="no count"),
        pytest.param('{"nullCount":{"numRecords":0}}', id="a column of that name"),
        pytest.param('{"numRecords":1,"minValues":{"id"', id="cut off after the count"),
        pytest.param('{"numRecords":99999999999999999999}', id="a count that no file has"),
    ],
)
def test_statistics_are_made_from_footers(tmp_path: Path, stats: str | None) -> None:
    log = without_statistics(tmp_path, stats)
    before = describe_files(log.snapshot(4))
    result = repair(log)
    assert (result.version, result.described_files) == (6, 2)
    assert describe_files(log.snapshot()) == before
    assert ids(log) == [9, 10]
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(log))
    assert validate_checksum(log.snapshot())
    (info,) = actions(log, 6, "commitInfo")
    assert (info["operation"], info["isBlindAppend"]) == ("COMPUTE STATS", False)
    assert info["operationParameters"] == {"predicate": "[]"}
    assert not any(add["dataChange"] for add in actions(log, 6, "add"))
    assert not actions(log, 6, "remove")
    assert repair(log).version is None


def test_statistics_that_are_there_stay_in_whatever_order(tmp_path: Path) -> None:
    log = without_statistics(tmp_path, '{"minValues":{"id":0},"numRecords":1}')
    assert repair(log).plan.is_healthy


def test_statistics_are_not_filled_in_unless_wanted(tmp_path: Path) -> None:
    log = without_statistics(tmp_path)
    result = repair(log, fill_statistics=False)
    assert (result.version, len(result.plan.without_statistics)) == (None, 2)


def test_both_repairs_are_one_commit(tmp_path: Path) -> None:
    log = without_statistics(tmp_path)
    path = "gone.parquet"
    commit(log, replace(log.snapshot().add_files()[0], path=path))
    result = repair(log, remove_missing=True)
    assert (result.version, result.described_files, result.removed_files) == (7, 2, 1)
    assert ids(log) == [9, 10]


def test_bounds_of_a_file_with_a_deletion_vector_are_not_tight(tmp_path: Path) -> None:
    log = make_with_vectors(tmp_path)
    (add,) = log.snapshot().add_files()
    commit(log, replace(add, stats=None))
    repair(log)
    (repaired,) = log.snapshot().add_files()
    stats = json.loads(repaired.stats or "")
    assert (stats["numRecords"], stats["tightBounds"]) == (10, False)
    assert stats["minValues"]["id"] == 0
    assert repaired.deletion_vector == add.deletion_vector
    assert ids(log) == [2, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 5000], ids=["empty", "short", "long"])
def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_repaired(
    tmp_path: Path, content: bytes
) -> None:
    log = without_statistics(tmp_path)
    (add,) = [a for a in log.snapshot(4).add_files() if '"minValues":{"id":9' in (a.stats or "")]
    (tmp_path / add.path).write_bytes(content)
    result = repair(log)
    assert result.described_files == 1
    (failure,) = result.failures
    assert add.path in failure
    assert f"{len(content)} bytes instead of {add.size}" in failure


@pytest.mark.parametrize("size", [0, 200])
def test_a_file_that_was_cut_off_is_only_reported(tmp_path: Path, size: int) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot().add_files(col("id") == 10)
    os.truncate(tmp_path / add.path, size)
    for dry_run in (True, False):
        result = repair(log, remove_missing=True, dry_run=dry_run)
        assert (result.version, result.plan.missing) == (None, ())
        assert [each.path for each in result.plan.truncated] == [add.path]
        assert not result.plan.is_healthy
    assert (tmp_path / add.path).stat().st_size == size
    dry, real = (run("repair", tmp_path, *options) for options in (["--dry-run"], []))
    assert (dry.exit_code, real.exit_code) == (3, 1)
    assert f"1 file of the table is shorter than the log says, first {add.path}" in (real.stderr)


def test_a_file_behind_a_link_that_was_cut_off_is_reported(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot().add_files(col("id") == 10)
    (tmp_path / add.path).rename(tmp_path / "_moved")
    (tmp_path / add.path).symlink_to("_moved")
    os.truncate(tmp_path / "_moved", 100)
    assert [each.path for each in repair(log).plan.truncated] == [add.path]


def test_a_deletion_vector_that_is_gone_is_only_reported(tmp_path: Path) -> None:
    log = make_with_vectors(tmp_path)
    vector_file(tmp_path).unlink()
    result = repair(log, remove_missing=True)
    assert result.version is None
    assert (len(result.plan.missing_vectors), result.plan.is_healthy) == (1, False)
    assert not result.plan.missing


def test_an_inline_vector_is_never_gone(tmp_path: Path) -> None:
    log = make_with_vectors(tmp_path)
    (add,) = log.snapshot().add_files()
    commit(
        log,
        tombstone(add, 1, data_change=True),
        replace(add, deletion_vector=inline_vector([0])),
    )
    vector_file(tmp_path).unlink()
    assert repair(log).plan.is_healthy


def test_orphans_are_reported_and_stay(tmp_path: Path) -> None:
    log = make_with_vectors(tmp_path)
    for path in ("orphan.parquet", "p=a/orphan.parquet", "_hidden", "other/_delta_log/0.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"junk")
    result = repair(log, clock=later, remove_missing=True)
    assert [info.path for info in result.plan.orphans] == ["orphan.parquet", "p=a/orphan.parquet"]
    assert result.plan.is_healthy
    assert (tmp_path / "orphan.parquet").exists()
    assert not repair(log).plan.orphans


def test_a_file_with_a_tombstone_is_no_orphan(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert not repair(log, clock=later).plan.orphans
    restore(log, version=1)
    assert not repair(log, clock=later).plan.orphans


def test_files_outside_the_table_are_looked_for_too(tmp_path: Path) -> None:
    log = history(tmp_path / "t")
    add = data_file(tmp_path, "elsewhere.parquet", pa.table({"id": [1]}))
    commit(log, replace(add, path=f"file://{tmp_path}/elsewhere.parquet"))
    result = repair(log, remove_missing=True)
    assert (result.version, result.plan.outside, result.plan.num_files) == (None, 0, 3)


def test_the_plan_compares_a_listing_with_the_log(tmp_path: Path) -> None:
    log = history(tmp_path)
    listed = [i for i in log.storage.list_tree("") if not i.path.endswith(".parquet")]
    plan = plan_repair(log.snapshot(), listed, now_ms=system_clock(), retention_ms=0)
    assert {add.path for add in plan.missing} == {a.path for a in log.snapshot().add_files()}
    assert (plan.version, plan.num_files) == (4, 2)


def test_no_table_and_no_support_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        repair(DeltaLog(tmp_path))
    log = history(tmp_path)
    commit(log, writer_protocol("inCommitTimestamp-preview"))
    with pytest.raises(UnsupportedFeatureError, match="inCommitTimestamp-preview"):
        repair(log)


@pytest.mark.parametrize(
    "rival",
    [
        pytest.param(lambda log: write(log, [5], mode="overwrite"), id="removed"),
        pytest.param(
            lambda log: commit(
                log,
                *(
                    replace(a, tags={"k": "v"}, data_change=False)
                    for a in log.snapshot().add_files()
                ),
            ),
            id="described",
        ),
        pytest.param(lambda log: restore(log, version=1), id="restored over"),
    ],
)
def test_a_file_that_somebody_changed_first_is_not_described(
    tmp_path: Path, rival: Callable[[DeltaLog], object]
) -> None:
    log = without_statistics(tmp_path)
    with pytest.raises(CommitConflictError):
        repair(racing(log, lambda: rival(log)))
    left = ids(log)
    repair(log)
    assert ids(log) == left


def test_appends_do_not_disturb_it_and_of_two_runs_one_commits(tmp_path: Path) -> None:
    log = without_statistics(tmp_path)
    raced = repair(racing(log, lambda: repair(log)))
    assert (raced.version, raced.already_committed, raced.described_files) == (6, True, 0)
    log = without_statistics(tmp_path / "other")
    assert repair(racing(log, lambda: write(log, [50]))).version == 7
    assert ids(log) == [9, 10, 50]


def test_vacuum_and_optimize_go_on_after_it(tmp_path: Path) -> None:
    log = without_statistics(tmp_path)
    lost = lose_by_name(log)
    repair(log, remove_missing=True)
    optimize(log)
    vacuum(log, retention=timedelta(0), enforce_retention=False, clock=later)
    assert ids(log) == [9]
    assert lost


def lose_by_name(log: DeltaLog) -> str:
    """Delete the file of id 10 when no statistics exist to find it."""
    (add,) = log.snapshot(4).add_files(col("id") == 10)
    (Path(log.uri) / add.path).unlink()
    return add.path
