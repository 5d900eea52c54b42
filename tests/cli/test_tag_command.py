"""The command `tag`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops.cli.main import cli
from delta_ops.versioning import create_branch, create_tag
from tests.maintenance.aged_tables import overwritten


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_tags_are_created_listed_and_deleted(tmp_path: Path) -> None:
    table = str(overwritten(tmp_path / "t").root)
    assert run("tag", table, "list") == (0, "The table has no tags.\n")
    made = run("tag", table, "create", "reports/2026-11", "--version", "1")
    assert made == (0, "Tag reports/2026-11 names version 1.\n")
    code, text = run("tag", table, "list", "--json")
    (tag,) = json.loads(text)["tags"]
    assert (code, tag["name"], tag["version"], tag["created"][-6:]) == (
        0,
        "reports/2026-11",
        1,
        "+00:00",
    )
    code, text = run("tag", table, "list")
    assert text.splitlines()[1].split("\t")[:2] == ["reports/2026-11", "1"]
    planned = run("tag", table, "delete", "reports/2026-11", "--dry-run")
    assert planned == (0, "Would delete tag reports/2026-11, which names version 1.\n")
    deleted = run("tag", table, "delete", "reports/2026-11")
    assert deleted == (0, "Deleted tag reports/2026-11. Its name is never given again.\n")


@pytest.mark.parametrize("command", ["tag", "branch", "session"])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "JSON"])
def test_a_place_without_a_table_has_no_empty_list(
    tmp_path: Path, command: str, options: list[str]
) -> None:
    code, text = run(command, str(tmp_path / "t"), "list", *options)
    assert (code, text.count("\n"), "is not a Delta table" in text) == (1, 1, True)


def test_a_name_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    table = str(overwritten(tmp_path / "t").root)
    run("tag", table, "create", "a", "--version", "1")
    code, text = run("tag", table, "create", "a")
    assert (code, text.count("\n")) == (1, 1)
    assert "tag 'a' names version 1, and a tag never changes" in text


def test_an_anchor_is_written_once(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    da.write(table, pa.table({"id": [1]}))
    create_tag(table, "first")
    path = f"_delta_ops/anchors/{0:020}.checkpoint.parquet"
    assert run("tag", table, "anchor", "first") == (
        0,
        f"Wrote {path}, which keeps version 0 readable.\n",
    )
    create_branch(table, "x")
    assert run("branch", table, "anchor", "x")[1] == f"{path} keeps version 0 readable already.\n"
    found = json.loads(run("branch", table, "anchor", "x", "--json")[1])
    assert (found["ref"], found["version"], found["is_new"]) == ("branch:x", 0, False)
    assert run("tag", table, "anchor", "other")[0] == 1
