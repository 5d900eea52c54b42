"""The lists of docs/extending.md are complete: they name every file to change.

The test adds a made-up operation with its parts. All other code runs and shows it unchanged.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, cast, get_args

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.cli.fleet import SOMETHING_DUE
from delta_ops.cli.main import cli
from delta_ops.cli.options import json_option, open_table, table_argument
from delta_ops.cli.render import say, show_json, show_result
from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import Operation, health, maintain, maintain_fleet, registry
from delta_ops.maintenance.operation import OperationEntry, Option, Request
from delta_ops.maintenance.registry import OPERATIONS
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds
from delta_ops.orchestration import TableRead, TypeHandler, register_type_handler
from delta_ops.orchestration.io_manager import type_handlers
from delta_ops.orchestration.policies.maintenance_config import maintenance_config_class
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.features import FEATURES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()

# These are also names of actions and of fields.
FEATURE_NAMES = {each.name for each in FEATURES} - {"domainMetadata", "inCommitTimestamp"}
# The other names also mean other things. Code that uses both of these is specific to operations.
OPERATION_NAMES = {"clean_up_log", "compact_log"}
SCHEMES = {"s3a", "gs", "az"}


@cache
def nodes_of(path: Path) -> Sequence[ast.AST]:
    """The syntax of a module, parsed once for all tests of this file."""
    return list(ast.walk(ast.parse(path.read_text())))


@pytest.fixture(scope="module", autouse=True)
def _forget_nodes() -> Iterator[None]:
    yield
    nodes_of.cache_clear()


def texts_in(path: Path) -> Iterator[str]:
    """The texts of a module, without its documentation."""
    documentation = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield from [node.value] if isinstance(node.value, str) else []


def words_in(path: Path) -> Iterator[str]:
    """The texts and the names of a module, in lower case."""
    yield from map(str.lower, texts_in(path))
    for node in nodes_of(path):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.alias(name=word):
                yield word.lower()


def files_that_know_operations() -> set[str]:
    found = set()
    for path in (ROOT / "delta_ops").rglob("*.py"):
        words = set(words_in(path))
        if all(any(name in word for word in words) for name in OPERATION_NAMES):
            found.add(path.relative_to(ROOT).as_posix())
    return found


def files_with(wanted: set[str], *, all_of: bool) -> set[str]:
    found = set()
    for path in (ROOT / "delta_ops").rglob("*.py"):
        texts = wanted & set(texts_in(path))
        if texts == wanted or (texts and not all_of):
            found.add(path.relative_to(ROOT).as_posix())
    return found


def listed_under(heading: str) -> set[str]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        pytest.param(
            "A table feature", lambda: files_with(FEATURE_NAMES, all_of=False), id="feature"
        ),
        pytest.param("A maintenance operation", files_that_know_operations, id="operation"),
        pytest.param("A storage", lambda: files_with(SCHEMES, all_of=False), id="storage"),
    ],
)
def test_a_list_names_every_file(heading: str, expected: Callable[[], set[str]]) -> None:
    assert listed_under(heading) == expected()


def test_a_command_is_named_by_its_module_and_one_more_file() -> None:
    modules = {path: set(words_in(path)) for path in (ROOT / "delta_ops").rglob("*.py")}
    for command in cli.commands.values():
        assert command.callback is not None
        own = ROOT / f"{command.callback.__module__.replace('.', '/')}.py"
        name = f"{command.name}_command".replace("-", "_")
        others = {path for path, words in modules.items() if name in words} - {own}
        assert {path.relative_to(ROOT).as_posix() for path in others} == listed_under(
            "A terminal command"
        )


def test_the_list_of_a_type_handler_names_every_file() -> None:
    code = {ROOT / name for name in files_with({"polars.LazyFrame"}, all_of=True)}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    documented = {path for path in pages if "`polars.LazyFrame`" in path.read_text()}
    named = {path.relative_to(ROOT).as_posix() for path in code | documented}
    assert listed_under("A type handler") == named


LISTS = {"reader_features", "writer_features", "features_of_readers", "features_of_writers"}
ABOUT_LISTS = {
    "protocol/actions.py",
    "protocol/json/codec.py",
    "protocol/checkpoint_rows.py",
    "protocol/features.py",
    "protocol/table_definition.py",
    "protocol/protocol_upgrade.py",
    "log/checksum.py",  # whether two protocols are equal
    "ddl/features.py",
    "ddl/drop.py",  # an unsupported protocol
    "cli/show.py",
}


def test_only_what_is_about_the_lists_of_a_protocol_looks_at_them() -> None:
    """All other code uses the table's definition to check a feature."""
    package = ROOT / "delta_ops"
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in nodes_of(path)
        if (isinstance(node, ast.Name) and node.id in LISTS)
        or (isinstance(node, ast.Attribute) and node.attr in LISTS)
    }
    assert found <= ABOUT_LISTS


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:delta_ops|tests|docs|scripts)/[a-z0-9_/]+\.(?:py|md))`", PAGE))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_operation_has_an_entry() -> None:
    names = [entry.name for entry in OPERATIONS]
    assert sorted(names) == sorted(get_args(Operation))
    assert set(names) >= OPERATION_NAMES


@pytest.mark.parametrize("entry", OPERATIONS, ids=lambda entry: entry.name)
def test_an_operation_takes_what_its_entry_gives(entry: OperationEntry[Any]) -> None:
    parameters = signature(entry.act).parameters
    assert set(parameters) >= {"log", "dry_run", *entry.arguments(Request())}
    offered = {option.name: option.default for option in entry.options}
    assert offered == {name: parameters[name].default for name in offered}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """The result of `sort`."""

    dry_run: bool
    files: int
    by: str


SORT = "sort"


def sort(log: DeltaLog, *, dry_run: bool = False, by: str = "size") -> Sorted:
    """A made-up operation: sorts the files of a table with three files."""
    return Sorted(dry_run=dry_run, files=0 if dry_run else log.snapshot().num_files, by=by)


def unsorted_files(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    return [
        Finding(
            measure=cast(Any, "unsorted_files"),
            value=facts.mergeable_files,
            threshold=3,
            unit="files",
            verdict="due" if facts.mergeable_files >= 3 else "ok",
            operation=SORT,
            advice="sort: files are in disorder",
        )
    ]


ENTRY = OperationEntry(
    name=SORT,
    needs="write",
    act=sort,
    arguments=lambda _: {},
    planned=lambda _: {"files_to_sort": 3},
    figures=lambda result: {"sorted_files": result.files},
    json=lambda result: {"sorted_files": result.files, "by": result.by},
    findings=unsorted_files,
    options=(
        Option(name="by", kind=str, default="size", description="How.", choices=("size", "age")),
        Option(name="at_most", kind=int, default=9, description="How many.", at_least=1),
    ),
)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaLog:
    """A table of three files, with one more registered operation."""
    monkeypatch.setattr(registry, "OPERATIONS", (*OPERATIONS, ENTRY))
    for number in range(3):
        da.write(tmp_path, pa.table({"id": [number]}))
    return DeltaLog(tmp_path)


def test_a_new_operation_runs_when_it_is_due(table: DeltaLog) -> None:
    result = maintain(table)
    assert result.plan.operations == ("optimize", "sort")
    assert result.figures["sorted_files"] == 1  # the files after optimize
    assert maintain(table).plan.operations == ()


def test_a_new_operation_runs_when_it_is_requested(table: DeltaLog) -> None:
    result = maintain(table, operations=[SORT], options={SORT: {"by": "age"}})
    assert result.results == (Sorted(dry_run=False, files=3, by="age"),)
    assert (result.planned, result.figures) == ({"files_to_sort": 3}, {"sorted_files": 3})


def test_a_new_operation_is_part_of_health_and_fleets(table: DeltaLog) -> None:
    report = health(table)
    assert report.operations == ("sort",)
    assert report.findings[-1].operation == SORT
    (row,) = maintain_fleet([table])
    assert row.result is not None
    assert row.result.figures == {"sorted_files": 3}


def test_a_new_operation_is_shown_by_the_terminal(
    table: DeltaLog, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = CliRunner().invoke(cli, ["maintain", table.uri, "--json"])
    assert shown.exit_code == SOMETHING_DUE
    assert json.loads(shown.stdout)["planned"] == ["sort"]
    assert json.loads(shown.stdout)["planned_figures"] == {"files_to_sort": 3}
    assert json.loads(shown.stdout)["done"] == {"sorted_files": 3}
    show_result(ENTRY, table.uri, sort(table))
    assert json.loads(capsys.readouterr().out) == {
        "table": table.uri,
        "dry_run": False,
        "sorted_files": 3,
        "by": "size",
    }


def test_a_new_operation_is_refused_by_what_it_needs(table: DeltaLog) -> None:
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("variantType-preview",),
        writer_features=("variantType-preview",),
    )
    create_commit(table.storage, table.log_directory, 3, [protocol])
    assert health(table).figures.refused[SORT] == ("variantType-preview",)
    assert health(table).operations == ()


def test_a_new_operation_is_in_the_config_of_dagster() -> None:
    config = maintenance_config_class((*OPERATIONS, ENTRY))
    data = {"operations": ["checkpoint", "sort"], "sort_by": "age"}
    settings = config.model_validate(data)
    assert settings.chosen_operations() == ["checkpoint", "sort"]
    assert settings.options(ENTRY) == {"by": "age", "at_most": 9}
    for wrong in ({"operations": ["sord"]}, {"sort_by": "name"}, {"sort_at_most": 0}):
        with pytest.raises(ValidationError):
            config.model_validate(wrong)


SORTING = '''"""A made-up operation: counts the files of a table."""

from dataclasses import dataclass

from delta_ops.log import TableOrPlace, log_of
from delta_ops.maintenance.operation import OperationEntry, Option


@dataclass(frozen=True)
class Sorted:
    dry_run: bool
    files: int
    by: str


def sort(log: TableOrPlace, *, dry_run: bool = False, by: str = "size") -> Sorted:
    """Sort the files."""
    return Sorted(dry_run, log_of(log).snapshot().num_files, by)


SORT = OperationEntry(
    name="sort",
    needs="write",
    act=sort,
    arguments=lambda _: {},
    planned=lambda result: {"files_to_sort": result.files},
    figures=lambda result: {"sorted_files": result.files},
    json=lambda result: {"files": result.files, "by": result.by},
    options=(
        Option(name="by", kind=str, default="size", description="How.", choices=("size", "age")),
    ),
)
'''
USES = """
import json, sys
from typing import get_args
from click.testing import CliRunner
from delta_ops.cli.main import cli
from delta_ops.maintenance import Operation, maintain
from delta_ops.orchestration.policies.maintenance_config import MaintenanceConfig

table = sys.argv[1]
options = {"sort": {"by": "age"}}
said = CliRunner().invoke(cli, ["sort", table, "--by", "age", "--json"])
planned = CliRunner().invoke(cli, ["sort", table, "--dry-run"])
print(json.dumps({
    "names": get_args(Operation),
    "figures": maintain(table, operations=["sort"], options=options).figures,
    "command": json.loads(said.stdout),
    "dry run": planned.stdout.split(),
    "config": MaintenanceConfig(operations=["sort"], sort_by="age").chosen_operations(),
}))
"""


def run_with_copy(tmp_path: Path, program: str) -> Any:
    """Run a program with the copied package on a table of one row; return the JSON it prints."""
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "t")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_an_operation_takes_one_folder_and_one_registration(tmp_path: Path) -> None:
    package = tmp_path / "delta_ops"
    shutil.copytree(ROOT / "delta_ops", package)
    folder = package / "maintenance" / "sorting"
    folder.mkdir()
    (folder / "__init__.py").write_text(SORTING)
    place = package / "maintenance" / "registry.py"
    importing = "from delta_ops.maintenance.sorting import SORT\n\nOPERATIONS"
    registered = place.read_text().replace("\nOPERATIONS", importing, 1)
    place.write_text(registered.replace("    COMPACT_LOG,\n)", "    COMPACT_LOG,\n    SORT,\n)"))
    assert run_with_copy(tmp_path, USES) == {
        "names": [*get_args(Operation), "sort"],
        "figures": {"sorted_files": 1},
        "command": {"table": str(tmp_path / "t"), "dry_run": False, "files": 1, "by": "age"},
        "dry run": ["files", "to", "sort", "1"],
        "config": ["sort"],
    }


ROW = """    Feature(
        name="tidyRows",
        for_readers=True,
        requires=("domainMetadata",),
        operations=_OPEN,
        read_by=_BOTH,
        written_by=frozenset({"arrow"}),
    ),
"""
USES_FEATURE = """
import json, sys
import pyarrow as pa
import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import add_feature
from delta_ops.errors import UnsupportedFeatureError
from delta_ops.maintenance import create_checkpoint, optimize, restore, vacuum
from delta_ops.protocol.table_definition import validate

table = DeltaLog(sys.argv[1])
add_feature(table, "tidyRows")
da.write(table, pa.table({"id": [2]}))
optimize(table)
create_checkpoint(table)
vacuum(table)
definition = table.snapshot().definition

def refusal(call):
    try:
        call()
    except UnsupportedFeatureError as error:
        return error.features

print(json.dumps({
    "has": [definition.has(name) for name in ("tidyRows", "domainMetadata")],
    "rows": sorted(da.to_table(table)["id"].to_pylist()),
    "spark": refusal(lambda: validate(definition, "write", table="t", engine="spark")),
    "restore": refusal(lambda: restore(table, version=0)),
}))
"""


@pytest.mark.full
def test_a_feature_takes_one_row(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "delta_ops", tmp_path / "delta_ops")
    place = tmp_path / "delta_ops" / "protocol" / "features.py"
    rows = "FEATURES: tuple[Feature, ...] = (\n"
    place.write_text(place.read_text().replace(rows, rows + ROW, 1))
    assert run_with_copy(tmp_path, USES_FEATURE) == {
        "has": [True, True],
        "rows": [1, 2],
        "spark": ["tidyRows"],
        "restore": ["tidyRows"],
    }
    with pytest.raises(UnsupportedFeatureError, match="tidyRows"):
        da.to_table(tmp_path / "t")


def test_no_command_is_made_for_an_operation_that_has_its_own() -> None:
    assert {entry.command for entry in OPERATIONS} <= set(cli.commands)
    assert not set(cli.commands) & {"purge", "sort"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"vacuum": {"mod": "lite"}}, "vacuum has no option 'mod'", id="option"),
        pytest.param({"vacuum": {"dry_run": True}}, "no option 'dry_run'", id="of all operations"),
        pytest.param({"vacuum": None}, "the options of vacuum are not a mapping", id="no mapping"),
        pytest.param({"sort": {}}, "there is no operation 'sort'", id="operation"),
    ],
)
def test_an_option_that_there_is_not_is_refused(tmp_path: Path, options: Any, message: str) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match=message):
        maintain(tmp_path, options=options)


@click.command("num-files")
@table_argument
@json_option
def num_files_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Count the live files."""
    num_files = open_table(table, storage_options).snapshot().num_files
    if as_json:
        show_json({"num_files": num_files})
    else:
        say(f"{num_files} files")


def test_a_new_command_has_help_json_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cli.commands, "num-files", num_files_command)
    da.write(tmp_path / "orders", pa.table({"id": [1]}))

    def run(*arguments: str) -> tuple[int, str]:
        shown = CliRunner().invoke(cli, arguments)
        return shown.exit_code, shown.output

    assert run("num-files", str(tmp_path / "orders")) == (0, "1 files\n")
    assert run("num-files", str(tmp_path / "orders"), "--json") == (0, '{"num_files": 1}\n')
    code, error = run("num-files", str(tmp_path / "sales"))
    assert (code, error.startswith("Error: ")) == (1, True)
    assert re.search(r"num-files +Count the live files", run("--help")[1])


@dataclass
class Ids:
    """A made-up type."""

    ids: list[int]


def test_a_new_type_handler_makes_rows_and_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type_handlers, "handlers_by_name", {})
    register_type_handler(
        TypeHandler(
            python_type=Ids,
            to_rows=lambda value: pa.table({"id": value.ids}),
            from_table=lambda read: Ids(da.to_table(read.snapshot)["id"].to_pylist()),
        )
    )
    da.write(tmp_path, type_handlers.rows_of(Ids([1, 2])))
    log = DeltaLog(tmp_path)
    read = TableRead(
        log=log, snapshot=log.snapshot(), columns=None, predicate=None, spark_session=lambda: None
    )
    assert type_handlers.value_of_table(Ids, read) == Ids([1, 2])
