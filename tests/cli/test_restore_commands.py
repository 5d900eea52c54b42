"""`restore`, `revert` and `repair`, run in this process on real tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.clock import system_clock
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.actions import CommitInfo
from tests.cli.test_commands import output, run
from tests.maintenance.restored_tables import commit, history, ids, write


def lost(log: DeltaLog, value: int) -> str:
    """Delete the file of the row with this id; return its path."""
    (add,) = log.snapshot().add_files(col("id") == value)
    (Path(log.uri) / add.path).unlink()
    return add.path


def failed(result: Result, code: int = 1) -> str:
    """The error of a failed command: one sentence on standard error, without a traceback."""
    assert result.exit_code == code
    assert "Traceback" not in result.output
    return result.stderr


def test_restore(tmp_path: Path) -> None:
    log = history(tmp_path)
    planned = output("restore", tmp_path, "--version", "2", "--dry-run")
    assert (planned["dry_run"], planned["version"], planned["added_files"]) == (True, None, 3)
    done = output("restore", tmp_path, "--version", "2")
    assert (done["restored_version"], done["planned_on"], done["version"]) == (2, 4, 5)
    assert (done["removed_files"], done["missing"]) == (2, [])
    assert ids(log) == [0, 1, 7]
    assert "nothing to do" in run("restore", tmp_path, "--version", "2").stdout


def test_restore_says_what_it_did(tmp_path: Path) -> None:
    log = history(tmp_path)
    arguments = ("restore", tmp_path, "--version", "2", "--request-id", "ticket")
    assert "Would restore version 2: 3 files" in run(*arguments, "--dry-run").stdout
    assert "Version 5 restores version 2: 3 files" in run(*arguments).stdout
    assert "already done (version 5)" in run(*arguments).stdout
    create_checkpoint(log)
    write(log, [99])
    (tmp_path / "_delta_log" / f"{5:020}.json").unlink()
    assert "already done (since cleaned up)" in run(*arguments).stdout


def test_restore_says_which_txns_it_sets_back(tmp_path: Path) -> None:
    for number in range(2):
        da.write(tmp_path, pa.table({"id": [number]}), txn=("nightly", number))
    output = run("restore", tmp_path, "--version", "0", "--dry-run").stdout
    assert output.endswith(" out, 1 txn set back.\n")


def test_restore_of_missing_files_fails_unless_allowed(tmp_path: Path) -> None:
    log = history(tmp_path)
    (path,) = log.snapshot(0).files(["path"])["path"].to_pylist()
    (tmp_path / path).unlink()
    assert path in failed(run("restore", tmp_path, "--version", "1"))
    ignoring = ("restore", tmp_path, "--version", "1", "--ignore-missing-files")
    printed = run(*ignoring, "--dry-run").stdout
    assert f"restore version 1 without 1 file that is gone, such as {path}: 1 file" in printed
    assert output(*ignoring)["missing"] == [path]
    assert f"except for 1 file that is gone, such as {path}; nothing" in run(*ignoring).stdout


def test_restore_takes_one_of_version_and_timestamp(tmp_path: Path) -> None:
    history(tmp_path)
    assert "one of the two" in failed(run("restore", tmp_path), 2)
    both = ("--version", "1", "--timestamp", "2026-01-01")
    assert "one of the two" in failed(run("restore", tmp_path, *both), 2)
    assert "not a timestamp" in failed(run("restore", tmp_path, "--timestamp", "soon"))


def test_revert(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert "Would revert version 3: 3 files" in run("revert", tmp_path, "3", "--dry-run").stdout
    done = output("revert", tmp_path, "3")
    assert (done["reverted_version"], done["version"], done["added_files"]) == (3, 5, 3)
    assert ids(log) == [0, 1, 7, 10]
    assert output("revert", tmp_path, "3")["already_committed"]
    assert "already done (version 5)" in run("revert", tmp_path, "3").stdout
    assert "Version 6 reverts version 4" in run("revert", tmp_path, "4").stdout
    assert "created the table" in failed(run("revert", tmp_path, "0"))


def test_repair(tmp_path: Path) -> None:
    log = history(tmp_path)
    assert "2 files, all intact." in run("repair", tmp_path).stdout
    path = lost(log, 10)
    planned = run("repair", tmp_path, "--dry-run", "--remove-missing", "--json")
    found = json.loads(planned.stdout)
    assert (found["missing"], found["version"]) == ([path], None)
    printed = run("repair", tmp_path)
    assert f"gone\t{path}" in printed.stdout
    assert "--remove-missing" in failed(printed)
    done = output("repair", tmp_path, "--remove-missing")
    assert (done["version"], done["removed_files"]) == (5, 1)
    assert ids(log) == [9]


def _lose_a_file(log: DeltaLog) -> None:
    lost(log, 10)


def _lose_statistics(log: DeltaLog) -> None:
    commit(log, *(replace(add, stats=None) for add in log.snapshot().add_files()))


def _leave_an_orphan(log: DeltaLog) -> None:
    orphan = Path(log.uri) / "orphan.parquet"
    orphan.touch()
    os.utime(orphan, (0, 0))


@pytest.mark.parametrize(
    ("damage", "arguments", "code"),
    [
        pytest.param(lambda log: None, (), 0, id="nothing is missing"),
        pytest.param(_leave_an_orphan, (), 0, id="an orphan is not damage"),
        pytest.param(_lose_a_file, (), 3, id="a file is gone"),
        pytest.param(_lose_a_file, ("--remove-missing",), 3, id="a file that would leave"),
        pytest.param(_lose_statistics, (), 3, id="statistics are missing"),
        pytest.param(_lose_statistics, ("--no-statistics",), 0, id="statistics do not matter"),
    ],
)
def test_the_exit_code_of_a_dry_run_of_repair_shows_whether_it_found_something(
    tmp_path: Path, damage: Callable[[DeltaLog], None], arguments: tuple[str, ...], code: int
) -> None:
    damage(history(tmp_path))
    output = run("repair", tmp_path, "--dry-run", *arguments)
    assert (output.exit_code, output.stderr) == (code, "")


def test_repair_fills_in_statistics(tmp_path: Path) -> None:
    log = history(tmp_path)
    commit(log, *(replace(add, stats=None) for add in log.snapshot().add_files()))
    assert output("repair", tmp_path, "--no-statistics")["version"] is None
    printed = run("repair", tmp_path)
    assert printed.exit_code == 0
    assert "no statistics\t" in printed.stdout
    assert "Version 6: 2 files got statistics" in printed.stdout


@pytest.mark.parametrize("arguments", [("restore", "--version", "1"), ("revert", "3")])
def test_the_log_can_record_the_end_of_a_killed_vacuum(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    log = history(tmp_path)
    info = CommitInfo(values={"operation": "VACUUM START", "timestamp": system_clock()})
    create_commit(log.storage, log.log_directory, 5, [info])
    command, *rest = arguments

    printed = failed(run(command, tmp_path, *rest, "--timeout", "0.1"))
    done = output(command, tmp_path, *rest, "--vacuum-was-killed")

    assert "records the start of a vacuum without its end" in printed
    assert done["version"] == 6
