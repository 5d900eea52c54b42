"""Errors name options in the words of the surface that the caller uses.

A message takes the words from `option`, and `WORDS` has the words of each surface. These tests read
the sources for the options that messages name, and compare the words with what each surface has.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

import delta_ops
import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl, maintenance, tables, versioning
from delta_ops.cli.main import cli
from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import WORDS, Surface, option, speaking
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    DeltaSessionResource,
    TableRef,
    build_restore_job,
)
from delta_ops.orchestration.io_manager.input_settings import INPUT_KEYS
from delta_ops.orchestration.io_manager.output_settings import OUTPUT_KEYS
from delta_ops.orchestration.maintenance.restore_jobs import (
    RepairConfig,
    RestoreConfig,
    RevertConfig,
)
from delta_ops.orchestration.policies.maintenance_config import MaintenanceConfig
from delta_ops.orchestration.swap_in.dagster_deltalake_polars import DeltaLakePolarsIOManager
from delta_ops.orchestration.swap_in.dagster_iceberg import DeltaLakeIOManager
from delta_ops.spark.delta_format.options import OPTIONS
from delta_ops.spark.statements.table_changes import ChangesAt
from delta_ops.storage.concurrency import run_parallel

PACKAGE = Path(__file__).resolve().parents[1] / "delta_ops"


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module, parsed."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def named_options() -> Iterator[str]:
    """The options that messages name."""
    for _, tree in trees():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id="option"), args=[ast.Constant(value=str(name)), *_]):
                    yield name


def test_every_option_of_a_message_has_words_and_every_row_a_message() -> None:
    by_variable = {"max_files_per_trigger", "max_bytes_per_trigger"}
    assert {*named_options(), *by_variable} == WORDS.keys()


def words_of(surface: Surface) -> dict[str, str]:
    """The words of a surface, by the name in Python."""
    found = {name: words.on(surface) for name, words in WORDS.items()}
    return {name: word for name, word in found.items() if word is not None}


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    for each, command in group.commands.items():
        yield f"{name} {each}", command
        if isinstance(command, click.Group):
            place = "SET" if each == "release" else "TABLE"
            yield from commands(command, f"{name} {each} {place}")


def words_that_exist() -> dict[Surface, set[str]]:
    """The words that a caller can write on each surface."""
    known = dict(commands(cli, "delta-ops"))
    configs: list[Any] = [MaintenanceConfig, RestoreConfig, RevertConfig, RepairConfig]
    fields = {*DeltaIOManager.model_fields}
    spark_setting = "spark.databricks.delta.retentionDurationCheck.enabled=false"
    methods = {f"{name}()" for each in (DataFrameWriter, DataStreamWriter) for name in dir(each)}
    of_tables = [getattr(tables, name) for name in tables.__all__]
    parts = [each for each in of_tables if inspect.isclass(each)]
    builders = [importlib.import_module(f"delta_ops.tables.{name}_builder") for name in BUILDERS]
    parts += [each for module in builders for each in vars(module).values() if isclass(each)]
    named = {name for each in parts for name in vars(each)}
    taken = {
        parameter
        for each in parts
        for method in vars(each).values()
        if callable(method)
        for parameter in inspect.signature(method).parameters
    }
    of_changes = {"start", "end"} & {*ChangesAt.__annotations__}
    statements = {"ALTER TABLE ... SET TBLPROPERTIES"}
    return {
        Surface.DATAFRAME: {
            *(each.name for each in OPTIONS),
            *methods,
            "storage_options",
            *statements,
        },
        Surface.SQL: {"storage_options", f"SET {spark_setting}", *of_changes, *statements},
        Surface.DELTA_TABLES: {
            *(f"{name}()" for name in named),
            *taken,
            spark_setting,
            *statements,
        },
        Surface.TERMINAL: {
            *known,
            *(text for each in known.values() for param in each.params for text in param.opts),
        },
        Surface.ASSET: {*OUTPUT_KEYS, *INPUT_KEYS, *fields, "the except of the clause"},
        Surface.RUN_CONFIG: {*(name for each in configs for name in each.model_fields), *fields},
        Surface.RESOURCE: {
            *DeltaLogResource.model_fields,
            *DeltaSessionResource.model_fields,
        },
    }


BUILDERS = ("merge", "optimize", "table")
isclass, isfunction = inspect.isclass, inspect.isfunction


@pytest.mark.parametrize("surface", [each for each in Surface if each is not Surface.PYTHON])
def test_the_words_of_a_surface_exist_there(surface: Surface) -> None:
    assert set(words_of(surface).values()) - words_that_exist()[surface] == set()


@pytest.mark.parametrize("surface", [each for each in Surface if each is not Surface.PYTHON])
def test_a_surface_shows_its_own_words_or_says_that_they_are_of_python(surface: Surface) -> None:
    for name in WORDS:
        with speaking(surface):
            shown = [option(name), option(name, True), option(name, "text"), option(name, ...)]
        word = words_of(surface).get(name)
        for text in shown:
            if word is None:
                assert text.startswith(name)
                assert text.endswith(" in Python")
            else:
                assert word.removesuffix("()") in text
                assert "in Python" not in text


@pytest.mark.parametrize(
    ("surface", "value", "text"),
    [
        (Surface.PYTHON, True, "merge_schema=True"),
        (Surface.DATAFRAME, True, 'option("mergeSchema", "true")'),
        (Surface.DELTA_TABLES, True, "withSchemaEvolution()"),
        (Surface.ASSET, True, "delta/merge_schema: True"),
        (Surface.SQL, True, "merge_schema=True in Python"),
        (Surface.TERMINAL, True, "merge_schema=True in Python"),
    ],
)
def test_a_value_is_written_as_on_the_surface(surface: Surface, value: object, text: str) -> None:
    with speaking(surface):
        assert option("merge_schema", value) == text


SURFACES = ("orchestration", "components", "cli", "tables", "delta_format", "pipes.py")
"""Code that knows its caller, and names options in the words of the caller by itself."""
OF_ONE_CALLER = {
    "arrays/store.py": {"ref", "version"},  # the repr of a store
    "spark/session/progress.py": {"on_event"},  # show_progress, which only Python has
    "spark/stores.py": {"configuration"},  # get_session, which only Python has
    "storage/backends/azure/hadoop.py": {"max_concurrency"},  # an option of the store's client
    "storage/backends/s3/hadoop.py": {"max_concurrency"},
}


def parameters() -> set[str]:
    """The parameters of public functions."""
    modules = [delta_ops, da, maintenance, ddl]
    functions = [getattr(module, name) for module in modules for name in module.__all__]
    return {
        name
        for each in functions
        if inspect.isfunction(each)
        for name in inspect.signature(each).parameters
    }


def texts_in(tree: ast.AST) -> Iterator[str]:
    """The sentences in a source, without documentation."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text and id(node) not in documentation:
                yield text


