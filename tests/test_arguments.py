"""Arguments of the wrong type: every public function rejects them before any work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.ddl
import delta_ops.maintenance as dm
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin
from delta_ops.errors import InvalidRequestError
from delta_ops.log.segment import list_log
from delta_ops.maintenance.health.figures import load_figures
from delta_ops.transaction import RewriteGroup

maintenance: Any = dm
arrow: Any = da
SECRET = "wJalrXUtnFEMI"
OF_A_NUMBER: Any = {"delta.logRetentionDuration": 10**5000}


def public_functions(*engines: ModuleType) -> Iterator[Callable[..., Any]]:
    for module in (dm, delta_ops.ddl, *engines):
        for name in module.__all__:
            if inspect.isfunction(found := getattr(module, name)):
                yield found
    yield from (begin, DeltaLog, DeltaLog.snapshot, DeltaLog.history, DeltaLog.commits)


def typed_parameters(function: Callable[..., Any]) -> list[str]:
    """Parameters that the function validates against its annotations."""
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        # The function itself validates the items of a list of arguments.
        if name != "self"
        and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        and parameter.annotation not in ("Any", "Storage | None")
    ]


@pytest.fixture(scope="module")
def fitting(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An argument for every parameter without a default, by name."""
    root = tmp_path_factory.mktemp("table")
    da.write(root, pa.table({"id": [1]}))
    log = DeltaLog(root)
    snapshot = log.snapshot()
    (commit,) = log.commits(0)
    return {
        **dict.fromkeys(("self", "log", "source", "target"), log),
        **dict.fromkeys(
            ("snapshot", "before", "after", "latest", "wanted", "old", "new"), snapshot
        ),
        **dict.fromkeys(("version", "start_version"), 0),
        **dict.fromkeys(("now_ms", "retention_ms", "target_size_bytes"), 1),
        **dict.fromkeys(("reader_version", "writer_version"), 1),
        **dict.fromkeys(("files", "listed", "later", "tables"), ()),
        **dict.fromkeys(("uri", "prefix"), str(root)),
        "path": root / "schema.parquet",
        "definition": snapshot.definition,
        **dict.fromkeys(("name", "column", "condition", "comment", "default"), "id"),
        "data_type": "bigint",
        "schema": pa.schema([("id", pa.int64())]),
        "columns": (),
        "properties": {"owner": "me"},
        "rules": (),
        "data": pa.table({"id": [2]}),
        "assignments": {"id": 2},
        "checkpoint_location": str(root),
        "predicate": "target.id = source.id",
        "spark": object.__new__(SparkSession),
        "df": object.__new__(DataFrame),
        "group": RewriteGroup(files=(), target_size_bytes=1),
        "reachable": frozenset(),
        "commit": commit,
        "listing": list_log(log.storage, log.log_directory),
        "report": dm.health(log),
        "figures": load_figures(log),
        "thresholds": dm.HealthThresholds(),
    }


