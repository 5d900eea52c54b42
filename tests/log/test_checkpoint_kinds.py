"""Checkpoints of every kind hold the replayed state, for us and for deltalake."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.log.checkpoint_write import v2
from delta_ops.log.checkpoint_write.write import checkpoint_kind, write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import (
    Action,
    DomainMetadata,
    FileAction,
    Protocol,
    SetTransaction,
)
from tests.log.test_replay import histories, model, replayed
from tests.support.tables import add, metadata, remove

V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("v2Checkpoint", "deletionVectors"),
    writer_features=("v2Checkpoint", "deletionVectors", "domainMetadata"),
)
PLAIN = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors", "domainMetadata"),
)
STATS = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
DAY = 86_400_000

Kind = tuple[Protocol, dict[str, str], int | None]
CLASSIC: Kind = (PLAIN, {}, None)
PARTS: Kind = (PLAIN, {}, 2)
SIDECARS: Kind = (V2, {"delta.checkpointPolicy": "v2"}, None)
KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(CLASSIC, id="classic"),
        pytest.param(PARTS, id="multi-part"),
        pytest.param(SIDECARS, id="v2"),
    ],
)
STRUCTS = {
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
}


def table(root: Path, commits: list[list[Any]], kind: Kind, **properties: str) -> DeltaLog:
    """A log whose properties require this kind of checkpoint."""
    protocol, requested, _ = kind
    log = DeltaLog(root)
    for version, actions in enumerate(commits):
        first: list[Action] = (
            [
                protocol,
                metadata(configuration={**requested, **properties}, partition_columns=("p",)),
            ]
            if version == 0
            else []
        )
        create_commit(log.storage, log.log_directory, version, [*first, *actions])
    return log


def busy(kind: Kind, root: Path, **properties: str) -> DeltaLog:
    """Adds, removes, a restored file, better statistics, txns and domains."""

    def live(name: str, p: str | None = "a b", **changes: Any) -> Any:
        return add(name, partition_values={"p": p}, stats=STATS, **changes)

    return table(
        root,
        [
            [live(f"p=a%20b/{i}.parquet", size=i) for i in range(7)],
            [remove("p=a%20b/0.parquet", deletion_timestamp=5 * DAY), live("x.parquet", None)],
            [SetTransaction(app_id="job", version=3, last_updated=2 * DAY)],
            [
                remove("p=a%20b/1.parquet", deletion_timestamp=9 * DAY),
                remove("p=a%20b/2.parquet", deletion_timestamp=9 * DAY),
                DomainMetadata(domain="d", configuration="{}"),
            ],
            [live("p=a%20b/1.parquet", size=70)],
            [live("p=a%20b/3.parquet", size=80, tags={"k": "v"})],
        ],
        kind,
        **properties,
    )


def state(snapshot: Snapshot) -> dict[str, Any]:
    """The complete state of a version, in a fixed order."""
    columns = ["path", "log_path", "size", "modification_time", "partition_values", "tags"]
    files = snapshot.files([*columns, "stats", "deletion_vector"]).to_pylist()
    for file in files:
        file["stats"] = json.loads(file["stats"]) if file["stats"] else None
        if file["stats"] is not None:
            file["stats"].pop("tightBounds", None)  # the default is true
    removes = snapshot.tombstones().drop_columns(["tags", "stats"]).to_pylist()
    return {
        "files": sorted(files, key=lambda file: file["path"]),
        "tombstones": sorted(removes, key=lambda row: (row["path"], str(row["deletionVector"]))),
        "transactions": dict(snapshot.transactions()),
        "domains": dict(snapshot.domain_metadata()),
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
    }


def by_deltalake(root: Path) -> list[tuple[str, int]]:
    """The live files as deltalake has them."""
    from deltalake import DeltaTable

    actions = DeltaTable(str(root)).get_add_actions().to_struct_array().to_pylist()
    return sorted((row["path"], row["size_bytes"]) for row in actions)


def files_of_checkpoint(log: DeltaLog) -> list[Path]:
    return sorted((Path(log.uri) / "_delta_log").glob("*.checkpoint*"))


@pytest.mark.some_cases(2)
@KINDS
@pytest.mark.parametrize("properties", [{}, STRUCTS], ids=["json", "structs"])
def test_a_checkpoint_of_any_kind_is_the_replay_to_us_and_to_deltalake(
    tmp_path: Path, kind: Kind, properties: dict[str, str]
) -> None:
    log = busy(kind, tmp_path, **properties)
    before, foreign = log.snapshot(), by_deltalake(tmp_path)
    expected = state(before)
    for version in (2, 4):
        write_checkpoint(log.snapshot(version), now_ms=0, part_rows=kind[2])
    written = write_checkpoint(log.snapshot(), now_ms=0, part_rows=kind[2])
    assert written is not None
    after = DeltaLog(tmp_path).snapshot()
    assert after.commits_since_checkpoint == 0
    assert state(after) == expected
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        if "checkpoint" not in commit.name:
            commit.unlink()
    assert state(DeltaLog(tmp_path).snapshot()) == expected
    assert by_deltalake(tmp_path) == foreign
    assert (written.num_add_files, written.version) == (len(foreign), 5)


@pytest.mark.full
@given(commits=histories(), at=st.lists(st.integers(0, 7), min_size=1, max_size=4), data=st.data())
@settings(max_examples=25, deadline=None)
def test_checkpoints_on_checkpoints_change_nothing(
    commits: list[list[FileAction]], at: list[int], data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([CLASSIC, PARTS, SIDECARS]))
    root = Path(tempfile.mkdtemp())
    try:
        with mock.patch.object(v2, "SIDECAR_ROWS", data.draw(st.sampled_from([1, 2, 5]))):
            log = table(root, commits, kind)
            for version in sorted({min(each, len(commits) - 1) for each in at}):
                write_checkpoint(log.snapshot(version), now_ms=0, part_rows=kind[2])
            for version in range(len(commits)):
                assert replayed(log.snapshot(version)) == model(commits[: version + 1])
    finally:
        shutil.rmtree(root)


@KINDS
def test_only_expired_entries_are_left_out(tmp_path: Path, kind: Kind) -> None:
    log = busy(kind, tmp_path, **{"delta.setTransactionRetentionDuration": "interval 5 days"})
    write_checkpoint(log.snapshot(2), now_ms=6 * DAY, part_rows=kind[2])
    snapshot = log.snapshot(2)
    assert snapshot.tombstones()["path"].to_pylist() == ["p=a%20b/0.parquet"]
    assert set(snapshot.transactions()) == {"job"}
    written = write_checkpoint(log.snapshot(3), now_ms=13 * DAY, part_rows=kind[2])
    assert written is not None
    snapshot = log.snapshot(3)
    assert set(snapshot.tombstones()["path"].to_pylist()) == {
        "p=a%20b/1.parquet",
        "p=a%20b/2.parquet",
    }
    assert (dict(snapshot.transactions()), snapshot.num_files) == ({}, 5)


@KINDS
def test_a_version_that_has_its_checkpoint_gets_no_other(tmp_path: Path, kind: Kind) -> None:
    log = busy(kind, tmp_path)
    write_checkpoint(log.snapshot(), now_ms=0, part_rows=kind[2])
    files = files_of_checkpoint(log)
    assert write_checkpoint(log.snapshot(), now_ms=0, part_rows=kind[2]) is None
    assert files_of_checkpoint(log) == files


@KINDS
def test_the_hint_says_what_there_is(tmp_path: Path, kind: Kind) -> None:
    log = busy(kind, tmp_path)
    written = write_checkpoint(log.snapshot(), now_ms=0, part_rows=kind[2])
    assert written is not None
    hint = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    sidecars = list((tmp_path / "_delta_log").glob("_sidecars/*"))
    files = [*files_of_checkpoint(log), *sidecars]
    assert hint["version"] == 5
    assert hint["sizeInBytes"] == sum(file.stat().st_size for file in files)
    assert hint["numOfAddFiles"] == log.snapshot().num_files == 6
    assert hint.get("parts") == (len(files) if kind is PARTS else None)
    assert (written.num_files, written.num_actions) == (len(files), hint["size"])
    if kind is SIDECARS:
        assert "checkpointSchema" not in hint  # its top-level file has no such rows
    else:
        columns = {field["name"] for field in hint["checkpointSchema"]["fields"]}
        assert {"add", "remove", "metaData", "protocol", "txn"} <= columns


@pytest.mark.parametrize(
    ("protocol", "policy", "part_rows", "expected"),
    [
        pytest.param(PLAIN, "classic", None, "classic", id="the default"),
        pytest.param(V2, "v2", None, "v2", id="the policy"),
        pytest.param(V2, "classic", None, "classic", id="the feature alone"),
        pytest.param(PLAIN, "v2", None, "classic", id="the policy without the feature"),
        pytest.param(PLAIN, "classic", 5, "multi-part", id="parts on request"),
    ],
)
def test_the_table_says_which_kind(
    tmp_path: Path, protocol: Protocol, policy: str, part_rows: int | None, expected: str
) -> None:
    log = table(tmp_path, [[]], (protocol, {"delta.checkpointPolicy": policy}, None))
    assert checkpoint_kind(log.snapshot(), part_rows) == expected


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        pytest.param(
            lambda log: write_checkpoint(log.snapshot(), now_ms=0, part_rows=2),
            "must not have multi-part checkpoints",
            id="parts of a table with the feature",
        ),
        pytest.param(
            lambda log: checkpoint_kind(log.snapshot(), 0), "part_rows is 0", id="no rows"
        ),
    ],
)
def test_invalid_arguments_are_refused(
    tmp_path: Path, ask: Callable[[DeltaLog], object], message: str
) -> None:
    log = table(tmp_path, [[]], SIDECARS)
    with pytest.raises(InvalidRequestError, match=message):
        ask(log)
    assert not files_of_checkpoint(log)
