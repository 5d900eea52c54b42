"""`--columns`: names separated by commas, with backticks around names that have commas."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import delta_ops.arrow as da
from delta_ops.cli.main import cli

ROWS = pa.table({"id": [1], "a,b": [2], "c`d": [3]})


@pytest.fixture
def table(tmp_path: Path) -> str:
    da.write(tmp_path / "t", ROWS, configuration={"delta.columnMapping.mode": "name"})
    return str(tmp_path / "t")


def head(table: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["head", table, *arguments])


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        (("--columns", "id, `a,b`"), ["id", "a,b"]),
        (("--columns", "`c``d`,id"), ["c`d", "id"]),
        (("--column", "`a,b`", "--column", "id"), ["a,b", "id"]),
    ],
)
def test_columns_are_shown_in_their_order(
    table: str, arguments: tuple[str, ...], columns: list[str]
) -> None:
    assert head(table, *arguments).stdout.splitlines()[0].split("\t") == columns


@pytest.mark.parametrize("names", ["id`", "`id", "c`id"])
def test_a_single_backtick_belongs_to_the_name(table: str, names: str) -> None:
    result = head(table, "--columns", names)
    assert (result.exit_code, result.stdout) == (1, "")
    assert names in result.stderr


@pytest.mark.parametrize("names", ["", " ", ","])
def test_no_name_is_not_taken_for_all_columns(table: str, names: str) -> None:
    result = head(table, "--columns", names)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "give the name of a column" in result.stderr
