"""Restore: a commit with the older version's files, metadata and txns, or an error."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.ddl import NewColumn, add_columns, cluster_by
from delta_ops.errors import (
    CommitConflictError,
    DataFileError,
    DeltaOpsError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import create_checkpoint, optimize, plan_restore, restore
from delta_ops.protocol.actions import DomainMetadata, Protocol, SetTransaction
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import data_file, inline_vector, vector_file
from tests.maintenance.restored_tables import (
    TXN,
    VECTORS,
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

YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("version", range(5))
def test_every_version_comes_back_as_it_was(tmp_path: Path, version: int) -> None:
    log = history(tmp_path)
    before = [ids(log, each) for each in range(5)]
    result = restore(log, version=version)

    assert ids(log) == before[version]
    assert describe_files(log.snapshot()) == describe_files(log.snapshot(version))
    assert [ids(log, each) for each in range(5)] == before
    assert result.version == (None if version == 4 else 5)
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(log))
    assert validate_checksum(log.snapshot())


def test_the_commit_says_what_the_reference_says(tmp_path: Path) -> None:
    log = history(tmp_path)
    sizes = {add.path: add.size for v in (2, 4) for add in log.snapshot(v).add_files()}
    plan = restore(log, version=2, dry_run=True).plan
    restore(log, version=2)

    (info,) = actions(log, 5, "commitInfo")
    restored, removed = (sum(sizes[add.path] for add in adds) for adds in (plan.adds, plan.removes))
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"] == {"version": 2, "timestamp": None}
    assert info["operationMetrics"] == {
        "numRestoredFiles": "3",
        "restoredFilesSize": str(restored),
        "numRemovedFiles": "2",
        "removedFilesSize": str(removed),
        "numOfFilesAfterRestore": "3",
        "tableSizeAfterRestore": str(restored),
    }
    assert (info["isBlindAppend"], info["readVersion"]) == (False, 4)
    assert all(add["dataChange"] for add in actions(log, 5, "add"))
    assert all(remove["dataChange"] for remove in actions(log, 5, "remove"))
    assert not actions(log, 5, "metaData")
    assert not actions(log, 5, "protocol")
    own = [txn for txn in actions(log, 5, "txn") if txn["appId"].startswith("delta_ops:restore:")]
    assert [txn["version"] for txn in own] == [4]


def test_a_time_selects_the_version_at_that_time(tmp_path: Path) -> None:
    log = history(tmp_path)
    for version in range(5):
        place = tmp_path / "_delta_log" / f"{version:020}.json"
        os.utime(place, (1_600_000_000 + version, 1_600_000_000 + version))
    then = datetime.fromtimestamp(1_600_000_001.5, UTC)
    assert restore(log, timestamp=then, dry_run=True).plan.version == 1
    restore(log, timestamp="2020-09-13T12:26:41.500Z")
    assert ids(log) == [0, 1]
    (info,) = actions(log, 5, "commitInfo")
    assert info["operationParameters"] == {"version": None, "timestamp": "2020-09-13T12:26:41.500Z"}


def test_a_dry_run_and_a_version_that_is_there_commit_nothing(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert restore(log, version=1, dry_run=True).plan.has_work
    nothing = restore(log, version=4)
    assert (nothing.version, nothing.plan.has_work) == (None, False)
    assert log.snapshot().version == 4


def test_a_rerun_of_what_was_undone_writes_again(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert write(log, [7], txn=TXN).already_committed
    restore(log, version=1)
    assert log.snapshot().transactions()[TXN[0]].version == -1
    assert not write(log, [7], txn=TXN).already_committed
    assert write(log, [7], txn=TXN).already_committed
    assert ids(log) == [0, 1, 7]


def test_txns_go_back_to_the_version_of_then_and_maintenance_stays(tmp_path: Path) -> None:
    log = history(tmp_path)
    write(log, [11], txn=(TXN[0], 8))
    write(log, [12], txn=("below", -5))
    optimize(log)
    by_optimize = [a for a in log.snapshot().transactions() if a.startswith("delta_ops:optimize")]
    result = restore(log, version=2)

    assert result.plan.transactions == {TXN[0]: 7, "below": -(2**63)}
    after = log.snapshot().transactions()
    assert after[by_optimize[0]] == log.snapshot(7).transactions()[by_optimize[0]]
    assert write(log, [7], txn=TXN).already_committed
    assert not write(log, [11], txn=(TXN[0], 8)).already_committed


def test_only_a_txn_that_differs_is_work(tmp_path: Path) -> None:
    log = history(tmp_path)
    commit(log, SetTransaction(app_id="empty batch", version=3))
    assert restore(log, version=4).version == 6
    assert restore(log, version=4).version is None


def test_without_a_request_id_a_rerun_undoes_what_was_written_since(tmp_path: Path) -> None:
    log = history(tmp_path)
    restore(log, version=1)
    write(log, [99])
    restore(log, version=1)
    assert ids(log) == [0, 1]


def test_a_request_that_found_nothing_to_do_is_carried_out_too(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert restore(log, version=4, request_id="ticket 5", dry_run=True).version is None
    done = restore(log, version=4, request_id="ticket 5")
    assert (done.version, done.plan.has_work) == (5, False)
    write(log, [99])
    again = restore(log, version=4, request_id="ticket 5")
    assert (again.version, again.already_committed) == (5, True)
    assert 99 in ids(log)
    assert restore(log, version=6).version is None


def test_with_a_request_id_a_rerun_changes_nothing(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert restore(log, version=1, request_id="ticket 5").version == 5
    write(log, [99])
    again = restore(log, version=1, request_id="ticket 5")
    assert (again.version, again.already_committed) == (5, True)
    assert ids(log) == [0, 1, 99]
    assert restore(log, version=1, request_id="ticket 6").version == 7


def test_a_request_is_carried_out_once_also_where_the_table_gets_an_older_id(
    tmp_path: Path,
) -> None:
    log = history(tmp_path)
    commit(log, replace(log.snapshot().metadata, id="replaced"))
    assert restore(log, version=1, request_id="ticket 5").version == 6
    write(log, [11])
    again = restore(log, version=1, request_id="ticket 5")

    assert (again.version, again.already_committed, again.plan.has_work) == (6, True, False)
    assert ids(log) == [0, 1, 11]


def _clean_up_below_the_restore(log: DeltaLog) -> None:
    create_checkpoint(log)
    for version in range(5):
        (Path(log.uri) / "_delta_log" / f"{version:020}.json").unlink()


@pytest.mark.parametrize(
    "requested",
    [
        pytest.param({"version": 1}, id="by its version"),
        pytest.param({"timestamp": "2026-01-01T00:00:01Z"}, id="by its time"),
    ],
)
def test_a_rerun_finds_its_request_done_also_when_the_old_version_was_cleaned_up(
    tmp_path: Path, requested: dict[str, Any]
) -> None:
    log = history(tmp_path)
    for version in range(5):
        seconds = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + version
        os.utime(tmp_path / "_delta_log" / f"{version:020}.json", (seconds, seconds))
    assert restore(log, **requested, request_id="ticket 5").version == 5
    write(log, [99])
    _clean_up_below_the_restore(log)

    again = restore(log, **requested, request_id="ticket 5")

    assert (again.version, again.already_committed, again.plan.has_work) == (5, True, False)
    assert ids(log) == [0, 1, 99]
    for other in ("ticket 6", None):
        with pytest.raises(VersionNotFoundError):
            restore(log, **requested, request_id=other)


def test_a_request_by_time_is_found_done_however_its_time_is_written(tmp_path: Path) -> None:
    log = history(tmp_path)
    now = datetime.now(UTC)
    os.utime(tmp_path / "_delta_log" / f"{4:020}.json", (2e9, 2e9))
    assert restore(log, timestamp=now, request_id="ticket 5").version == 5
    assert restore(log, timestamp=now.isoformat(), request_id="ticket 5").already_committed


def test_one_of_two_equal_runs_commits(tmp_path: Path) -> None:
    log = history(tmp_path)
    raced = racing(log, lambda: restore(log, version=1))
    result = restore(raced, version=1)
    assert (result.version, result.already_committed) == (5, True)
    assert log.snapshot().version == 5


def test_metadata_go_back_and_the_protocol_does_not(tmp_path: Path) -> None:
    log = history(tmp_path)
    old = log.snapshot().metadata
    wider = writer_protocol()
    changed = replace(old, configuration={"delta.checkpointInterval": "3"}, description="new")
    commit(log, wider, changed)
    restore(log, version=3)
    assert log.snapshot().metadata == old
    assert log.snapshot().protocol == wider
    assert not actions(log, 6, "protocol")


def test_times_in_commits_go_on(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    write(log, [1], configuration={"delta.enableInCommitTimestamps": "true"})
    far_ms = YEAR_MS * 100
    txn = begin(log, clock=lambda: far_ms)
    txn.set_properties({"delta.checkpointInterval": "7"})
    txn.commit(operation="SET TBLPROPERTIES")
    restore(log, version=0)
    (info,) = actions(log, 2, "commitInfo")
    assert info["inCommitTimestamp"] > far_ms
    assert log.snapshot().properties.in_commit_timestamps
    assert "delta.checkpointInterval" not in log.snapshot().metadata.configuration


def test_a_domain_stays(tmp_path: Path) -> None:
    log = history(tmp_path)
    commit(
        log,
        writer_protocol("domainMetadata"),
        DomainMetadata(domain="mine", configuration="{}"),
    )
    restore(log, version=1)
    assert list(log.snapshot().domain_metadata()) == ["mine"]


def clustered_by(root: Path) -> tuple[tuple[str, ...], ...]:
    return DeltaLog(root).snapshot().clustering_columns


def test_clustering_is_that_of_the_older_version(tmp_path: Path) -> None:
    data = pa.table({"a": [1], "p": ["x"]})
    da.write(tmp_path, data, partition_by=["p"])
    da.write(tmp_path, data, mode="overwrite", overwrite_schema=True, partition_by=[])
    cluster_by(tmp_path, ["p"])
    restore(tmp_path, version=0)
    snapshot = DeltaLog(tmp_path).snapshot()
    assert (snapshot.partition_columns, snapshot.clustering_columns) == (("p",), ())
    restore(tmp_path, version=2)
    assert clustered_by(tmp_path) == (("p",),)
    validate_checksum(DeltaLog(tmp_path).snapshot())
    assert restore(tmp_path, version=2).version is None


def test_a_later_clustering_column_may_be_removed(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a": [1]}), configuration={"delta.columnMapping.mode": "name"})
    cluster_by(tmp_path, ["a"])
    cluster_by(tmp_path, [])
    add_columns(tmp_path, [NewColumn(name="z", data_type="int")])
    cluster_by(tmp_path, ["z"])
    with pytest.raises(InvalidRequestError, match=r"column z .* would be removed"):
        da.write(tmp_path, pa.table({"q": [1]}), mode="overwrite", overwrite_schema=True)
    restore(tmp_path, version=1)
    (column,) = clustered_by(tmp_path)
    assert column[0].startswith("col-")
    restore(tmp_path, version=0)
    assert clustered_by(tmp_path) == ()
    assert DeltaLog(tmp_path).snapshot().arrow_schema.names == ["a"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_gets_the_deletion_vector_of_then(tmp_path: Path, version: int) -> None:
    log = make_with_vectors(tmp_path)
    restore(log, version=version)
    assert ids(log) == ids(log, version)
    assert describe_files(log.snapshot()) == describe_files(log.snapshot(version))
    assert len(log.snapshot().add_files()) == 1
    assert ids(log, 3) == [2, 3, 4, 6, 7, 8, 9]
    changes = da.read_changes(log, 4).read_all()
    assert sorted(changes["id"].to_pylist()) == ([0, 1, 5] if version == 1 else [5])
    assert set(changes["_change_type"].to_pylist()) == {"insert"}


def test_tags_and_row_ids_come_back(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot(0).add_files()
    tagged = replace(add, tags={"k": "v"}, base_row_id=5, default_row_commit_version=1)
    version = commit(log, tagged)
    write(log, [11], mode="overwrite")
    restore(log, version=version)
    assert tagged in describe_files(log.snapshot())


def lost_file(root: Path) -> DeltaLog:
    log = history(root)
    (root / log.snapshot(0).files(["path"])["path"][0].as_py()).unlink()
    return log


def lost_vector(root: Path) -> DeltaLog:
    log = make_with_vectors(root)
    (add,) = log.snapshot().add_files()
    other = data_file(root, "other.parquet", pa.table({"id": [20], "p": ["a"]}))
    commit(log, tombstone(add, 1, data_change=True), other)
    vector_file(root).unlink()
    return log


@pytest.mark.parametrize(
    ("build", "version", "left"),
    [
        pytest.param(lost_file, 1, [1], id="a data file"),
        pytest.param(lost_vector, 3, [], id="a deletion vector"),
    ],
)
def test_a_version_whose_files_are_gone_is_refused_unless_allowed(
    tmp_path: Path, build: Callable[[Path], DeltaLog], version: int, left: list[int]
) -> None:
    log = build(tmp_path)
    latest = log.snapshot().version
    with pytest.raises(DataFileError, match=r"part-.* cannot be restored completely; nothing"):
        restore(log, version=version)
    assert log.snapshot().version == latest
    result = restore(log, version=version, ignore_missing_files=True)
    assert len(result.missing) == 1
    assert ids(log) == left
    assert actions(log, latest + 1, "commitInfo")[0]["operationMetrics"][
        "numOfFilesAfterRestore"
    ] == str(len(left))


def test_a_file_behind_a_link_is_no_missing_file(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot(0).add_files()
    (tmp_path / add.path).rename(tmp_path / "moved")
    (tmp_path / add.path).symlink_to("moved")
    restore(log, version=0)
    assert ids(log) == [0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({}, InvalidRequestError, "either a version or a timestamp", id="neither"),
        pytest.param(
            {"version": 1, "timestamp": "2020-01-01"},
            InvalidRequestError,
            "either a version or a timestamp",
            id="both",
        ),
        pytest.param({"version": 5}, VersionNotFoundError, "version 5", id="never was"),
        pytest.param({"version": -1}, VersionNotFoundError, "version -1", id="below 0"),
        pytest.param({"version": "1"}, InvalidRequestError, "give a whole number", id="a text"),
        pytest.param({"timestamp": "x"}, InvalidRequestError, "not a timestamp", id="no time"),
        pytest.param(
            {"timestamp": "2000-01-01"}, VersionNotFoundError, "earliest", id="before the table"
        ),
        pytest.param(
            {"timestamp": "2999-01-01"}, VersionNotFoundError, "after its latest", id="to come"
        ),
    ],
)
def test_versions_that_cannot_be_restored_are_refused(
    tmp_path: Path, arguments: dict[str, Any], error: type[DeltaOpsError], message: str
) -> None:
    log = history(tmp_path)
    with pytest.raises(error, match=message):
        restore(log, **arguments)
    assert log.snapshot().version == 4


def test_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        restore(DeltaLog(tmp_path), version=0)


@pytest.mark.parametrize("then", [True, False], ids=["then", "now"])
def test_a_table_that_was_or_is_append_only_loses_no_rows(tmp_path: Path, then: bool) -> None:
    log = DeltaLog(tmp_path)
    configuration = {"delta.appendOnly": "true"}
    write(log, [0], configuration=configuration if then else None)
    write(log, [1])
    changed = {"delta.appendOnly": None if then else "true"}
    txn = begin(log)
    txn.set_properties(changed)
    txn.commit(operation="SET TBLPROPERTIES")
    with pytest.raises(InvalidRequestError, match="append-only"):
        restore(log, version=0)


def test_a_property_that_nobody_understands_is_taken_back(tmp_path: Path) -> None:
    log = history(tmp_path)
    malformed = {"delta.logRetentionDuration": "a while"}
    commit(log, replace(log.snapshot().metadata, configuration=malformed))
    with pytest.raises(InvalidRequestError, match="logRetentionDuration"):
        write(log, [11])
    assert restore(log, version=4).version == 6
    assert write(log, [11]).version == 7


def test_a_feature_that_was_dropped_since_is_named(tmp_path: Path) -> None:
    log = make_with_vectors(tmp_path)
    commit(log, Protocol(min_reader_version=1, min_writer_version=2))
    with pytest.raises(InvalidRequestError, match="changeDataFeed, which was dropped later"):
        restore(log, version=2)


@pytest.mark.parametrize("name", ["inCommitTimestamp-preview", "unheardOf"])
def test_features_that_a_restore_would_hurt_are_refused(tmp_path: Path, name: str) -> None:
    log = history(tmp_path)
    commit(log, writer_protocol(name))
    with pytest.raises(UnsupportedFeatureError, match=name):
        restore(log, version=1)


@pytest.mark.parametrize("name", ["checkConstraints", "changeDataFeed", "generatedColumns"])
def test_rules_of_rows_that_were_kept_then_are_no_obstacle(tmp_path: Path, name: str) -> None:
    log = history(tmp_path)
    commit(log, writer_protocol(name))
    rule = {"delta.constraints.positive": "id >= 0", "delta.enableChangeDataFeed": "true"}
    needed = {"checkConstraints": "delta.c", "changeDataFeed": "delta.e"}.get(name, "none")
    configuration = {k: v for k, v in rule.items() if k.startswith(needed)}
    commit(log, replace(log.snapshot().metadata, configuration=configuration))
    version = commit(log, *(tombstone(a, 1, data_change=True) for a in log.snapshot().add_files()))
    restore(log, version=version - 1)
    assert ids(log) == [9, 10]


@pytest.mark.parametrize(
    "rival",
    [
        pytest.param(lambda log: write(log, [50]), id="rows were added"),
        pytest.param(lambda log: write(log, [50], mode="overwrite"), id="rows were replaced"),
        pytest.param(
            lambda log: commit(log, SetTransaction(app_id=TXN[0], version=8)), id="its txn was set"
        ),
        pytest.param(optimize, id="its files were rewritten"),
        pytest.param(lambda log: restore(log, version=2), id="another version was restored"),
        pytest.param(
            lambda log: commit(log, replace(log.snapshot().metadata, description="x")),
            id="the metadata changed",
        ),
    ],
)
def test_the_first_change_of_the_table_wins(
    tmp_path: Path, rival: Callable[[DeltaLog], object]
) -> None:
    log = history(tmp_path)
    with pytest.raises(CommitConflictError):
        restore(racing(log, lambda: rival(log)), version=1)
    assert log.snapshot().version == 5
    restore(log, version=1)
    assert ids(log) == [0, 1]


def test_an_append_wins_at_every_isolation_level(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    write(log, [0], configuration={"delta.isolationLevel": "WriteSerializable"})
    write(log, [1])
    with pytest.raises(CommitConflictError):
        restore(racing(log, lambda: write(log, [50])), version=0)
    assert ids(log) == [0, 1, 50]


def test_a_checkpoint_in_between_changes_nothing(tmp_path: Path) -> None:
    log = history(tmp_path)
    for number in range(12):
        write(log, [100 + number])
    restore(log, version=2)
    assert ids(log) == [0, 1, 7]
    assert describe_files(log.snapshot()) == describe_files(log.snapshot(2))
    assert validate_checksum(log.snapshot())


def test_the_plan_is_the_difference_of_two_versions(tmp_path: Path) -> None:
    log = history(tmp_path)
    plan = plan_restore(log.snapshot(), log.snapshot(2))
    assert [add.path for add in plan.adds] == [add.path for add in log.snapshot(2).add_files()]
    assert {add.path for add in plan.removes} == {a.path for a in log.snapshot().add_files()}
    assert plan.transactions == {}
    assert not plan_restore(log.snapshot(), log.snapshot()).has_work


def test_paths_that_are_written_otherwise_are_the_same_file(tmp_path: Path) -> None:
    log = history(tmp_path)
    (add,) = log.snapshot(0).add_files()
    absolute = replace(add, path=f"file://{tmp_path}/{add.path}")
    version = commit(log, absolute)
    assert restore(log, version=4).plan.removes == (absolute,)
    assert ids(log, version) == [0, 9, 10]
    assert ids(log) == [9, 10]


def test_an_inline_vector_needs_no_file(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    write(log, [0, 1, 2])
    (add,) = log.snapshot().add_files()
    commit(log, VECTORS)
    commit(
        log,
        tombstone(add, 1, data_change=True),
        replace(add, deletion_vector=inline_vector([1])),
    )
    restore(log, version=0)
    assert ids(log) == [0, 1, 2]
    restore(log, version=2)
    assert ids(log) == [0, 2]
