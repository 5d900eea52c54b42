"""A shallow clone is an independent table over another table's files."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, ddl
from delta_ops.ddl import add_feature, drop_feature, set_properties, shallow_clone
from delta_ops.errors import (
    InvalidRequestError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import CommitInfo, DomainMetadata, Protocol
from delta_ops.storage import open_storage
from tests.arrow.test_outside_files import source_table
from tests.arrow.test_vectors import rows_by_query
from tests.support.clones import content_of, prefix_naming
from tests.support.clones import shallow_clone as clone_of_tests
from tests.support.faulty_storage import crashes
from tests.support.tables import rows


@pytest.fixture
def source(tmp_path: Path) -> DeltaLog:
    da.write(tmp_path / "source", pa.table({"id": [1], "p": ["a b"]}), partition_by=["p"])
    da.write(tmp_path / "source", pa.table({"id": [2], "p": ["é%"]}))
    return DeltaLog(tmp_path / "source")


def test_a_clone_has_the_rows_of_its_source_and_goes_its_own_way(
    source: DeltaLog, tmp_path: Path
) -> None:
    before = content_of(Path(source.uri))
    result = shallow_clone(source, tmp_path / "clone", user_metadata="to try")
    assert result.version == 0
    clone = DeltaLog(tmp_path / "clone")
    assert rows(da.to_table(clone)) == rows(da.to_table(source))
    ours, theirs = clone.snapshot().metadata, source.snapshot().metadata
    assert ours.id != theirs.id
    assert (ours.schema_string, ours.partition_columns) == (
        theirs.schema_string,
        theirs.partition_columns,
    )
    entry = next(clone.history())
    assert (entry.operation, entry.user_metadata) == ("CLONE", "to try")
    assert entry.operation_parameters == {"source": source.uri, "sourceVersion": 1}
    assert (entry.operation_metrics or {})["sourceNumOfFiles"] == "2"
    da.write(clone, pa.table({"id": [3], "p": ["a b"]}))
    da.write(clone, pa.table({"id": [4], "p": ["a b"]}), "overwrite")
    assert rows(da.to_table(clone)) == [{"id": 4, "p": "a b"}]
    assert content_of(Path(source.uri)) == before


def test_a_clone_of_a_version_and_of_a_clone(source: DeltaLog, tmp_path: Path) -> None:
    shallow_clone(source, tmp_path / "first", version=0)
    shallow_clone(tmp_path / "first", tmp_path / "second")
    shallow_clone(DeltaLog(tmp_path / "second").snapshot(), tmp_path / "third")
    assert rows(da.to_table(tmp_path / "third")) == [{"id": 1, "p": "a b"}]


def test_files_and_vectors_are_named_as_delta_spark_names_them(tmp_path: Path) -> None:
    source = source_table(tmp_path / "source")
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("deletionVectors", "changeDataFeed"),
    )
    create_commit(source.storage, source.log_directory, 1, [CommitInfo(values={}), protocol])
    model = clone_of_tests(
        source.snapshot(), DeltaLog(tmp_path / "model"), prefix_naming(f"file:{source.uri}")
    )
    shallow_clone(source, tmp_path / "clone")
    clone = DeltaLog(tmp_path / "clone")
    ours, theirs = (
        sorted((unquote(add.path), str(add.deletion_vector)) for add in log.snapshot().add_files())
        for log in (clone, model)
    )
    assert ours == theirs
    assert rows(da.to_table(clone)) == rows(da.to_table(source))


def test_a_clone_of_a_clone_names_vectors_as_its_source_does(tmp_path: Path) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    da.write(tmp_path / "root", pa.table({"id": range(9)}), configuration=vectors)
    da.delete(tmp_path / "root", col("id") == 4)
    first, second = DeltaLog(tmp_path / "first"), DeltaLog(tmp_path / "second")
    shallow_clone(tmp_path / "root", first)
    shallow_clone(first, second)
    [of_first], [of_second] = (log.snapshot().add_files() for log in (first, second))
    assert of_first.deletion_vector == of_second.deletion_vector
    assert of_first.path == of_second.path
    assert sorted(row["id"] for row in rows_by_query(second)) == [0, 1, 2, 3, 5, 6, 7, 8]


def test_features_and_domains_come_along_and_txns_do_not(source: DeltaLog, tmp_path: Path) -> None:
    add_feature(source, "domainMetadata")
    set_properties(source, {"delta.enableInCommitTimestamps": "true"})
    txn = begin(source)
    txn.set_domain_metadata(DomainMetadata(domain="app.x", configuration="{}"))
    txn.set_transaction(("app", 1))
    txn.commit(operation="SET DOMAIN")
    shallow_clone(source, tmp_path / "clone")
    clone = DeltaLog(tmp_path / "clone").snapshot()
    assert clone.protocol == source.snapshot().protocol
    assert list(clone.domain_metadata()) == ["app.x"]
    assert clone.transactions() == {}
    assert dict(clone.metadata.configuration) == {"delta.enableInCommitTimestamps": "true"}
    da.write(tmp_path / "clone", pa.table({"id": [3], "p": ["a b"]}))
    assert drop_feature(tmp_path / "clone", "inCommitTimestamp").version == 2


def test_tables_that_cannot_be_cloned_are_refused(source: DeltaLog, tmp_path: Path) -> None:
    with pytest.raises(TableExistsError):
        shallow_clone(source, source)
    with pytest.raises(TableNotFoundError):
        shallow_clone(tmp_path / "none", tmp_path / "clone")
    protocol = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata",)
    )
    own = DomainMetadata(domain="delta.made.up", configuration="{}")
    create_commit(source.storage, source.log_directory, 2, [CommitInfo(values={}), protocol, own])
    with pytest.raises(UnsupportedFeatureError, match=r"cannot be cloned.*domain delta\.made\.up"):
        shallow_clone(source, tmp_path / "clone")
    assert not (tmp_path / "clone" / "_delta_log").exists()


def test_a_kill_leaves_no_clone_or_all_of_it(source: DeltaLog, tmp_path: Path) -> None:
    numbers = count()
    txn = ("clone", 1)
    for where, left in crashes(
        lambda: open_storage(tmp_path / str(next(numbers))),
        lambda storage: shallow_clone(source, DeltaLog("", storage=storage), txn=txn),
    ):
        log = DeltaLog("", storage=left)
        before = log.snapshot_if_exists()
        assert before is None or before.num_files == 2, where
        again = shallow_clone(source, log, txn=txn)
        assert again.already_committed is (before is not None), where
        assert len(da.to_table(log)) == 2, where
        shutil.rmtree(left.uri)


def test_a_clone_is_clustered_as_its_source_is(tmp_path: Path) -> None:
    da.write(tmp_path / "s", pa.table({"id": [1], "v": ["a"]}))
    ddl.cluster_by(tmp_path / "s", ["v"])
    shallow_clone(tmp_path / "s", tmp_path / "t")
    domains = [DeltaLog(tmp_path / each).snapshot().domain_metadata() for each in ("s", "t")]
    assert domains[0]["delta.clustering"] == domains[1]["delta.clustering"]


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"owner": "me"}, id="one of the user's own", marks=pytest.mark.full),
        pytest.param({"delta.columnMapping.mode": "name"}, id="columns that may be renamed"),
        pytest.param({"delta.enableDeletionVectors": "true"}, id="deletion vectors"),
        pytest.param(
            {"delta.enableInCommitTimestamps": "true"},
            id="times in commits",
            marks=pytest.mark.full,
        ),
        pytest.param({"delta.enableChangeDataFeed": "true"}, id="a change data feed"),
    ],
)
def test_properties_of_a_clone_match_its_first_version(
    source: DeltaLog, tmp_path: Path, properties: dict[str, str]
) -> None:
    shallow_clone(source, tmp_path / "clone", properties=properties)
    clone = DeltaLog(tmp_path / "clone")
    assert clone.snapshot().version == 0
    assert clone.snapshot().metadata.configuration.items() >= properties.items()
    assert rows(da.to_table(clone)) == rows(da.to_table(source))
    da.write(clone, pa.table({"id": [3], "p": ["c"]}))
    da.delete(clone, col("id") == 1)
    assert rows(da.to_table(clone)) == [{"id": 2, "p": "é%"}, {"id": 3, "p": "c"}]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        pytest.param({"delta.enableRowTracking": "true"}, "no ids", id="row ids"),
        pytest.param({"delta.constraints.c": "id > 0"}, "constraint", id="a constraint"),
        pytest.param({"delta.appendOnly": "perhaps"}, "appendOnly", id="no value of it"),
    ],
)
def test_a_property_that_a_clone_cannot_have_is_refused(
    source: DeltaLog, tmp_path: Path, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        shallow_clone(source, tmp_path / "clone", properties=properties)
    assert not DeltaLog(tmp_path / "clone").exists()


def test_rows_of_its_source_are_deleted_by_vectors_of_its_own(tmp_path: Path) -> None:
    root, features = tmp_path / "source", {"delta.enableDeletionVectors": "true"}
    feed = {"delta.enableChangeDataFeed": "true"}
    da.write(root, pa.table({"id": range(6), "v": [0] * 6}), configuration={**features, **feed})
    da.delete(root, col("id") == 0)
    before = content_of(root)
    clone = DeltaLog(tmp_path / "clone")
    shallow_clone(root, clone)
    da.delete(clone, col("id") == 1)
    da.update(clone, {"v": 1}, col("id") == 2)
    merge = da.merge(clone, pa.table({"id": [3, 9], "v": [2, 2]}), "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    expected = {2: 1, 3: 2, 4: 0, 5: 0, 9: 2}
    left = da.to_table(clone)
    assert dict(zip(left["id"].to_pylist(), left["v"].to_pylist(), strict=True)) == expected
    changes = da.read_changes(clone, start_version=1).read_all()
    assert sorted(
        zip(changes["id"].to_pylist(), changes["_change_type"].to_pylist(), strict=True)
    ) == [
        (1, "delete"),
        *((n, f"update_{image}") for n in (2, 3) for image in ("postimage", "preimage")),
        (9, "insert"),
    ]
    assert content_of(root) == before
    assert da.to_table(root)["id"].to_pylist() == [1, 2, 3, 4, 5]
