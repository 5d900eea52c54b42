"""The command `branch`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.cli.main import cli
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.versioning import create_branch, create_tag, delete_tag, list_branches, open_branch


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
    assert run("publish", table, "audit", "--json") == (0, text)
    code, text = run("branch", table, "list", "--json")
    (branch,) = json.loads(text)["branches"]
    assert (branch["state"], branch["expires"][-6:]) == ("published as 1", "+00:00")
    assert run("branch", table, "list")[1].splitlines()[1].startswith("audit")
    code, text = run("branch", table, "delete", "audit", "--dry-run")
    assert (code, text[:47]) == (0, "Would delete branch audit (published as 1). A f")
    code, text = run("branch", table, "delete", "audit", "--dry-run", "--json")
    assert (json.loads(text)["dry_run"], json.loads(text)["base_version"]) == (True, 0)
    assert run("branch", table, "delete", "audit")[0] == 0
    assert run("branch", table, "delete", "audit", "--dry-run")[0] == 1
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
    assert run("publish", table, "x") == (1, text)
    assert run("branch", table, "rebase", "x") == (0, "Branch x follows version 1 of main.\n")
    found = json.loads(run("branch", table, "rebase", "x", "--json")[1])
    assert (found["base_version"], found["state"]) == (1, "open")
    da.write(table, pa.table({"id": [4]}))
    code, text = run("publish", table, "x", "--rebase")
    assert (code, text[:42]) == (0, "Published version 2 of branch x as version")
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


def test_refs_of_an_earlier_time_are_listed(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    create_tag(table, "first", clock=lambda: DAY_MS)
    create_branch(table, "x", clock=lambda: 3 * DAY_MS)
    delete_tag(table, "first", clock=lambda: 5 * DAY_MS)
    nothing = "The table had no tags, branches or sessions.\n"
    assert run("refs", table, "--timestamp", "1970-01-01") == (0, nothing)
    code, text = run("refs", table, "--timestamp", "1970-01-03")
    assert (code, [line.split("\t")[:2] for line in text.splitlines()[1:]]) == (
        0,
        [["tag:first", "0"]],
    )
    code, text = run("refs", table, "--timestamp", "1970-01-05T00:00:00Z", "--json")
    assert [each["ref"] for each in json.loads(text)["refs"]] == ["tag:first", "branch:x"]
    code, text = run("refs", table, "--timestamp", "1970-01-09")
    assert [line.split("\t")[0] for line in text.splitlines()[1:]] == ["branch:x"]
    code, text = run("refs", table, "--timestamp", "yesterday")
    assert (code, text.count("\n")) == (1, 1)


def test_rows_of_two_versions_or_refs_are_compared(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1, 2]}))
    create_branch(table, "x")
    da.delete(open_branch(table, "x"), "id = 1")
    da.write(table, pa.table({"id": [3]}))
    code, text = run("diff", table, "0", "branch:x", "--json")
    assert (code, json.loads(text)) == (0, {"id": 1, "_change_type": "delete"})
    assert run("diff", table, "branch:x", "--count") == (
        0,
        "0 rows only in branch:x, 2 only in latest.\n",
    )
    found = json.loads(run("diff", table, "branch:x", "1", "--count", "--json")[1])
    assert (found["deleted_rows"], found["inserted_rows"], found["new_version"]) == (0, 2, 1)
    assert run("diff", table, "0", "0", "--columns", "id") == (0, "id\t_change_type\n")
    code, text = run("diff", table, "0", "x")
    assert (code, text.count("\n"), "is not a ref" in text) == (1, 1, True)


def test_a_branch_that_would_end_at_once_is_rejected(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    code, text = run("branch", str(tmp_path), "create", "x", "--expires-in", "0.0000001")
    assert (code, "a branch lives for at least 1 minute" in text) == (1, True)
    assert list_branches(tmp_path) == []


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["branch", "{}", "create", "c"], "--expires-in"),
        (["release", "{}", "delete"], "--older-than"),
        (["restore", "{}", "--version", "0"], "--timeout"),
        (["optimize", "{}"], "--deleted-share"),
    ],
)
def test_numbers_that_are_no_amount_are_rejected_by_their_option(
    tmp_path: Path, command: list[str], option: str, number: str
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    arguments = [each.format(tmp_path) for each in command]
    result = CliRunner().invoke(cli, [*arguments, f"{option}={number}"])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output
    assert DeltaLog(tmp_path).snapshot().version == 0
