"""Table properties: changed in a separate commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.schema import LONG, StructField, StructType
from tests.support.tables import rows, rows_by_deltalake


def table(root: Path) -> DeltaLog:
    da.write(root, pa.table({"id": [1]}), configuration={"delta.checkpointInterval": "5"})
    return DeltaLog(root)


def test_properties_are_set_and_unset(tmp_path: Path) -> None:
    log = table(tmp_path)
    txn = begin(log)
    txn.set_properties({"delta.appendOnly": "true", "owner": "a team"})
    txn.set_properties({"delta.checkpointInterval": None})
    assert txn.commit(operation="SET TBLPROPERTIES").version == 1
    before, after = log.snapshot(0).metadata, log.snapshot().metadata
    assert dict(after.configuration) == {"delta.appendOnly": "true", "owner": "a team"}
    assert (after.id, after.schema_string, after.created_time) == (
        before.id,
        before.schema_string,
        before.created_time,
    )
    assert rows_by_deltalake(tmp_path) == [{"id": 1}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"delta.appendOnly": "maybe"}, "true or false", id="no flag"),
        pytest.param({"delta.logRetentionDuration": "soon"}, "not an interval", id="no interval"),
        pytest.param({"delta.enableIcebergCompatV2": " true"}, "icebergCompat", id="a feature"),
        pytest.param(
            {"delta.appendonyl": "true"}, "the closest name is delta.appendOnly", id="no name"
        ),
        pytest.param({"delta.feature.rowTraking": "supported"}, "rowTracking", id="no feature"),
        pytest.param({"delta.columnMapping.maxColumnId": "9"}, "by engines", id="engines'"),
        pytest.param(
            {"delta.appendOnly": "true", "DELTA.appendonly": "false"}, "twice", id="twice"
        ),
        pytest.param({"delta.minWriterVersion": "9"}, "there is no protocol", id="a version"),
        pytest.param({"delta.checkpointInterval": 5}, "must be texts", id="a number"),
        pytest.param({"owner": True}, "must be texts", id="a flag"),
    ],
)
def test_unsupported_features_are_refused_for_old_and_new_tables(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    log = table(tmp_path / "old")
    refused = InvalidRequestError, UnsupportedFeatureError
    with pytest.raises(refused, match=message):
        begin(log).set_properties(changes)
    with pytest.raises(refused, match=message):
        da.write(tmp_path / "new", pa.table({"id": [1]}), configuration=changes)
    assert not (tmp_path / "new" / "_delta_log").exists()
    assert log.snapshot().version == 0


def test_a_change_comes_first_or_not_at_all(tmp_path: Path) -> None:
    log = table(tmp_path)
    first, second = begin(log), begin(log)
    for txn in (first, second):
        txn.set_properties({"owner": "a team"})
    append = begin(log)
    append.stage(da.stage_write(append, pa.table({"id": [2]})))
    first.commit(operation="SET TBLPROPERTIES")
    for txn in (second, append):
        with pytest.raises(CommitConflictError, match="changed the schema") as raised:
            txn.commit(operation="WRITE")
        assert raised.value.kind == "metadata"


def test_without_a_table_there_are_no_properties(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        begin(DeltaLog(tmp_path)).set_properties({"a": "b"})


def test_a_table_is_created_once(tmp_path: Path) -> None:
    log = table(tmp_path)
    with pytest.raises(InvalidRequestError, match="is already a table"):
        begin(log).create_table(log.snapshot().schema)


@pytest.mark.parametrize("what", ["name", "description"])
def test_the_name_of_a_table_must_be_a_text(tmp_path: Path, what: str) -> None:
    """Any other value would make the log unreadable."""
    schema = StructType((StructField("id", LONG),))
    named: dict[str, Any] = {what: 5}
    with pytest.raises(InvalidRequestError, match=f"the table's {what} is 5"):
        begin(DeltaLog(tmp_path)).create_table(schema, **named)


def test_a_property_brings_the_feature_that_it_needs(tmp_path: Path) -> None:
    wanted = {"delta.checkpointPolicy": "v2"}
    old = table(tmp_path / "old")
    txn = begin(old)
    txn.set_properties(wanted)
    txn.commit(operation="SET TBLPROPERTIES")
    assert old.snapshot().protocol == Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("v2Checkpoint",),
        writer_features=("appendOnly", "invariants", "v2Checkpoint"),
    )
    assert rows(da.to_table(old)) == [{"id": 1}]
    da.write(tmp_path / "new", pa.table({"id": [1]}), configuration=wanted)
    assert "v2Checkpoint" in (DeltaLog(tmp_path / "new").snapshot().protocol.reader_features or ())


def test_features_that_an_existing_table_lacks_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": [1]})
    da.write(tmp_path, rows, configuration={"delta.feature.deletionVectors": "supported"})
    da.write(tmp_path, rows, configuration={"delta.feature.deletionVectors": "supported"})
    assert caplog.text == ""
    versions = {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
    da.write(tmp_path, rows, configuration=versions)
    assert "the feature columnMapping is for a new table" in caplog.text
    assert not DeltaLog(tmp_path).snapshot().definition.has("columnMapping")