def test_messages_take_the_names_of_options_from_the_table() -> None:
    names = parameters() - {"column"}  # as in "name the directory column=value"
    plain = "|".join(name for name in names if "_" in name)
    named = re.compile(rf"(?<![{{\w])(?:({'|'.join(names)})=|({plain})\b)")
    found = []
    for path, tree in trees():
        place = path.relative_to(PACKAGE)
        if not {*place.parts} & {*SURFACES}:
            known = OF_ONE_CALLER.get(place.as_posix(), set())
            found += [
                f"{place}: {text}"
                for text in texts_in(tree)
                if (hit := named.search(text)) and (hit[1] or hit[2]) not in known
            ]
    assert found == []


def public_functions() -> set[str]:
    """The public functions whose names no other word has."""
    modules = [delta_ops, da, maintenance, ddl, versioning]
    names = {name for module in modules for name in module.__all__ if "_" in name}
    found = {name for name in names if any(isfunction(getattr(m, name, None)) for m in modules)}
    return found - {"parse_expression", "parse_predicate", "auto_compact"}  # for values of Python


def test_messages_take_the_names_of_functions_from_the_table() -> None:
    named = re.compile(rf"\b({'|'.join(public_functions())})\b")
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path, tree in trees()
        if not {*path.relative_to(PACKAGE).parts} & {*SURFACES}
        for text in texts_in(tree)
        if named.search(text) and "delta_ops.maintenance." not in text  # a call to copy
    ]
    assert found == []


