"""Files of kept versions, which vacuum finds by the difference to the latest version."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from delta_ops import DeltaLog, Snapshot
from delta_ops.errors import VersionNotFoundError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import read_commit
from delta_ops.maintenance import vacuum
from delta_ops.maintenance.vacuum.kept_files import paths_of_versions
from delta_ops.maintenance.vacuum.reachable import paths_named_by, protected_paths
from delta_ops.protocol.actions import Action, AddCdcFile, AddFile, DeletionVector
from delta_ops.versioning import create_tag
from tests.maintenance.aged_tables import Table
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, remove, write_log
from tests.support.tiers import seeded

VECTORS = [
    None,
    *(
        DeletionVector(
            storage_type="p", path_or_inline_dv=f"{number}.bin", size_in_bytes=1, cardinality=1
        )
        for number in range(3)
    ),
]


def commits_of(drawn: random.Random, number: int) -> list[list[Action]]:
    """Commits that add files, remove them and put them back, with other deletion vectors."""
    live: dict[str, AddFile] = {}
    commits: list[list[Action]] = [[]]
    for version in range(1, number):
        gone = {each: live.pop(each) for each in drawn.sample(sorted(live), len(live) // 3)}
        names = (f"a%20{n}.parquet" for n in drawn.sample(range(12), drawn.randrange(5)))
        new = [add(each, deletion_vector=drawn.choice(VECTORS)) for each in names]
        new = [each for each in new if each.path not in live and each.path not in gone]
        live |= {each.path: each for each in new}
        removes = [remove(p, deletion_vector=old.deletion_vector) for p, old in gone.items()]
        cdc = AddCdcFile(path=f"_change_data/{version}", size=1, partition_values={})
        commits.append([*removes, *new, *([cdc] if drawn.random() < 0.3 else [])])
    return commits


def needed(snapshot: Snapshot, *, with_commit: bool = True) -> set[str]:
    """The files of a version, and what its commit names."""
    paths = set(protected_paths(snapshot.add_rows(), snapshot))
    if with_commit and snapshot.version:
        commit = read_commit(snapshot.storage, snapshot.log_directory, snapshot.version)
        paths.update(paths_named_by(commit, snapshot))
    return paths


@pytest.mark.parametrize("seed", range(12))
def test_the_difference_has_the_files_of_all_kept_versions_and_no_others(
    tmp_path: Path, seed: int
) -> None:
    drawn = seeded(seed)
    log = write_log(tmp_path, commits_of(drawn, 20))
    latest = log.snapshot(drawn.randrange(10, 20))
    if drawn.random() < 0.5:
        write_checkpoint(log.snapshot(drawn.randrange(1, 20)), now_ms=0)
    kept = drawn.sample(range(20), drawn.randrange(1, 20))
    expected = needed(latest, with_commit=False).union(*(needed(log.snapshot(v)) for v in kept))
    found = paths_of_versions(log, latest, kept)
    assert found | needed(latest, with_commit=False) == expected


def test_a_version_whose_later_commits_are_gone_is_opened(tmp_path: Path) -> None:
    log = write_log(tmp_path, commits_of(seeded(1), 20))
    write_checkpoint(log.snapshot(5), now_ms=0)
    write_checkpoint(log.snapshot(19), now_ms=0)
    expected = needed(log.snapshot(6))
    (tmp_path / "_delta_log" / f"{10:020}.json").unlink()
    assert paths_of_versions(log, log.snapshot(), [6]) == expected
    with pytest.raises(VersionNotFoundError, match="version 20"):
        paths_of_versions(log, log.snapshot(), [6, 20])


def test_a_vacuum_reads_each_commit_once_for_any_number_of_tags(tmp_path: Path) -> None:
    """So its cost grows with the log, and not with the number of tags times the table."""
    table = Table(tmp_path)
    for number in range(12):
        table.write([number], mode="overwrite" if number % 3 else "append")
    write_checkpoint(table.log.snapshot(), now_ms=0)

    def calls() -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()

        def count(_number: int, method: str, path: str, when: str) -> None:
            found.update([(method, path)] if when == "before" else [])

        log = DeltaLog(tmp_path, storage=CountingStorage(table.log.storage, count))
        vacuum(log, dry_run=True, clock=table.clock)
        return found

    without = calls()
    for version in range(12):
        create_tag(table.log, f"t{version}", version=version)
    more = calls() - without
    log_calls = {key: n for key, n in more.items() if key[1].startswith("_delta_log")}
    commits = {("read", f"_delta_log/{version:020}.json"): 1 for version in range(12)}
    assert log_calls == {**commits, ("list_from", "_delta_log"): 1}
