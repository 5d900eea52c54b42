"""Replay against a dictionary that replays oldest first."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops import DeltaLog
from delta_ops.log import segment_replay
from delta_ops.log.checkpoint_write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import AddFile, DeletionVector, FileAction, SetTransaction
from tests.counting_storage import CountingStorage
from tests.tables import add, live_paths, remove, write_log

NAMES = [f"f{i}.parquet" for i in range(6)] + ["a b.parquet", "ü.parquet"]
ENCODED = {
    "a b.parquet": ["a b.parquet", "a%20b.parquet"],
    "ü.parquet": ["ü.parquet", "%C3%BC.parquet"],
}


@st.composite
def histories(draw: st.DrawFn) -> list[list[FileAction]]:
    """Commits that each say at most one thing of a file, in any spelling of its path."""
    commits = []
    for _ in range(draw(st.integers(1, 8))):
        chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
        commit: list[FileAction] = []
        for name in chosen:
            path = draw(st.sampled_from(ENCODED.get(name, [name])))
            size = draw(st.integers(1, 1000))
            commit.append(add(path, size=size) if draw(st.booleans()) else remove(path))
        commits.append(commit)
    return commits


def decoded(path: str) -> str:
    return path.replace("%20", " ").replace("%C3%BC", "ü")


def model(commits: list[list[FileAction]]) -> dict[str, int]:
    """Live files and their sizes, by replaying oldest first."""
    live: dict[str, int] = {}
    for commit in commits:
        for action in commit:
            if isinstance(action, AddFile):
                live[decoded(action.path)] = action.size
            else:
                live.pop(decoded(action.path), None)
    return live


@given(commits=histories(), checkpoint_at=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_replay_equals_the_model_and_a_checkpoint_at_any_version_changes_nothing(
    commits: list[list[FileAction]], checkpoint_at: int
) -> None:
    check_replay(commits, checkpoint_at)


@given(commits=histories(), group=st.integers(1, 1500), share=st.sampled_from([1, 16]))
@settings(max_examples=60, deadline=None)
def test_replay_in_groups_equals_the_model(
    commits: list[list[FileAction]], group: int, share: int
) -> None:
    with (
        mock.patch.object(segment_replay, "_GROUP_BYTES", group),
        mock.patch.object(segment_replay, "_SMALL_BYTES", 0),
        mock.patch.object(segment_replay, "_PENDING_SHARE", share),
    ):
        check_replay(commits, len(commits) - 1)


def check_replay(commits: list[list[FileAction]], checkpoint_at: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        log = write_log(root, commits)
        at = min(checkpoint_at, len(commits) - 1)
        write_checkpoint(log.snapshot(at), now_ms=0)
        for version in range(len(commits)):
            files = log.snapshot(version).files(["path", "size"]).to_pylist()
            assert {f["path"]: f["size"] for f in files} == model(commits[: version + 1])
        latest = log.snapshot()
        assert latest.num_files == len(model(commits))
        assert latest.size_bytes == sum(model(commits).values())
    finally:
        shutil.rmtree(root)


@given(commits=histories(), split=st.integers(0, 7))
@settings(max_examples=30, deadline=None)
def test_a_refreshed_snapshot_equals_a_new_one(commits: list[list[FileAction]], split: int) -> None:
    check_refresh(commits, split)


def check_refresh(commits: list[list[FileAction]], split: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        log = write_log(root, commits)
        refreshed = log.snapshot(min(split, len(commits) - 1)).refresh()
        fresh = log.snapshot()
        assert refreshed.version == fresh.version
        assert refreshed.num_files == fresh.num_files
        assert refreshed.tombstones()["path"].to_pylist() == fresh.tombstones()["path"].to_pylist()
    finally:
        shutil.rmtree(root)


def test_a_refresh_reads_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("0")], [add("1")], [add("2")]])
    write_checkpoint(log.snapshot(1), now_ms=0)
    calls: list[tuple[str, str]] = []

    def on_call(number: int, method: str, path: str, moment: str) -> None:
        if moment == "before":
            calls.append((method, path.rpartition("/")[2]))

    counted = DeltaLog(tmp_path, storage=CountingStorage(log.storage, on_call))
    snapshot = counted.snapshot()
    assert snapshot.num_files == 3
    calls.clear()
    assert snapshot.refresh() is snapshot
    assert calls == [("list_from", "_delta_log")]
    create_commit(log.storage, log.log_directory, 3, [add("3")])
    create_commit(log.storage, log.log_directory, 4, [remove("0")])
    calls.clear()
    assert snapshot.refresh().version == 4
    assert sorted(calls) == [
        ("list_from", "_delta_log"),
        ("read", f"{3:020d}.json"),
        ("read", f"{4:020d}.json"),
    ]


def vector(place: str) -> DeletionVector:
    return DeletionVector(
        storage_type="u", path_or_inline_dv=place, offset=1, size_in_bytes=1, cardinality=1
    )


def test_a_file_with_another_deletion_vector_is_another_file(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        [
            [add("x.parquet", deletion_vector=vector("old"))],
            [
                remove("x.parquet", deletion_vector=vector("old")),
                add("x.parquet", deletion_vector=vector("new")),
            ],
        ],
    )
    (live,) = log.snapshot().add_files()
    assert live.deletion_vector is not None
    assert live.deletion_vector.path_or_inline_dv == "new"


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param("{root}/x.parquet", id="a path from the root of the file system"),
        pytest.param("file:{root}/x.parquet", id="a file URI with one slash"),
        pytest.param("file://{root}/x.parquet", id="a file URI with three slashes"),
    ],
)
def test_a_remove_cancels_an_add_however_it_spells_the_path(tmp_path: Path, spelling: str) -> None:
    path = spelling.format(root=tmp_path)
    log = write_log(tmp_path, [[add("x.parquet"), add("y.parquet")], [remove(path)]])
    assert live_paths(log) == {"y.parquet"}


def test_a_remove_through_a_link_to_the_table_cancels_an_add(tmp_path: Path) -> None:
    root, link = tmp_path / "root", tmp_path / "link"
    write_log(root, [[add("x.parquet"), add("y.parquet")], [remove(f"{root}/x.parquet")]])
    link.symlink_to(root)
    assert live_paths(DeltaLog(link)) == {"y.parquet"}


def test_statistics_win_that_a_later_add_of_the_same_file_brings(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("x.parquet")], [add("x.parquet", stats='{"numRecords":7}')]])
    assert log.snapshot().files(["num_records"])["num_records"].to_pylist() == [7]


def test_the_latest_txn_of_an_application_counts_even_if_it_went_back(tmp_path: Path) -> None:
    txns = [SetTransaction(app_id="a", version=v, last_updated=v) for v in (5, 3)]
    log = write_log(tmp_path, [[txns[0]], [txns[1]]])
    write_checkpoint(log.snapshot(), now_ms=0)
    assert DeltaLog(tmp_path).snapshot().transactions() == {"a": txns[1]}


def test_a_snapshot_that_went_to_another_process_still_knows_its_files(tmp_path: Path) -> None:
    """Python's hashes of texts differ from process to process."""
    log = write_log(tmp_path, [[add("x.parquet"), add("y.parquet")]])
    sent = base64.b64encode(pickle.dumps(log.snapshot())).decode()
    create_commit(log.storage, log.log_directory, 1, [remove("x.parquet")])
    program = (
        "import base64, pickle, sys\n"
        "snapshot = pickle.loads(base64.b64decode(sys.argv[1])).refresh()\n"
        "print(snapshot.version, snapshot.files(['path'])['path'].to_pylist())"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program, sent],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        assert done.stdout == "1 ['y.parquet']\n"
