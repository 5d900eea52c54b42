"""The command `branch`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.cli.main import cli
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.versioning import create_branch, create_tag, open_branch


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_a_branch_is_created_compared_published_and_deleted(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    assert run("branch", table, "list") == (0, "The table has no branches.\n")
    code, text = run("branch", table, "create", "x", "--expires-in", "2")
    assert (code, text[:45]) == (0, "Branch x begins at version 0, and expires at ")
    assert run("branch", table, "rename", "x", "audit") == (0, "Branch x is audit now.\n")
    data = pa.table({"id": [2, 3], "note": ["a", "b"]})
    da.write(open_branch(table, "audit"), data, merge_schema=True)
    code, text = run("branch", table, "diff", "audit")
    assert code == 0
    assert "at version 1 and began at version 0 of main, which is at version 0." in text
    assert "Column: added note string." in text
    code, text = run("branch", table, "diff", "audit", "--json")
    assert (code, len(json.loads(text)["added"])) == (0, 1)
    assert run("count", table, "--ref", "branch:audit") == (0, "3\n")
    code, text = run("branch", table, "publish", "audit", "--expected-version", "0")
    assert (code, text.count("\n")) == (1, 1)
    code, text = run("branch", table, "publish", "audit", "--expected-version", "1")
    assert (code, text) == (
        0,
        "Published version 1 of branch audit as version 1: 1 file added, 0 removed.\n",
    )
    code, text = run("branch", table, "publish", "audit", "--json")
    assert json.loads(text)["already_published"] is True
    code, text = run("branch", table, "list", "--json")
    (branch,) = json.loads(text)["branches"]
    assert (branch["state"], branch["expires"][-6:]) == ("published as 1", "+00:00")
    assert run("branch", table, "list")[1].splitlines()[1].startswith("audit")
    assert run("branch", table, "delete", "audit")[0] == 0
    assert run("count", table) == (0, "3\n")


def test_main_that_has_moved_is_one_sentence_with_the_option(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    run("branch", table, "create", "x")
    da.write(open_branch(table, "x"), pa.table({"id": [2]}))
    da.write(table, pa.table({"id": [3]}))
    code, text = run("branch", table, "publish", "x")
    assert (code, text.count("\n")) == (1, 1)
    assert "Publish it with --rebase if" in text
    assert run("branch", table, "publish", "x", "--rebase")[0] == 0
    code, text = run("count", table, "--ref", "branch:x", "--version", "1")
    assert (code, "give --ref" in text) == (2, True)


def test_a_vacuum_names_the_branches_that_it_ends(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    long_ago = system_clock() - 9 * DAY_MS
    create_branch(table, "x", expires_in=timedelta(days=6), clock=lambda: long_ago)
    assert "expired" in run("branch", table, "list")[1]
    code, text = run("vacuum", table)
    assert (code, text.splitlines()[0]) == (0, "Deleted branches that had expired: x.")


def test_refs_names_the_missing_files_of_tags_and_branches(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    assert run("refs", table) == (0, "The table has no tags, branches or sessions.\n")
    create_tag(table, "first")
    create_branch(table, "x")
    code, text = run("refs", table)
    assert (code, text.count("readable")) == (0, 2)
    da.write(table, pa.table({"id": [2]}), mode="overwrite")
    (path,) = [add.path for add in DeltaLog(table).snapshot(0).add_files()]
    (tmp_path / "t" / path).unlink()
    code, text = run("refs", table)
    assert code == 1
    assert f"tag:first: {path} is missing" in text
    code, text = run("refs", table, "--json")
    (found,) = [each for each in json.loads(text)["refs"] if each["ref"] == "branch:x"]
    assert (code, found["missing_files"], found["readable"]) == (1, [path], False)