def test_an_error_of_a_missing_branch_names_the_command(tmp_path: Path) -> None:
    da.write(tmp_path / "orders", ROWS)
    call = ["branch", str(tmp_path / "orders"), "delete", "x"]
    assert "; delta-ops branch TABLE list shows the names" in CliRunner().invoke(cli, call).output


def test_threads_name_options_as_the_code_that_starts_them() -> None:
    with speaking(Surface.TERMINAL):
        assert run_parallel(option, ["resume"] * 4) == ["--resume"] * 4


ROWS = pa.table({"id": [1]})
LATE = pa.table({"id": [1], "late": [2]})


def test_an_error_of_python_names_the_argument(tmp_path: Path) -> None:
    da.write(tmp_path / "orders", ROWS)
    with pytest.raises(InvalidRequestError, match=r"write with merge_schema=True to add it"):
        da.write(tmp_path / "orders", LATE)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("io_manager", "words"),
    [
        (DeltaIOManager, "delta/merge_schema: True"),
        (DeltaLakePolarsIOManager, 'schema_mode: "merge"'),
        (DeltaLakeIOManager, 'schema_update_mode: "update"'),
    ],
)
def test_an_error_of_an_asset_names_the_metadata(
    tmp_path: Path, io_manager: Any, words: str
) -> None:
    rows = [ROWS, LATE]

    @dg.asset(metadata={"delta/mode": "append"})
    def orders() -> pa.Table:
        return rows.pop(0)

    resources = {"io_manager": io_manager(root=str(tmp_path))}
    assert dg.materialize([orders], resources=resources).success
    with pytest.raises(InvalidRequestError, match=f"write with {words} to add it"):
        dg.materialize([orders], resources=resources)


def test_an_error_of_a_vacuum_names_the_switch(tmp_path: Path) -> None:
    da.write(tmp_path / "orders", ROWS)
    log = DeltaLog(tmp_path / "orders")
    with pytest.raises(InvalidRequestError, match=r"the check off \(enforce_retention=False\)"):
        maintenance.vacuum(log, retention=timedelta(0))
    shown = CliRunner().invoke(cli, ["vacuum", log.uri, "--retain-hours", "0"]).output
    assert "turn the check off (--no-enforce-retention)" in shown


def test_an_error_of_the_terminal_names_its_commands(tmp_path: Path) -> None:
    ddl.create_table(tmp_path / "orders", ROWS.schema, cluster_by=["id"])
    place = str(tmp_path / "orders")
    shown = CliRunner().invoke(cli, ["optimize", place, "--zorder", "id"]).output
    assert "leave out --zorder" in shown
    assert "(delta-ops alter TABLE cluster-by)" in shown


def test_an_error_of_a_job_names_its_config(tmp_path: Path) -> None:
    da.write(tmp_path / "orders", ROWS)
    da.write(tmp_path / "orders", ROWS, "overwrite")
    for file in tmp_path.glob("orders/*.parquet"):
        file.unlink()
    table = TableRef(asset_key=dg.AssetKey("orders"), uri=str(tmp_path / "orders"))
    config = RestoreConfig(table="orders", version=0, dry_run=False)
    with pytest.raises(dg.Failure) as error:
        build_restore_job([table]).execute_in_process(
            run_config=dg.RunConfig(ops={"restore_table": config})
        )
    assert "without their rows (ignore_missing_files: true)" in str(error.value.description)
