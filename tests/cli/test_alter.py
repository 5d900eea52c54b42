"""`delta-ops alter` and `delta-ops drop`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.cli.alter import alter_command
from delta_ops.ddl.running_drops import DROPS
from tests.cli.test_commands import output, run
from tests.support.tables import rows, rows_by_deltalake


@pytest.fixture
def table(tmp_path: Path) -> Path:
    root = tmp_path / "orders"
    da.write(root, pa.table({"id": [1, 2], "p": ["a", None]}))
    return root


COMMANDS = [
    (("add-column", "z", "array<int>", "--after", "id", "--comment", "c"), "ADD COLUMNS"),
    (("reorder-columns", "p"), "REPLACE COLUMNS"),
    (("comment", "all orders"), "SET TBLPROPERTIES"),
    (("comment", "the key", "--column", "id"), "CHANGE COLUMN"),
    (("rename", "orders"), "UPDATE TABLE METADATA"),
    (("set-not-null", "id"), "CHANGE COLUMN"),
    (("add-constraint", "positive", "id > 0"), "ADD CONSTRAINT"),
    (("add-feature", "domainMetadata"), "SET TBLPROPERTIES"),
]


@pytest.mark.parametrize(("arguments", "operation"), COMMANDS, ids=[each[1] for each in COMMANDS])
def test_a_table_is_changed_once(table: Path, arguments: tuple[str, ...], operation: str) -> None:
    requested: tuple[str | Path, ...] = ("alter", table, *arguments)
    assert run(*requested, "--dry-run").stdout == "The change is possible; nothing was changed.\n"
    assert DeltaLog(table).snapshot().version == 0
    assert output(*requested) == {"table": str(table), "dry_run": False, "version": 1}
    assert next(DeltaLog(table).history()).operation == operation
    if arguments[0] != "add-column":
        assert run(*requested).stdout == "The table is already like this; nothing to do.\n"
    assert len(rows_by_deltalake(table)) == 2


UNDONE = [
    (("add-constraint", "positive", "id > 0"), ("drop-constraint", "POSITIVE")),
    (("set-not-null", "id"), ("drop-not-null", "id")),
    (("add-feature", "domainMetadata"), ("drop-feature", "domainMetadata")),
]


@pytest.mark.parametrize(("done", "undone"), UNDONE, ids=[each[0][0] for each in UNDONE])
def test_a_change_is_undone(table: Path, done: tuple[str, ...], undone: tuple[str, ...]) -> None:
    assert run("alter", table, *done).exit_code == 0
    assert run("alter", table, *undone).stdout == "Version 2 has the change.\n"


REFUSED = [
    (("set-not-null", "p"), "id = 2, p = None"),
    (("add-constraint", "small", "id < 2"), "CHECK constraint small"),
    (("add-constraint", "odd", "xxhash64(id) > 1"), "needs the Spark engine"),
    (("add-constraint", "quoted", "\"P\" != 'x'"), "write `P` for the column"),
    (("drop-constraint", "none"), "no constraint none"),
    (("drop-column", "id"), "delta.columnMapping.mode = name"),
    (("rename-column", "id", "key"), "delta.columnMapping.mode = name"),
    (("drop-feature", "appendOnly"), "cannot be dropped"),
    (("drop-feature", "v2Checkpoint", "--truncate-history"), ""),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[each[0][0] for each in REFUSED])
def test_impossible_requests_are_explained_in_a_sentence(
    table: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run("alter", table, *arguments)
    assert message in result.stderr
    assert (result.exit_code == 1) is bool(message)
    assert "Traceback" not in result.output
    assert DeltaLog(table).snapshot().version == 0


def test_dropping_no_constraint_is_fine_where_it_may_be_gone(table: Path) -> None:
    assert run("alter", table, "drop-constraint", "none", "--if-exists").exit_code == 0


def test_every_command_of_alter_says_what_it_does() -> None:
    assert len(alter_command.commands) == 15
    for command in alter_command.commands.values():
        assert command.help
        names = {each.name for each in command.params}
        assert {"as_json", "dry_run", "storage_options"} <= names


def test_files_are_made_a_table(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"n={number}").mkdir()
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"n={number}" / "a.parquet")
    printed = run("convert", tmp_path, "--dry-run").stdout
    assert printed == "Would make a table of 2 files.\n"
    assert run("convert", tmp_path, "--partition", "n=int", "--partition", "m").exit_code == 2
    requested = ("--partition", "n=string", "--property", "delta.appendOnly=true", "--name", "x")
    assert output("convert", tmp_path, *requested) == {
        "table": str(tmp_path),
        "dry_run": False,
        "version": 0,
        "num_files": 2,
        "was_table": False,
    }
    assert run("convert", tmp_path).stdout == "The table already exists; nothing to do.\n"
    assert rows(da.to_table(tmp_path)) == [{"id": 1, "n": "1"}, {"id": 2, "n": "2"}]
    assert DeltaLog(tmp_path).snapshot().properties.append_only


def test_a_table_is_dropped_by_its_name(table: Path) -> None:
    unconfirmed = run("drop", table)
    assert unconfirmed.exit_code == 2
    assert "confirm with --yes-delete orders" in unconfirmed.output
    assert run("drop", table, "--dry-run").exit_code == 0
    refused = run("drop", table, "--yes-delete", "order")
    assert (refused.exit_code, "'orders'" in refused.stderr) == (1, True)
    num_files = len([each for each in table.rglob("*") if each.is_file()])
    looked = run("drop", table, "--yes-delete", "orders", "--dry-run").stdout
    assert looked.startswith(f"Would delete {num_files} files, ")
    shown = output("drop", table, "--yes-delete", "orders")
    assert (shown["num_files"], shown["failures"], shown["resumed"]) == (num_files, [], False)
    assert list(table.rglob("*")) == []
    assert run("drop", table, "--yes-delete", "orders").exit_code == 1


def test_a_drop_that_was_killed_is_resumed(table: Path) -> None:
    (table / DROPS).mkdir(parents=True)
    (table / DROPS / f"{1:020}.json").write_bytes(b"")
    refused = run("drop", table, "--yes-delete", "orders")
    assert refused.exit_code == 1
    assert "--resume" in refused.stderr
    assert run("drop", table, "--yes-delete", "orders", "--resume").exit_code == 0
    assert not table.exists() or not list(table.iterdir())
