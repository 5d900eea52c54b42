"""Output of commands for a table without columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from delta_ops.cli.main import cli
from tests.cli.terminals import text_shown
from tests.support.column_less import create_without_columns

COMMANDS = ("show", "history", "files", "schema", "count", "health", "maintain", "properties")


def output(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Error" not in result.output
    return result.stdout


@pytest.mark.parametrize("num_rows", [0, 2])
def test_rows_of_no_column_are_shown_by_their_number(tmp_path: Path, num_rows: int) -> None:
    table = str(create_without_columns(tmp_path / "t", num_rows))
    assert output("head", table).strip() == ("2 rows without columns" if num_rows else "")
    assert output("head", table, "--json").split() == ["{}"] * num_rows
    assert output("count", table).split() == [str(num_rows)]
    changes = output("changes", table, "--from-version", "0", "--json").splitlines()
    assert [json.loads(line)["_commit_version"] for line in changes] == [1] * num_rows


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_without_columns_is_looked_at(tmp_path: Path, command: str) -> None:
    table = create_without_columns(tmp_path / "t", 1)
    assert output(command, str(table), "--json")
    assert text_shown([command, str(table)], columns=80, status=None)