@pytest.mark.some_cases(40)
@pytest.mark.parametrize(
    "function",
    [function for function in public_functions(da, ds) if typed_parameters(function)],
    ids=lambda function: function.__qualname__,
)
def test_an_argument_of_the_wrong_type_is_refused_by_its_name(
    function: Callable[..., Any], fitting: dict[str, Any]
) -> None:
    needed = {
        each: fitting["df" if parameter.annotation == "DataFrame" else each]
        for each, parameter in inspect.signature(function).parameters.items()
        if parameter.default is inspect.Parameter.empty
    }
    for name in typed_parameters(function):
        reported = f"{name} is.* of type object; give "
        with pytest.raises(InvalidRequestError, match=reported) as refused:
            function(**{**needed, name: object()})
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda log: maintenance.vacuum(log, keep_last="2"),
            "vacuum: keep_last is '2', of type str; give a whole number",
            id="digits are no number",
        ),
        pytest.param(
            lambda log: maintenance.vacuum(log, keep_last=True),
            "vacuum: keep_last is True, of type bool; give a whole number",
            id="a truth value is no number",
        ),
        pytest.param(
            lambda log: maintenance.vacuum(log, dry_run="no"),
            "vacuum: dry_run is 'no', of type str; give True or False",
            id="a text is no truth value",
        ),
        pytest.param(
            lambda log: maintenance.optimize(log, target_size="1"),
            "optimize: target_size is '1', of type str; give a whole number or None",
            id="what may be left out may be None",
        ),
        pytest.param(
            lambda log: maintenance.restore(log, version=0, timeout=5),
            "restore: timeout is 5, of type int; give a duration",
            id="a number is no duration",
        ),
        pytest.param(
            lambda log: maintenance.maintain(log, operations=[1]),
            "maintain: operations is [1], of type list; give a list of ",
            id="elements count",
        ),
        pytest.param(
            lambda log: arrow.to_table(log, predicate=1),
            "to_table: predicate is 1, of type int; give a predicate (col(name) == value), an "
            "expression (parse_expression(text)), a string, or None",
            id="a number is no predicate",
        ),
        pytest.param(
            lambda log: arrow.write(log, pa.table({"id": [1]}), mode=1),
            "write: mode is 1, of type int; give 'append' or 'overwrite'",
            id="one of several words",
        ),
        pytest.param(
            lambda log: log.snapshot(2**63),
            "DeltaLog.snapshot: version is 9223372036854775808; give a whole number that fits 64",
            id="a number that no version has",
        ),
        pytest.param(
            lambda log: log.snapshot(-(10**5000)),
            "DeltaLog.snapshot: version is a whole number of 16,610 bits; give a whole number",
            id="a number of which Python makes no text",
        ),
        pytest.param(
            lambda log: maintenance.vacuum(log, retention=10**5000),
            "vacuum: retention is a whole number of 16,610 bits, of type int; give a duration",
            id="such a number of the wrong type",
        ),
        pytest.param(
            lambda log: log.history(limit="3"),
            "DeltaLog.history: limit is '3', of type str; give a whole number or None",
            id="of a method",
        ),
    ],
)
def test_what_is_said(tmp_path: Path, call: Callable[[Any], Any], message: str) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError) as refused:
        call(log)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            lambda log: da.write(log, pa.table({"id": [1]}), txn=("app", 10**5000)), id="a txn"
        ),
        pytest.param(
            lambda log: delta_ops.ddl.set_properties(log, OF_A_NUMBER),
            id="a property",
        ),
    ],
)
def test_a_number_of_which_python_makes_no_text_is_refused(
    tmp_path: Path, call: Callable[[DeltaLog], object]
) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="a whole number of 16,610 bits"):
        call(log)


def test_options_of_a_store_are_not_repeated() -> None:
    with pytest.raises(InvalidRequestError, match="storage_options is of type str") as refused:
        DeltaLog("s3://bucket/table", f"secret={SECRET}")  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


def test_list_like_arguments_are_accepted(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, pa.table({"id": [1], "p": [1]}), partition_by=("p",))
    assert dm.vacuum(log, keep=dict.fromkeys(["a"]), retention=timedelta(days=9)).failures == ()
    assert dm.vacuum(log, keep_versions={0}, dry_run=True).dry_run


VERBS = ("write", "stage_write", "delete", "update", "merge", "read_changes")


@pytest.mark.parametrize("name", VERBS)
def test_both_engines_show_the_same_options(name: str) -> None:
    of_arrow, of_spark = (inspect.signature(getattr(each, name)).parameters for each in (da, ds))
    own = {"data", "df", "spark", "target_alias", "partition_time_zone"}
    shared = [
        {n: p.default for n, p in each.items() if n not in own and p.default is not p.empty}
        for each in (of_arrow, of_spark)
    ]
    if name == "merge":  # both engines have its target_alias
        assert of_arrow["target_alias"].default == of_spark["target_alias"].default == "target"
    assert shared[0] == shared[1] != {}
    assert not [p for p in of_arrow.values() if p.kind is inspect.Parameter.VAR_KEYWORD]


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("engine", [da, ds], ids=["arrow", "spark"])
def test_help_documents_every_option_of_a_verb(engine: ModuleType, name: str) -> None:
    verb = getattr(engine, name)
    documentation = verb.__doc__
    for each in inspect.signature(verb).parameters:
        assert f"\n    {each}: " in documentation, each
    assert documentation.count("\nArgs:\n") == documentation.count("\nRaises:\n") == 1


def test_an_option_that_a_verb_does_not_have_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="modus"):
        arrow.write(tmp_path, pa.table({"id": [1]}), modus="append")
    assert not DeltaLog(tmp_path).exists()
