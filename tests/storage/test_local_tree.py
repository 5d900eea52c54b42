"""Listing of a disk's tree: one thread, or several if the disk is slow to answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from delta_ops.storage import open_storage

DIRECTORIES = 40


def make_tree(root: Path) -> set[str]:
    paths = {f"{n % 4}/{n}/{name}" for n in range(DIRECTORIES) for name in ("a", "b")}
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return paths


def test_a_slow_disk_is_listed_by_several_threads(tmp_path: Path) -> None:
    paths = make_tree(tmp_path)
    threads: list[int] = []
    this = threading.get_ident()

    def wanted_late(names: Sequence[str]) -> Sequence[str]:
        threads.append(threading.get_ident())
        time.sleep(0.01)
        return names

    listed = open_storage(tmp_path).list_tree("", wanted_late)
    assert {info.path for info in listed} == paths
    assert len(threads) == DIRECTORIES
    assert threads[0] == this
    assert set(threads) > {this}


def test_files_are_found_one_group_after_the_other(tmp_path: Path) -> None:
    paths = make_tree(tmp_path)
    requests = [*sorted(paths), "0/0/c", *(f"gone/{n}" for n in range(5000))]
    assert {info.path for info in open_storage(tmp_path).find(requests)} == paths
