"""Help pages have groups, examples that run, and shared options last."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops.cli.main import EXAMPLES, GROUPS, MAINTAIN, cli, commands_by_group
from delta_ops.maintenance.registry import OPERATIONS

SHARED = ["dry_run", "storage_options", "as_json"]


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")


COMMANDS = dict(commands(cli))


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()
    for name, example in EXAMPLES.items():
        words = example.split()
        assert " ".join(words[: 1 + 2 * (" " in name) : 2] if " " in name else words[:1]) == name


def test_the_page_of_the_terminal_lists_every_command() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "terminal.md").read_text()
    calls = re.findall(r"^\| `delta-ops (.*?)(?: [A-Z_]+|`)", page, re.MULTILINE)
    assert sorted(name for call in calls for name in call.split(r" \| ")) == sorted(cli.commands)


def test_every_command_is_in_one_group_and_each_operation_in_maintenance() -> None:
    groups = dict(commands_by_group(list(cli.commands)))
    assert sorted(name for names in groups.values() for name in names) == sorted(cli.commands)
    assert {name for names in GROUPS.values() for name in names} <= cli.commands.keys()
    assert {entry.command for entry in OPERATIONS} <= {*groups[MAINTAIN], *groups["Recover"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_shared_options_are_last(name: str) -> None:
    names = [each.name for each in COMMANDS[name].params]
    shared = [each for each in names if each in SHARED]
    assert names[len(names) - len(shared) :] == shared


@pytest.mark.parametrize("name", COMMANDS)
def test_help_uses_the_width_of_the_terminal(name: str) -> None:
    for columns in (80, 120):
        # With a parent, as in a real call: a command caches the help options of its first context.
        with click.Context(
            COMMANDS[name],
            click.Context(cli, **cli.context_settings),
            info_name=name,
            terminal_width=columns,
        ) as context:
            lines = COMMANDS[name].get_help(context).splitlines()
        assert max(map(len, lines)) <= columns


def test_no_sentence_of_the_first_page_is_cut() -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["--help"]).output
    for command in cli.commands.values():
        assert (command.help or "").partition("\n")[0] in " ".join(shown.split())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that the examples can be run on."""
    root = tmp_path_factory.mktemp("examples")
    settings = {
        "delta.columnMapping.mode": "name",
        "delta.enableTypeWidening": "true",
        "delta.feature.allowColumnDefaults": "supported",
        "delta.enableChangeDataFeed": "true",
    }
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "country": ["NL", "BE"],
            "price": [1.0, 2.0],
            "pieces": pa.array([1, 2], pa.int32()),
            "discount": [0.1, 0.2],
        }
    )
    for _ in range(6):
        da.write(root / "lake/orders", rows, configuration=settings)
    (root / "lake/visits/day=2026-01-31").mkdir(parents=True)
    pa.parquet.write_table(rows, root / "lake/visits/day=2026-01-31/a.parquet")
    return root


@pytest.fixture
def lake(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tables, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(tables / "lake", tmp_path / "lake"))


NEED_MORE = {
    "advise": "no read is recorded",
    "alter cluster-by": "the feature is missing",
    "alter drop-constraint": "the constraint is missing",
    "alter drop-feature": "the feature is missing",
    "branch anchor": "the branch is missing",
    "branch delete": "the branch is missing",
    "branch diff": "the branch is missing",
    "branch publish": "the branch is missing",
    "branch rebase": "the branch is missing",
    "branch rename": "the branch is missing",
    "index drop": "the index is missing",
    "index refresh": "the index is missing",
    "release": "the second table is missing",
    "release delete": "the release set is missing",
    "release diff": "the release is missing",
    "release drop-holds": "the hold is missing",
    "release list": "the release set is missing",
    "release rollback": "the release is missing",
    "release show": "the release is missing",
    "manifest": "column mapping is on",
    "publish": "the branch is missing",
    "session abandon": "the session is missing",
    "session commit": "the session is missing",
    "session show": "the session is missing",
    "tag anchor": "the tag is missing",
    "tag delete": "the tag is missing",
}
"""Examples that another state of the table refuses, with the reason."""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NEED_MORE])
def test_the_example_runs(lake: Path, name: str) -> None:
    result = CliRunner().invoke(cli, shlex.split(EXAMPLES[name]))
    assert result.exit_code in (0, 3, 4), result.output
