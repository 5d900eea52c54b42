"""Refs of a table whose log was restored to an older state: they never show other rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import VersionNotFoundError
from delta_ops.maintenance import create_checkpoint
from delta_ops.versioning import (
    begin_session,
    create_branch,
    create_release,
    create_tag,
    open_branch,
    open_release,
    verify_refs,
)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    root = tmp_path / "t"
    da.write(root, rows_of(1))
    da.write(root, rows_of(2))
    return DeltaLog(root)


def rows_of(number: int) -> pa.Table:
    return pa.table({"id": [number]})


def restore_log(log: DeltaLog) -> None:
    """Lose version 1, as a backup of version 0 does, and commit another version 1."""
    for path in Path(log.uri, "_delta_log").glob("*00001*"):
        path.unlink()
    da.write(log, rows_of(3))


def create_a_tag(log: DeltaLog, _root: Path) -> Callable[[], Any]:
    create_tag(log, "x")
    return lambda: log.snapshot(ref="tag:x")


def create_a_tag_again(log: DeltaLog, _root: Path) -> Callable[[], Any]:
    create_tag(log, "x")
    return lambda: create_tag(log, "x", 1)


def create_a_branch(log: DeltaLog, _root: Path) -> Callable[[], Any]:
    create_branch(log, "x")
    da.write(open_branch(log, "x"), rows_of(9))
    return lambda: log.snapshot(ref="branch:x")


def begin_a_session(log: DeltaLog, _root: Path) -> Callable[[], Any]:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(9))
    return lambda: DeltaLog(log.uri).snapshot(ref=session.ref)


def rebase_a_session(log: DeltaLog, _root: Path) -> Callable[[], Any]:
    version_1 = log.storage.read("_delta_log/00000000000000000001.json")
    Path(log.uri, "_delta_log/00000000000000000001.json").unlink()
    session = begin_session(log)
    log.storage.create("_delta_log/00000000000000000001.json", version_1)
    session.rebase()
    return lambda: DeltaLog(log.uri).snapshot(ref=session.ref)


def create_a_release(log: DeltaLog, root: Path) -> Callable[[], Any]:
    create_release(root / "set", {"t": log})
    return lambda: open_release(root / "set")


KINDS = [
    create_a_tag,
    create_a_tag_again,
    create_a_branch,
    begin_a_session,
    rebase_a_session,
    create_a_release,
]


@pytest.mark.parametrize("make", KINDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("has_checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_another_commit_in_the_place_of_the_version_is_an_error(
    log: DeltaLog, tmp_path: Path, make: Callable[..., Callable[[], Any]], has_checkpoint: bool
) -> None:
    read = make(log, tmp_path)
    read()
    restore_log(log)
    if has_checkpoint:
        create_checkpoint(log)
    with pytest.raises(VersionNotFoundError, match="version 1 has another commit than when the"):
        read()


def test_verify_refs_names_the_problem(log: DeltaLog) -> None:
    create_tag(log, "x")
    restore_log(log)
    (found,) = verify_refs(log)
    assert "restored to an older state" in (found.problem or "")


def test_the_same_commit_is_recognized_by_its_checkpoint(log: DeltaLog, tmp_path: Path) -> None:
    first = create_release(tmp_path / "set", {"t": log})
    create_tag(log, "x")
    create_checkpoint(log)
    assert da.count_rows(log.snapshot(ref="tag:x")) == 2
    assert create_tag(log, "x", 1).version == 1
    assert create_release(tmp_path / "set", {"t": log}) == first
