"""Revert: undoes one commit and keeps later commits, or is rejected with evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import (
    CommitConflictError,
    DataFileError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import optimize, restore, revert
from delta_ops.protocol.actions import DomainMetadata
from delta_ops.transaction.changes import tombstone
from tests.maintenance.restored_tables import (
    TXN,
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
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows, rows_by_deltalake


@pytest.mark.parametrize(
    ("version", "left"),
    [
        pytest.param(4, [9], id="an append"),
        pytest.param(3, [0, 1, 7, 10], id="an overwrite, and what came later stays"),
    ],
)
def test_the_changes_of_a_commit_are_undone(tmp_path: Path, version: int, left: list[int]) -> None:
    log = history(tmp_path)
    result = revert(log, version)
    assert result.version == 5
    assert ids(log) == left
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(log))
    assert validate_checksum(log.snapshot())
    (info,) = actions(log, 5, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("REVERT", {"version": version})
    assert info["operationMetrics"]["numRemovedFiles"] == "1"
    assert info["operationMetrics"]["numRestoredFiles"] == str(len(left) - 1)
    assert [txn["appId"][:17] for txn in actions(log, 5, "txn")] == ["delta_ops:revert:"]


def test_a_file_comes_back_with_all_that_was_known_of_it(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot(0).add_files()
    tagged = replace(add, tags={"k": "v"}, base_row_id=5, default_row_commit_version=1)
    commit(log, tagged)
    version = commit(log, tombstone(tagged, 1, data_change=True))
    revert(log, version)
    assert tagged in describe_files(log.snapshot())


def test_the_txn_of_the_commit_goes_back_unless_it_has_gone_on(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    write(log, [0])
    for number in (1, 2, 3):
        write(log, [number], txn=("loader", number))
    assert revert(log, 2).plan.transactions == {}
    assert revert(log, 3).plan.transactions == {"loader": 2}
    assert not write(log, [3], txn=("loader", 3)).already_committed
    assert ids(log) == [0, 1, 3]


def test_a_rearrangement_is_undone_as_one(tmp_path: Path) -> None:
    log = history(tmp_path)
    before = describe_files(log.snapshot())
    optimize(log)
    write(log, [11])
    revert(log, 5)
    assert not any(add["dataChange"] for add in actions(log, 7, "add"))
    assert not any(remove["dataChange"] for remove in actions(log, 7, "remove"))
    assert ids(log) == [9, 10, 11]
    assert [add for add in describe_files(log.snapshot()) if add in before] == before


def test_a_deletion_vector_is_taken_back(tmp_path: Path) -> None:
    log = make_with_vectors(tmp_path)
    revert(log, 3)
    assert ids(log) == ids(log, 2)
    assert describe_files(log.snapshot()) == describe_files(log.snapshot(2))
    assert len(log.snapshot().add_files()) == 1


def test_a_revert_is_reverted(tmp_path: Path) -> None:
    log = history(tmp_path)
    files = describe_files(log.snapshot())
    revert(log, 3)
    revert(log, 5)
    assert describe_files(log.snapshot()) == files
    with pytest.raises(InvalidRequestError, match=r"version 5 \(REVERT\).*so did 6"):
        revert(log, 3)


@pytest.mark.parametrize(
    "since",
    [
        pytest.param(lambda log: None, id="nothing"),
        pytest.param(lambda log: write(log, [50]), id="an append"),
        pytest.param(lambda log: optimize(log, min_files=2), id="a rearrangement"),
    ],
)
def test_a_rerun_finds_it_done(tmp_path: Path, since: Callable[[DeltaLog], object]) -> None:
    log = history(tmp_path)
    revert(log, 3)
    since(log)
    left, version = ids(log), log.snapshot().version
    again = revert(log, 3)
    assert (again.version, again.already_committed) == (5, True)
    assert (ids(log), log.snapshot().version) == (left, version)


def test_a_dry_run_commits_nothing(tmp_path: Path) -> None:
    log = history(tmp_path)
    plan = revert(log, 3, dry_run=True).plan
    assert (len(plan.adds), len(plan.removes), plan.has_work) == (3, 1, True)
    assert log.snapshot().version == 4


def test_a_commit_that_changed_nothing_leaves_nothing_to_do(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot(0).add_files()
    only_described = [replace(a, tags={"k": "v"}) for a in log.snapshot().add_files()]
    version = commit(log, *(replace(a, data_change=False) for a in only_described))
    result = revert(log, version)
    assert (result.version, result.plan.has_work) == (None, False)
    assert add.path


@pytest.mark.parametrize(
    ("later", "operation"),
    [
        pytest.param(lambda log: write(log, [5], mode="overwrite"), "WRITE", id="removed"),
        pytest.param(optimize, "OPTIMIZE", id="rewritten"),
        pytest.param(lambda log: restore(log, version=2), "RESTORE", id="restored over"),
        pytest.param(
            lambda log: da.write(
                log,
                da.to_table(log).slice(0, 0),
                "overwrite",
                replace_where=col("id") == 10,
            ),
            "WRITE",
            id="deleted from",
        ),
    ],
)
def test_files_that_were_touched_since_are_named(
    tmp_path: Path, later: Callable[[DeltaLog], object], operation: str
) -> None:
    log = history(tmp_path)
    (added,) = [add.path for add in log.snapshot().add_files() if "10" in (add.stats or "")]
    later(log)
    with pytest.raises(InvalidRequestError) as caught:
        revert(log, 4)
    assert f"version 5 ({operation})" in str(caught.value)
    assert added in str(caught.value)
    assert "restore version 3" in str(caught.value)
    assert log.snapshot().version == 5


def test_rows_that_came_back_already_do_not_come_twice(tmp_path: Path) -> None:
    log = history(tmp_path)
    restore(log, version=2)
    optimize(log)
    with pytest.raises(InvalidRequestError, match=r"version 5 \(RESTORE\)"):
        revert(log, 3)
    assert ids(log) == [0, 1, 7]


def test_a_restore_by_deltalake_which_says_the_protocol_once_more_is_reverted(
    tmp_path: Path,
) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, pa.table({"id": [1]}), configuration={"delta.checkpointPolicy": "v2"})
    da.write(log, pa.table({"id": [2]}))
    DeltaTable(tmp_path).restore(0)
    assert actions(log, 2, "protocol")
    assert ids(log) == [1]
    revert(log, 2)
    assert ids(log) == [1, 2]


def test_a_definition_is_not_reverted(tmp_path: Path) -> None:
    log = history(tmp_path)
    changed = commit(log, replace(log.snapshot().metadata, description="x"))
    with pytest.raises(InvalidRequestError, match="changed the schema"):
        revert(log, changed)
    upgraded = commit(log, writer_protocol("domainMetadata"))
    with pytest.raises(InvalidRequestError, match="changed the protocol"):
        revert(log, upgraded)
    set_domain = commit(log, DomainMetadata(domain="mine", configuration="{}"))
    with pytest.raises(InvalidRequestError, match="changed domain metadata"):
        revert(log, set_domain)
    with pytest.raises(InvalidRequestError, match="version 0 created the table"):
        revert(log, 0)


def test_a_write_to_a_table_with_row_ids_is_reverted(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}), configuration={"delta.enableRowTracking": "true"})
    da.write(tmp_path, pa.table({"id": [2]}))
    revert(tmp_path, 1)
    da.write(tmp_path, pa.table({"id": [3]}))
    files = DeltaLog(tmp_path).snapshot().add_files()
    assert sorted(each.base_row_id or 0 for each in files) == [0, 2]
    assert ids(DeltaLog(tmp_path)) == [1, 3]


def test_rows_come_back_only_under_the_rules_of_then(tmp_path: Path) -> None:
    log = history(tmp_path)
    metadata = log.snapshot().metadata
    commit(log, replace(metadata, configuration={"delta.checkpointInterval": "5"}))
    assert revert(log, 3, dry_run=True).plan.has_work
    constraint = {"delta.constraints.c": "id < 5"}
    commit(log, writer_protocol("checkConstraints"))
    commit(log, replace(metadata, configuration=constraint))
    with pytest.raises(InvalidRequestError, match="constraints have changed since"):
        revert(log, 3)
    revert(log, 4)
    assert ids(log) == [9]


def test_files_that_are_gone_are_named(tmp_path: Path) -> None:
    log = history(tmp_path)
    (path,) = log.snapshot(0).files(["path"])["path"].to_pylist()
    (tmp_path / path).unlink()
    with pytest.raises(
        DataFileError,
        match=rf"{path} or its deletion vector is missing.*cannot be reverted; nothing",
    ):
        revert(log, 3)
    assert log.snapshot().version == 4


def test_missing_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        revert(DeltaLog(tmp_path), 1)
    log = history(tmp_path)
    for version in (5, -1):
        with pytest.raises(VersionNotFoundError):
            revert(log, version)


def test_commits_that_were_cleaned_up_are_missed(tmp_path: Path) -> None:
    log = history(tmp_path)
    for number in range(8):
        write(log, [100 + number])
    (tmp_path / "_delta_log" / f"{5:020}.json").unlink()
    with pytest.raises(VersionNotFoundError):
        revert(log, 3)


def test_features_that_a_revert_would_hurt_are_refused(tmp_path: Path) -> None:
    log = history(tmp_path)
    commit(log, writer_protocol("inCommitTimestamp-preview"))
    with pytest.raises(UnsupportedFeatureError, match="inCommitTimestamp-preview"):
        revert(log, 4)


@pytest.mark.parametrize(
    ("version", "rival"),
    [
        pytest.param(4, lambda log: write(log, [5], mode="overwrite"), id="removed"),
        pytest.param(4, optimize, id="rewritten"),
        pytest.param(3, lambda log: restore(log, version=2), id="put back already"),
        pytest.param(
            4,
            lambda log: commit(log, replace(log.snapshot().metadata, description="x")),
            id="the metadata changed",
        ),
    ],
)
def test_the_first_change_of_the_files_wins(
    tmp_path: Path, version: int, rival: Callable[[DeltaLog], object]
) -> None:
    log = history(tmp_path)
    with pytest.raises(CommitConflictError):
        revert(racing(log, lambda: rival(log)), version)
    assert log.snapshot().version == 5


def test_others_do_not_disturb_it(tmp_path: Path) -> None:
    log = history(tmp_path)
    result = revert(racing(log, lambda: write(log, [50])), 3)
    assert result.version == 6
    assert ids(log) == [0, 1, 7, 10, 50]


def test_one_of_two_equal_runs_commits(tmp_path: Path) -> None:
    log = history(tmp_path)
    result = revert(racing(log, lambda: revert(log, 3)), 3)
    assert (result.version, result.already_committed) == (5, True)
    assert write(log, [7], txn=TXN).already_committed


def test_a_commit_that_came_after_the_revert_began_is_not_undone_by_it(tmp_path: Path) -> None:
    log = history(tmp_path)

    def on_call(number: int, _method: str, _path: str, when: Literal["before", "after"]) -> None:
        if number == 3 and when == "before":  # the log has been listed
            write(log, [11])

    late = DeltaLog(tmp_path, storage=CountingStorage(log.storage, on_call))
    with pytest.raises(InvalidRequestError, match="version 5 was committed after the revert"):
        revert(late, 5)

    assert ids(log) == [9, 10, 11]
