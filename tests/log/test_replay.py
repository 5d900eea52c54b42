"""Replay, compared with a dictionary that replays oldest first."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops import DeltaLog, Snapshot
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.log.segment import find_segment
from delta_ops.log.version.replay import replay_commits
from delta_ops.protocol.actions import (
    AddFile,
    DeletionVector,
    DomainMetadata,
    FileAction,
    SetTransaction,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, add_files, remove_files
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, live_paths, remove, write_log

NAMES = [f"f{i}.parquet" for i in range(6)] + ["a b.parquet", "ü.parquet"]
ENCODED = {
    "a b.parquet": ["a b.parquet", "a%20b.parquet"],
    "ü.parquet": ["ü.parquet", "%C3%BC.parquet"],
}


VECTORS = [
    None,
    *(
        DeletionVector(
            storage_type=kind,
            path_or_inline_dv=place,
            offset=offset,
            size_in_bytes=1,
            cardinality=1,
        )
        for kind, place, offset in [("u", "a", 1), ("u", "a", 2), ("u", "b", 1), ("i", "a", None)]
    ),
]
Key = tuple[str, DeletionVector | None]


@st.composite
def histories(draw: st.DrawFn) -> list[list[FileAction]]:
    """Commits that each have at most one action per file, in any spelling of its path."""
    keys = st.tuples(st.sampled_from(NAMES), st.none() | st.sampled_from(VECTORS))
    commits = []
    for _ in range(draw(st.integers(1, 8))):
        chosen = draw(st.lists(keys, unique=True, max_size=5))
        commit: list[FileAction] = []
        for name, vector in chosen:
            path = draw(st.sampled_from(ENCODED.get(name, [name])))
            size = draw(st.integers(1, 1000))
            is_add = draw(st.booleans())
            commit.append(
                add(path, size=size, deletion_vector=vector)
                if is_add
                else remove(path, deletion_vector=vector)
            )
        commits.append(commit)
    return commits


def key_of(action: FileAction) -> Key:
    path = action.path.replace("%20", " ").replace("%C3%BC", "ü")
    return path, action.deletion_vector


def model(commits: list[list[FileAction]]) -> tuple[dict[Key, int], set[Key]]:
    """Live files with their sizes, and removed files, by replay oldest first."""
    live: dict[Key, int] = {}
    gone: set[Key] = set()
    for action in chain.from_iterable(commits):
        if isinstance(action, AddFile):
            live[key_of(action)] = action.size
            gone.discard(key_of(action))
        else:
            live.pop(key_of(action), None)
            gone.add(key_of(action))
    return live, gone


def replayed(snapshot: Snapshot) -> tuple[dict[Key, int], set[Key]]:
    """Live files with their sizes, and removed files, from a snapshot."""
    adds = snapshot.add_files()
    removes = remove_files(snapshot.tombstones())
    live = {key_of(each): each.size for each in adds}
    assert (len(live), len({*map(key_of, removes)})) == (len(adds), len(removes))
    return live, {*map(key_of, removes)}


@given(commits=histories(), checkpoint_at=st.integers(0, 7))
@settings(max_examples=30, deadline=None)
def test_replay_equals_the_model_and_a_checkpoint_at_any_version_changes_nothing(
    commits: list[list[FileAction]], checkpoint_at: int
) -> None:
    check_replay(commits, checkpoint_at)


@pytest.mark.full
@given(commits=histories(), group=st.integers(1, 1500), share=st.sampled_from([1, 16]))
@settings(max_examples=30, deadline=None)
def test_replay_in_groups_equals_the_model(
    commits: list[list[FileAction]], group: int, share: int
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        log = write_log(root, commits)
        for version in range(len(commits)):
            segment = find_segment(log.storage, log.log_directory, version)
            tail = replay_commits(
                log.storage, segment, small_bytes=0, group_bytes=group, pending_share=share
            ).tail
            adds = add_files(tail.adds.rows.select(ADD.names))
            removes = remove_files(tail.removes.rows.select(REMOVE.names))
            live, gone = model(commits[: version + 1])
            assert Counter((key_of(each), each.size) for each in adds) == Counter(live.items())
            assert Counter(map(key_of, removes)) == Counter(gone)
    finally:
        shutil.rmtree(root)


def check_replay(commits: list[list[FileAction]], checkpoint_at: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        log = write_log(root, commits)
        at = min(checkpoint_at, len(commits) - 1)
        write_checkpoint(log.snapshot(at), now_ms=0)
        for version in range(len(commits)):
            assert replayed(log.snapshot(version)) == model(commits[: version + 1])
        latest, (live, _) = log.snapshot(), model(commits)
        assert (latest.num_files, latest.size_bytes) == (len(live), sum(live.values()))
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
        assert replayed(refreshed) == replayed(fresh) == model(commits)
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


def test_a_refresh_parses_the_definition_only_if_a_commit_changes_it(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("0")]])
    snapshot = log.snapshot()
    create_commit(log.storage, log.log_directory, 1, [add("1")])
    appended = snapshot.refresh()
    assert appended.definition is snapshot.definition
    renamed = replace(snapshot.metadata, name="other")
    create_commit(log.storage, log.log_directory, 2, [renamed])
    assert appended.refresh().metadata == renamed


def test_a_remove_of_a_file_without_its_deletion_vector_is_of_another_file(tmp_path: Path) -> None:
    vector = VECTORS[1]
    log = write_log(
        tmp_path,
        [
            [add("x.parquet")],
            [remove("x.parquet"), add("x.parquet", deletion_vector=vector)],
            [remove("x.parquet")],
        ],
    )
    assert [each.deletion_vector for each in log.snapshot().add_files()] == [vector]


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


@pytest.mark.parametrize("checkpoint_at", [None, 0, 1, 2])
def test_the_latest_word_on_a_domain_counts_and_a_removed_one_is_gone(
    tmp_path: Path, checkpoint_at: int | None
) -> None:
    domains = [
        [
            DomainMetadata(domain="a", configuration="1"),
            DomainMetadata(domain="b", configuration="1"),
        ],
        [DomainMetadata(domain="a", configuration="2")],
        [DomainMetadata(domain="b", configuration="", removed=True)],
    ]
    log = write_log(tmp_path, domains)
    if checkpoint_at is not None:
        write_checkpoint(log.snapshot(checkpoint_at), now_ms=0)
    assert DeltaLog(tmp_path).snapshot().domain_metadata() == {"a": domains[1][0]}
    assert set(DeltaLog(tmp_path).snapshot(1).domain_metadata()) == {"a", "b"}


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
