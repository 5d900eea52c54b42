"""Features are added by name, and dropped when nothing in the table depends on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.ddl import (
    NewColumn,
    add_columns,
    add_constraint,
    add_feature,
    change_type,
    create_table,
    drop_constraint,
    drop_feature,
    rename_table,
    set_properties,
)
from delta_ops.errors import CommitConflictError, InvalidRequestError, UnsupportedFeatureError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint, purge
from delta_ops.protocol.actions import (
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Protocol,
    RemoveFile,
)
from delta_ops.storage import Storage
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows_by_deltalake

OLDEST = Protocol(min_reader_version=1, min_writer_version=2)
VECTOR = DeletionVector(
    storage_type="i",
    path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    size_in_bytes=40,
    cardinality=6,
)
DAY_S = 86_400


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    da.write(tmp_path, pa.table({"id": [1]}))
    return DeltaLog(tmp_path)


def age(log: DeltaLog, days: float) -> None:
    for place in (Path(log.uri) / "_delta_log").iterdir():
        then = place.stat().st_mtime - days * DAY_S
        os.utime(place, (then, then))


def commit(log: DeltaLog, *actions: Any) -> None:
    version = log.snapshot().version + 1
    create_commit(log.storage, log.log_directory, version, [CommitInfo(values={}), *actions])


def with_feature(log: DeltaLog, name: str) -> None:
    """Add a feature to the table; we may not be able to write this feature."""
    commit(
        log,
        Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=(name,),
            writer_features=(name, "appendOnly", "invariants"),
        ),
    )


def test_a_feature_is_added_by_name_in_any_case(log: DeltaLog) -> None:
    assert add_feature(log, "v2checkpoint").version == 1
    snapshot = log.snapshot()
    assert snapshot.protocol.reader_features == ("v2Checkpoint",)
    assert dict(snapshot.metadata.configuration) == {}
    assert add_feature(log, "v2Checkpoint").version is None
    with pytest.raises(InvalidRequestError, match="the closest name is rowTracking"):
        add_feature(log, "rowTraking")
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV1"):
        add_feature(log, "icebergCompatV1")


@pytest.mark.parametrize(
    ("properties", "versions", "kept"),
    [
        pytest.param(
            {
                "delta.minReaderVersion": "2",
                "delta.minWriterVersion": "5",
                "delta.columnMapping.mode": "name",
            },
            (2, 5),
            {"delta.columnMapping.mode", "delta.columnMapping.maxColumnId"},
            id="column mapping, as the reference documents it",
        ),
        pytest.param({"DELTA.MINREADERVERSION": "2"}, (2, 5), set(), id="a reader version alone"),
        pytest.param({"delta.minWriterVersion": "3"}, (1, 3), set(), id="a writer version alone"),
        pytest.param({"delta.minWriterVersion": "7"}, (1, 2), set(), id="a version of lists"),
        pytest.param({"delta.minWriterVersion": "1"}, (1, 2), set(), id="an older version"),
    ],
)
def test_a_property_of_a_protocol_version_adds_its_features(
    log: DeltaLog, properties: dict[str, str], versions: tuple[int, int], kept: set[str]
) -> None:
    set_properties(log, properties)
    create_table(Path(log.uri) / "new", pa.schema([("id", pa.int64())]), properties=properties)
    for snapshot in (log.snapshot(), DeltaLog(Path(log.uri) / "new").snapshot()):
        protocol = snapshot.protocol
        assert (protocol.min_reader_version, protocol.min_writer_version) == versions
        assert snapshot.metadata.configuration.keys() == kept


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "5"}, "give 1 with 2 to 4"),
        ({"delta.minReaderVersion": "9"}, "there is no protocol of reader version 9"),
        ({"delta.minWriterVersion": "0"}, "there is no protocol of reader version 1 and writer"),
        ({"delta.minWriterVersion": "new"}, "delta.minWriterVersion is 'new'"),
        ({"delta.minWriterVersion": None}, "cannot remove a feature"),
    ],
)
def test_a_protocol_version_that_does_not_exist_is_refused(
    log: DeltaLog, properties: dict[str, str | None], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        set_properties(log, properties)
    assert log.snapshot().version == 0


def test_constraints_are_dropped_before_their_feature(log: DeltaLog) -> None:
    add_constraint(log, "positive", "id > 0")
    with pytest.raises(InvalidRequestError, match=r"constraint positive.*drop the constraint"):
        drop_feature(log, "checkConstraints")
    drop_constraint(log, "positive")
    assert drop_feature(log, "CHECKConstraints", dry_run=True).version is None
    assert drop_feature(log, "CHECKConstraints").version == 3
    assert log.snapshot().protocol == OLDEST
    entry = next(log.history())
    assert entry.operation == "DROP FEATURE"
    assert entry.operation_parameters == {
        "featureName": "checkConstraints",
        "truncateHistory": False,
    }
    assert drop_feature(log, "checkConstraints").version is None
    assert rows_by_deltalake(Path(log.uri)) == [{"id": 1}]


def test_in_commit_timestamps_go_with_their_properties(log: DeltaLog) -> None:
    set_properties(log, {"delta.enableInCommitTimestamps": "true", "owner": "me"})
    assert len(log.snapshot().metadata.configuration) == 4
    assert drop_feature(log, "inCommitTimestamp").version == 2
    snapshot = log.snapshot()
    assert dict(snapshot.metadata.configuration) == {"owner": "me"}
    assert snapshot.protocol == OLDEST
    da.write(log, pa.table({"id": [2]}))
    assert [each.in_commit_timestamp is None for each in log.commits(1)] == [False, True, True]
    assert len(rows_by_deltalake(Path(log.uri))) == 2


def test_domains_are_removed_before_their_feature(log: DeltaLog) -> None:
    add_feature(log, "domainMetadata")
    for removed in (False, True):
        txn = begin(log)
        txn.set_domain_metadata(DomainMetadata(domain="app.x", configuration="{}", removed=removed))
        txn.commit(operation="SET DOMAIN")
        if not removed:
            with pytest.raises(InvalidRequestError, match=r"the domain app\.x; remove"):
                drop_feature(log, "domainMetadata")
    assert drop_feature(log, "domainMetadata").version == 4
    assert log.snapshot().protocol == OLDEST


def test_one_that_another_requires_stays(log: DeltaLog) -> None:
    commit(
        log,
        Protocol(
            min_reader_version=1,
            min_writer_version=7,
            writer_features=("domainMetadata", "rowTracking"),
        ),
    )
    with pytest.raises((InvalidRequestError, UnsupportedFeatureError), match="rowTracking"):
        drop_feature(log, "domainMetadata")


def test_features_without_traces_are_dropped_at_once(log: DeltaLog) -> None:
    with_feature(log, "vacuumProtocolCheck")
    assert drop_feature(log, "vacuumProtocolCheck").version == 2
    da.write(log, pa.table({"id": [2]}))
    assert len(rows_by_deltalake(Path(log.uri))) == 2


def test_v2_checkpoints_are_gone_before_their_feature(log: DeltaLog) -> None:
    set_properties(log, {"delta.checkpointPolicy": "v2"})
    create_checkpoint(log)
    with pytest.raises(InvalidRequestError, match=r"checkpointPolicy = v2; set it to classic"):
        drop_feature(log, "v2Checkpoint")
    set_properties(log, {"delta.checkpointPolicy": "classic"})
    with pytest.raises(InvalidRequestError, match=r"V2 checkpoint of version 1.*truncate_history"):
        drop_feature(log, "v2Checkpoint")
    with pytest.raises(InvalidRequestError, match="run this again"):
        drop_feature(log, "v2Checkpoint", truncate_history=True)
    age(log, 40)
    assert drop_feature(log, "v2Checkpoint", truncate_history=True).version == 3
    snapshot = log.snapshot()
    assert snapshot.protocol == OLDEST
    assert snapshot.num_files == 1
    assert not [p for p in Path(log.uri).rglob("*") if "checkpoint" in p.name and "-" in p.name]
    assert rows_by_deltalake(Path(log.uri)) == [{"id": 1}]


def test_deletion_vectors_are_gone_before_their_feature(log: DeltaLog) -> None:
    with_feature(log, "deletionVectors")
    (file,) = log.snapshot().add_files()
    enabled = replace(
        log.snapshot().metadata, configuration={"delta.enableDeletionVectors": "true"}
    )
    commit(log, enabled)
    with pytest.raises(InvalidRequestError, match=r"enableDeletionVectors = true; unset"):
        drop_feature(log, "deletionVectors")
    commit(log, replace(enabled, configuration={}))
    gone = RemoveFile(path=file.path, deletion_timestamp=1, data_change=True)
    commit(log, gone, replace(file, deletion_vector=VECTOR))
    with pytest.raises(InvalidRequestError, match="at least 1 live files"):
        drop_feature(log, "deletionVectors")
    commit(log, replace(gone, deletion_vector=VECTOR), file)
    with pytest.raises(InvalidRequestError, match=r"in the commit of version 4.*truncate_history"):
        drop_feature(log, "deletionVectors")
    age(log, 40)
    rename_at = log.snapshot().version
    assert drop_feature(log, "deletionVectors", truncate_history=True).version == rename_at + 1
    assert log.snapshot().protocol == OLDEST
    assert rows_by_deltalake(Path(log.uri)) == [{"id": 1}]


def test_a_tombstone_with_a_vector_in_the_checkpoint_is_a_trace(log: DeltaLog) -> None:
    with_feature(log, "deletionVectors")
    (file,) = log.snapshot().add_files()
    gone = RemoveFile(path=file.path, deletion_timestamp=2**53, data_change=True)
    commit(log, replace(gone, deletion_vector=VECTOR))
    create_checkpoint(log)
    directory = Path(log.uri) / "_delta_log"
    for version in range(3):
        (directory / f"{version:020}.json").unlink()
    (directory / f"{2:020}.crc").unlink(missing_ok=True)
    with pytest.raises(InvalidRequestError, match="in the checkpoint of version 2"):
        drop_feature(log, "deletionVectors")


@pytest.mark.parametrize("is_nested", [False, True])
def test_former_types_are_gone_before_their_feature(tmp_path: Path, is_nested: bool) -> None:
    narrow = pa.array([[{"n": 1}]], pa.list_(pa.struct([("n", pa.int32())]))) if is_nested else None
    rows = pa.table({"a": pa.array([1], pa.int32()) if narrow is None else narrow})
    da.write(tmp_path, rows, configuration={"delta.enableTypeWidening": "true"})
    log = DeltaLog(tmp_path)
    change_type(log, "a.element.n" if is_nested else "a", "long")
    add_columns(log, [NewColumn(name="later", data_type="int")])
    with pytest.raises(InvalidRequestError, match="enableTypeWidening = true; unset"):
        drop_feature(log, "typeWidening")
    set_properties(log, {"delta.enableTypeWidening": None})
    with pytest.raises(InvalidRequestError, match="former types of 1 live files; rewrite"):
        drop_feature(log, "typeWidening")
    purge(log, old_schema=True)
    rows = da.to_table(log)
    drop_feature(log, "typeWidening", truncate_history=True)
    assert log.snapshot().protocol == OLDEST
    assert "typeChanges" not in log.snapshot().metadata.schema_string
    assert da.to_table(log) == rows
    assert rows_by_deltalake(tmp_path) == rows.to_pylist()


def test_a_file_that_lacks_a_later_column_does_not_keep_type_widening(log: DeltaLog) -> None:
    set_properties(log, {"delta.enableTypeWidening": "true"})
    add_columns(log, [NewColumn(name="later", data_type="int")])
    change_type(log, "later", "long")
    set_properties(log, {"delta.enableTypeWidening": None})
    assert drop_feature(log, "typeWidening").version == 5
    assert log.snapshot().protocol == OLDEST


@pytest.mark.parametrize("name", ["appendOnly", "identityColumns"])
def test_one_that_cannot_be_dropped_is_refused_by_name(log: DeltaLog, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"{name} cannot be dropped by delta_ops; it can"):
        drop_feature(log, name)
    with pytest.raises(InvalidRequestError, match="There is no table feature"):
        drop_feature(log, f"{name}x")


def test_a_feature_of_writers_has_no_history_to_truncate(log: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="leave truncate_history out"):
        drop_feature(log, "checkConstraints", truncate_history=True)


@pytest.mark.parametrize(
    "rival",
    [
        pytest.param(lambda log: da.write(log, pa.table({"id": [2]})), id="an append"),
        pytest.param(lambda log: rename_table(log, "x"), id="a change"),
    ],
)
def test_nobody_may_commit_meanwhile(log: DeltaLog, rival: Callable[[DeltaLog], object]) -> None:
    add_feature(log, "domainMetadata")
    outside: Storage = log.storage

    def commit_first(_number: int, method: str, path: str, when: str) -> None:
        if method == "create" and path.endswith("2.json") and when == "before":
            rival(DeltaLog(log.uri, storage=outside))

    racing = log.over(CountingStorage(outside, commit_first))
    with pytest.raises(CommitConflictError):
        drop_feature(racing, "domainMetadata")
    assert log.snapshot().definition.has("domainMetadata")
