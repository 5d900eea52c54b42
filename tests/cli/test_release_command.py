"""The command `release`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops.cli.main import cli


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_releases_are_made_shown_compared_rolled_back_and_deleted(tmp_path: Path) -> None:
    releases, orders, items = (str(tmp_path / name) for name in ("releases", "orders", "items"))
    for table in (orders, items):
        da.write(table, pa.table({"id": [1]}))
    tables = [f"orders={orders}", f"items={items}"]
    code, text = run("release", releases, "create", *tables, "--message", "first")
    assert (code, text.splitlines()[0]) == (0, "Release 1 has these versions:")
    assert f"orders\t0\t{orders}" in text
    da.write(orders, pa.table({"id": [2, 3]}), mode="overwrite")
    code, text = run("release", releases, "create", *tables, "--expected", "0")
    assert (code, text.count("\n")) == (1, 1)
    assert "the current release is release 1, and 0 was expected" in text
    code, text = run("release", releases, "create", *tables, "--expected", "1", "--json")
    release = json.loads(text)
    assert (release["number"], release["tables"]["orders"]["version"]) == (2, 1)
    assert release["created"].endswith("+00:00")
    code, text = run("release", releases, "diff", "1", "--rows")
    assert text.splitlines()[1:] == ["items\tsame\t0\t0\t0\t0", "orders\tmoved\t0\t1\t1\t2"]
    code, text = run("release", releases, "diff", "1", "2", "--json")
    assert [each["change"] for each in json.loads(text)["tables"]] == ["same", "moved"]
    assert run("release", releases, "rollback", "1")[1].startswith("Release 3 has")
    code, text = run("release", releases, "list")
    assert [line.split("\t")[-1] for line in text.splitlines()[1:]] == [
        "first",
        "",
        "back to release 1",
    ]
    assert "back to release 1" in run("release", releases, "show")[1]
    code, text = run("release", releases, "show", "2", "--json")
    assert json.loads(text)["tables"]["orders"]["uri"] == orders
    dry = run("release", releases, "delete", "--keep-last", "1", "--dry-run")
    assert dry == (0, "Would delete 2 releases: 1, 2.\n")
    assert len(json.loads(run("release", releases, "list", "--json")[1])["releases"]) == 3
    assert run("release", releases, "delete", "1", "2") == (0, "Deleted 2 releases: 1, 2.\n")
    code, text = run("release", releases, "delete")
    assert (code, "--keep-last or --older-than" in text) == (1, True)


@pytest.mark.parametrize(
    "command",
    [("list",), ("list", "--json"), ("show",), ("delete", "--keep-last", "1"), ("rollback", "1")],
    ids=" ".join,
)
def test_a_location_without_a_release_set_is_an_error(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    code, text = run("release", str(tmp_path / "misspelt"), *command)
    assert (code, text.count("\n")) == (1, 1)
    assert "misspelt" in text
    assert not (tmp_path / "misspelt").exists()


def test_a_version_of_a_table_is_chosen(tmp_path: Path) -> None:
    orders = str(tmp_path / "orders")
    for number in range(2):
        da.write(orders, pa.table({"id": [number]}))
    create = ("release", str(tmp_path / "releases"), "create", f"orders={orders}")
    assert "orders\t0" in run(*create, "--version", "orders=0")[1]
    code, text = run(*create, "--version", "orders=x")
    assert (code, "write --version as NAME=N" in text) == (2, True)
    code, text = run(*create, f"orders={orders}")
    assert (code, "the name 'orders' is given twice" in text) == (2, True)
    run(*create)
    code, text = run(*create, "--version", "orders=0")
    assert (code, "or give --allow-older" in text) == (1, True)
    assert run(*create, "--version", "orders=0", "--allow-older")[0] == 0


def test_holds_of_a_deleted_set_are_dropped(tmp_path: Path) -> None:
    orders, releases = str(tmp_path / "orders"), str(tmp_path / "releases")
    da.write(orders, pa.table({"id": [1]}))
    run("release", releases, "create", f"orders={orders}")
    assert f"release of {releases}" in run("refs", orders)[1]
    shutil.rmtree(releases)
    assert run("drop", orders, "--yes-delete", "orders")[0] == 1
    done = run("release", releases, "drop-holds", orders)
    assert done == (0, f"Dropped 1 hold of {releases}.\n")
    assert run("drop", orders, "--yes-delete", "orders")[0] == 0
