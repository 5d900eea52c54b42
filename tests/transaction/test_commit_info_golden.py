"""The commits of three sequences of writes, as a document of 2019 shows them for the reference.

The document is parsed, not copied. Values differ from ours (ids, sizes, times); the order of the
actions, the names of their fields and the JSON types of the values are equal, except for later
changes of the reference: `SINCE`, and `metaData` before `protocol`.
`tests/interop/test_commits_side_by_side.py` compares with the current reference.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.maintenance import create_checkpoint
from delta_ops.transaction.requests import Mode
from tests.support.tables import SHARED, needs_shared

pytestmark = needs_shared

DOCUMENT = SHARED / "seeds" / "delta-transactions-blog-ja.txt"
ACTIONS = {"commitInfo", "protocol", "metaData", "add", "remove"}
COLUMN = pa.schema([("value", pa.int32())])
Json = dict[str, Any]

SINCE: dict[str, Json] = {
    # The checked isolation level, whether it read nothing, its metrics, its writer, and the number
    # of the attempt.
    "commitInfo": {
        "isolationLevel": "str",
        "isBlindAppend": "bool",
        "operationMetrics": {"numFiles": "str", "numOutputRows": "str", "numOutputBytes": "str"},
        "engineInfo": "str",
        "txnId": "str",
    },
    # For data skipping.
    "add": {"stats": "str"},
    # So that a tombstone describes the file as fully as its add.
    "remove": {"extendedFileMetadata": "bool", "partitionValues": {}, "size": "int"},
}
METRICS_OF_OVERWRITE = {"numRemovedFiles": "str", "numRemovedBytes": "str"}


def documented() -> list[list[list[Json]]]:
    """The sequences of the document: lists of commits, which are lists of actions."""
    sequences: list[list[list[Json]]] = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        action = json.loads(line) if line.startswith('{"') else {}
        if not ACTIONS & action.keys():
            continue
        if "commitInfo" in action:
            if "readVersion" not in action["commitInfo"]:
                sequences.append([])
            sequences[-1].append([])
        sequences[-1][-1].append(action)
    return sequences


def written(root: Path, mode: Mode) -> list[list[Json]]:
    """Our sequence: one row, two files of one row each, two files of three rows."""
    da.write(root, table(1))
    write_two_files(root, [[2], [3]], mode)
    write_two_files(root, [[4], [5, 6]], mode)
    names = [f"{version:020}.json" for version in range(3)]
    commits = [(root / "_delta_log" / name).read_text().splitlines() for name in names]
    return [[json.loads(line) for line in commit] for commit in commits]


def table(*values: int) -> pa.Table:
    return pa.table({"value": values}, COLUMN)


def write_two_files(root: Path, files: Sequence[Sequence[int]], mode: Mode) -> None:
    first, second = files
    transaction = begin(DeltaLog(root))
    transaction.stage(da.stage_write(transaction, table(*first)))
    da.write(transaction, table(*second), mode)


def shape(value: Any) -> Any:
    """Names and types, without values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


def expected(action: Json, *, removes: bool) -> Json:
    """The shape of a documented action, with later additions."""
    ((kind, body),) = action.items()
    since = dict(SINCE.get(kind, {}))
    if kind == "commitInfo" and removes:
        since["operationMetrics"] = {**since["operationMetrics"], **METRICS_OF_OVERWRITE}
    return {kind: {**shape(body), **since}}


@pytest.mark.parametrize(("number", "mode"), [(0, "append"), (1, "overwrite")])
def test_each_commit_has_the_documented_actions_in_the_reference_s_order(
    tmp_path: Path, number: int, mode: Mode
) -> None:
    documented_kinds = [[kind for a in commit for kind in a] for commit in documented()[number]]
    ours = [[kind for action in commit for kind in action] for commit in written(tmp_path, mode)]

    assert documented_kinds[0] == ["commitInfo", "protocol", "metaData", "add"]
    assert ours == [["commitInfo", "metaData", "protocol", "add"], *documented_kinds[1:]]


@pytest.mark.parametrize(("number", "mode"), [(0, "append"), (1, "overwrite")])
def test_each_action_has_the_documented_fields_and_what_came_since(
    tmp_path: Path, number: int, mode: Mode
) -> None:
    for commit, ours in zip(documented()[number], written(tmp_path, mode), strict=True):
        removes = any("remove" in action for action in commit)
        wanted = sorted((expected(action, removes=removes) for action in commit), key=list)
        assert sorted((shape(action) for action in ours), key=list) == wanted


def test_the_meaning_of_the_values_has_not_changed(tmp_path: Path) -> None:
    for commit, ours in zip(documented()[1], written(tmp_path, "overwrite"), strict=True):
        info, our_info = commit[0]["commitInfo"], ours[0]["commitInfo"]
        same = ("operation", "readVersion")
        assert [our_info.get(name) for name in same] == [info.get(name) for name in same]
        assert our_info["operationParameters"]["partitionBy"] == "[]"
    created = {kind: body for action in documented()[1][0] for kind, body in action.items()}
    ours_created = {
        kind: body
        for action in written(tmp_path / "again", "overwrite")[0]
        for kind, body in action.items()
    }
    assert ours_created["protocol"] == created["protocol"]
    for name in ("format", "schemaString", "partitionColumns", "configuration"):
        assert ours_created["metaData"][name] == created["metaData"][name]


def test_the_overwrites_leave_three_tombstones_of_the_files_added_before(tmp_path: Path) -> None:
    commits = written(tmp_path, "overwrite")

    added = [[a["add"]["path"] for a in commit if "add" in a] for commit in commits]
    removed = [[a["remove"]["path"] for a in commit if "remove" in a] for commit in commits]
    assert [len(paths) for paths in removed] == [0, 1, 2]
    assert removed[1:] == added[:-1]
    tombstones = DeltaLog(tmp_path).snapshot().tombstones()
    assert set(tombstones["path"].to_pylist()) == {*removed[1], *removed[2]}


def test_the_checkpoint_of_the_third_version_has_seven_rows(tmp_path: Path) -> None:
    (hint,) = (
        json.loads(line)
        for line in DOCUMENT.read_text(encoding="utf-8").splitlines()
        if line.startswith('{"version"')
    )
    written(tmp_path, "overwrite")
    create_checkpoint(DeltaLog(tmp_path))

    log = tmp_path / "_delta_log"
    ours = json.loads((log / "_last_checkpoint").read_text())
    assert {name: ours[name] for name in hint} == hint == {"version": 2, "size": 7}
    rows = pq.read_table(log / "00000000000000000002.checkpoint.parquet")
    counts = {name: rows.num_rows - rows[name].null_count for name in rows.column_names}
    assert {name: count for name, count in counts.items() if count} == {
        "protocol": 1,
        "metaData": 1,
        "add": 2,
        "remove": 3,
    }
