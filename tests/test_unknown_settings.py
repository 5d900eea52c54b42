"""One list of all places for user settings: each rejects an unknown or unusable setting.

Otherwise a setting would be ignored silently, without its effect. The places: metadata of assets
and inputs, tags of runs, fields of IO managers and resources, run config, policies, attributes of
components, options of commands, options of stores, options of Spark, table properties, and
arguments of functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops.cli.main import cli
from delta_ops.components import (
    DeltaLakeComponent,
    DeltaMaintenanceComponent,
    DeltaTableComponent,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    FleetConfig,
    FleetMaintenanceConfig,
    MaintenanceConfig,
    MaintenancePolicy,
    RepairConfig,
    RestoreConfig,
    RevertConfig,
)
from delta_ops.orchestration.io_manager.input_settings import INPUT_KEYS
from delta_ops.orchestration.io_manager.input_versions import READ_KEY
from delta_ops.orchestration.io_manager.output_settings import OUTPUT_KEYS
from delta_ops.orchestration.swap_in import (
    dagster_delta,
    dagster_deltalake,
    dagster_iceberg,
    dagster_polars,
)
from delta_ops.orchestration.tables import TABLE_KEY
from delta_ops.orchestration.tags import IDEMPOTENCY_TAG, READ_TAG
from delta_ops.protocol.properties.known import PROPERTIES
from delta_ops.spark.delta_format.options import OPTIONS, Option, Use, options_for
from delta_ops.storage import open_storage

ROWS = pa.table({"n": [1], "day": ["a"]})


class Surface(NamedTuple):
    """A place for settings."""

    name: str
    give: Callable[[Path, str, Any], object]
    """Gives a setting by name and value, for tables in a folder."""
    misspelt: Mapping[str, Any]
    """Settings with a name close to a valid one."""
    unusable: Mapping[str, Any] = {}
    """Valid settings with an unusable value, or in an unusable place."""
    names: Iterable[str] = ()
    """All valid names, where the names are a list of ours; each is misspelt in a test."""


def write(root: Path, **options: Any) -> None:
    """Write an asset with a context as Dagster creates it."""
    metadata = options.pop("definition_metadata", {})
    tags = options.pop("tags", {})

    @dg.asset(metadata=metadata)
    def t() -> dg.Output[pa.Table]:
        return dg.Output(ROWS, metadata=options.get("output_metadata", {}))

    manager = options.get("manager") or DeltaIOManager(root=str(root))
    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([t], resources={"io_manager": manager}, tags=tags, instance=instance)


def of_asset(root: Path, name: str, value: Any) -> None:
    write(root, definition_metadata={name: value})


def of_output(root: Path, name: str, value: Any) -> None:
    write(root, output_metadata={name: value})


def of_input(root: Path, name: str, value: Any) -> None:
    da.write(root / "t", ROWS)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_input_context(
            asset_key="t", definition_metadata={name: value}, instance=instance
        )
        DeltaIOManager(root=str(root)).load_input(context)


def of_run(root: Path, name: str, value: Any) -> None:
    write(root, tags={name: value})


def fields_of(make: Callable[..., Any], **fixed: Any) -> Callable[[Path, str, Any], object]:
    return lambda _root, name, value: make(**{**fixed, name: value})


def of_store(uri: str, **fixed: Any) -> Callable[[Path, str, Any], object]:
    return lambda _root, name, value: open_storage(uri, {**fixed, name: value})


def of_spark(use: Use) -> Callable[[Path, str, Any], object]:
    return lambda _root, name, value: options_for(use, {name.lower(): (name, value)})


def is_unusable(option: Option, use: Use) -> bool:
    """Whether the option is rejected."""
    return use not in option.used_by | option.ignored_by


def of_command(root: Path, name: str, value: Any) -> None:
    """Give an option to a command; a rejected option gives an exit code other than 0."""
    da.write(root / "t", ROWS)
    found = CliRunner().invoke(cli, ["show", str(root / "t"), f"--{name}", str(value)])
    if found.exit_code != 0:
        raise InvalidRequestError(found.output)


def properties(root: Path, name: str, value: Any) -> None:
    da.write(root / "t", ROWS, configuration={name: value})


SURFACES = [
    Surface(
        "the metadata of an asset",
        of_asset,
        {"delta/mod": "append", "delta.mode": "append", "Delta/Mode": "append", "deltaMode": "x"},
        {"delta/merge_keys": "n", "partition_expr": "day", "delta/idempotency": "often"},
        (*OUTPUT_KEYS, READ_KEY, TABLE_KEY),
    ),
    Surface(
        "the metadata of an Output",
        of_output,
        {"delta/mod": "append"},
        {"dagster/uri": "/x"},
        OUTPUT_KEYS,
    ),
    Surface(
        "the metadata of an input",
        of_input,
        {"delta/predicat": "n > 1", "partitionExpr": "day"},
        {"delta/mode": "append", "columns": ["n"], "delta/predicate": "n > 1"},
        set(INPUT_KEYS) - {"columns"},  # a name near this word may be a key of somebody else
    ),
    Surface(
        "the tags of a run",
        of_run,
        {"delta_ops/idempotence": "force", "delta-ops/idempotency": "force"},
        {"delta_ops/idempotency": "perhaps"},
        (IDEMPOTENCY_TAG, READ_TAG),
    ),
    Surface(
        "the fields of DeltaIOManager",
        fields_of(DeltaIOManager, root="lake"),
        {"mode": "append", "storage_option": {}},
        {"metadata": {"metadata": "append"}, "checkpoint": "never", "cache_max_bytes": 0},
        DeltaIOManager.model_fields,
    ),
    Surface(
        "the fields of DeltaLogResource",
        fields_of(DeltaLogResource, root="lake"),
        {"strage_options": {}, "schema": "x"},
        {"cache_max_bytes": -1},
        DeltaLogResource.model_fields,
    ),
    *(
        Surface(
            f"the fields of {package}",
            fields_of(make, **{root: "lake"}),
            {"mod": "append", "storage_option": {}},
            names=make.model_fields,
        )
        for package, make, root in (
            ("dagster-deltalake", dagster_deltalake.DeltaLakeIOManager, "root_uri"),
            ("dagster-delta", dagster_delta.DeltaLakePolarsIOManager, "root_uri"),
            ("dagster-polars", dagster_polars.PolarsDeltaIOManager, "base_dir"),
            ("dagster-iceberg", dagster_iceberg.DeltaLakeIOManager, "root_uri"),
        )
    ),
    Surface(
        "the fields of DeltaTableResource",
        fields_of(dagster_deltalake.DeltaTableResource, url="/lake/t"),
        {"storage_option": None, "versoin": 1},
        names=dagster_deltalake.DeltaTableResource.model_fields,
    ),
    *(
        Surface(
            f"the run config of {config.__name__}",
            fields_of(config, **fixed),
            {"dry_runn": True, **misspelt},
            names=config.model_fields,
        )
        for config, fixed, misspelt in (
            (MaintenanceConfig, {}, {"operation": ["vacuum"], "vacuum_keep": 2}),
            (FleetConfig, {}, {"table": ["/lake"]}),
            (FleetMaintenanceConfig, {}, {"small_file": 5}),
            (RestoreConfig, {"table": "t"}, {"verson": 1}),
            (RevertConfig, {"table": "t", "version": 1}, {"timestamp": "2026-01-31"}),
            (RepairConfig, {"table": "t"}, {"remove": True}),
        )
    ),
    Surface(
        "a policy",
        fields_of(MaintenancePolicy),
        {"table": "*", "option": {}},
        {"options": {"vacuum": {"options": 1}}, "budget_s": 0, "pool": "", "name": "a b"},
        [each.name for each in dataclasses.fields(MaintenancePolicy)],
    ),
    Surface(
        "the attributes of DeltaTableComponent",
        fields_of(DeltaTableComponent, uri="/lake/t", asset=dg.AssetSpec("t")),
        {"check": "0 6 * * *"},
        {"check_cron": "noon", "name": "a b"},
        DeltaTableComponent.model_fields,
    ),
    Surface(
        "the attributes of DeltaLakeComponent",
        fields_of(DeltaLakeComponent, root="/lake"),
        {"includes": ["*"]},
        {"include": [], "key_prefix": ".."},
        DeltaLakeComponent.model_fields,
    ),
    Surface(
        "the attributes of DeltaMaintenanceComponent",
        fields_of(DeltaMaintenanceComponent, root="/lake", tables=["t"]),
        {"policy": []},
        {"tables": [], "name": "a b"},
        DeltaMaintenanceComponent.model_fields,
    ),
    Surface("the options of a command", of_command, {"jsn": "", "no-such-option": "x"}),
    *(
        Surface(
            f"the options of a store for {place}",
            of_store(uri),
            {"endpont_url": "http://x", "aws_regoin": "eu", "no_such": "x"},
        )
        for place, uri in (("a local path", "/tmp/lake"), ("the memory", "memory://lake"))
    ),
    Surface(
        "the options of S3",
        of_store("s3://bucket/lake"),
        {"endpont_url": "http://x", "aws_regoin": "eu", "sceret": "x"},
        {"aws_allow_http": "false", "anon_": True},
    ),
    Surface(
        "the options of Google Cloud Storage",
        of_store("gs://bucket/lake", token="anon"),
        {"projet": "x", "google_projct": "x"},
    ),
    Surface(
        "the options of Azure",
        of_store("abfss://c@a.dfs.core.windows.net/lake", account_name="a", account_key="YQ=="),
        {"acount_host": "x", "azure_acount_key": "x"},
    ),
    *(
        Surface(
            f"the options of {use.value}",
            of_spark(use),
            {
                **{f"{option.name}x": "1" for option in OPTIONS if use in option.used_by},
                "where": "id = 1",
                "header": "true",
                **({} if "write" in use.value else {"delta.versionAsOf": "1"}),
                "spark.sql.shuffle.partitions": "1",
            },
            {option.name: "1" for option in OPTIONS if is_unusable(option, use)},
            [option.name for option in OPTIONS],
        )
        for use in Use
    ),
    Surface(
        "table properties",
        properties,
        {"delta.appendOnlyy": "true", "delta.checkpointIntervall": "7"},
        {"delta.appendOnly": "perhaps", "delta.checkpointInterval": "0"},
        [each.name for each in PROPERTIES],
    ),
    Surface(
        "the arguments of a function",
        lambda root, name, value: da.write(root / "t", ROWS, **{name: value}),
        {"partition_columns": ["day"], "mod": "append"},
        {"mode": "upsert", "configuration": "x", "merge_schema": "yes"},
    ),
]


SLOW = (of_asset, of_output)
"""They run an asset for each name."""


def settings() -> Iterator[Any]:
    for surface in SURFACES:
        for kind in ("misspelt", "unusable"):
            for name, value in getattr(surface, kind).items():
                yield pytest.param(surface, name, value, id=f"{surface.name}: {name}={value!r}")


@pytest.mark.some_cases(20)
@pytest.mark.parametrize(("surface", "name", "value"), list(settings()))
def test_a_setting_that_nothing_can_use_is_rejected(
    tmp_path: Path, surface: Surface, name: str, value: Any
) -> None:
    # Python, pydantic and Dagster reject arguments and fields by their own errors.
    with pytest.raises(Exception, match=r"(?s)\S") as rejected:
        surface.give(tmp_path, name, value)
    assert not isinstance(rejected.value, KeyError | AttributeError | AssertionError)
    assert name.lower().rstrip("_x") in str(rejected.value).lower()


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(
    "surface",
    [
        pytest.param(each, id=each.name, marks=pytest.mark.full if each.give in SLOW else ())
        for each in SURFACES
        if each.names
    ],
)
def test_each_name_of_a_surface_is_rejected_if_it_is_misspelt(
    tmp_path: Path, surface: Surface
) -> None:
    taken = []
    for number, name in enumerate(surface.names):
        with suppress(Exception):
            surface.give(tmp_path / str(number), f"{name}x", "1")
            taken.append(name)
    assert taken == []


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield all commands with their words."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))
    else:
        yield pytest.param(path, command, id=" ".join(path))


@pytest.mark.some_cases(15)
@pytest.mark.parametrize(("words", "command"), list(commands(cli)))
def test_each_option_of_a_command_is_rejected_if_it_is_misspelt_or_has_no_such_value(
    tmp_path: Path, words: tuple[str, ...], command: click.Command
) -> None:
    da.write(tmp_path, ROWS)
    before = sorted(tmp_path.rglob("*"))
    options = [each for each in command.params if isinstance(each, click.Option)]
    for name in (name for option in options for name in option.opts if name.startswith("--")):
        found = CliRunner().invoke(cli, [*words, f"{name}x"])
        assert (found.exit_code, "No such option" in found.output) == (2, True), name
    for option in options:
        if not option.is_flag and option.type is not click.STRING:
            place = [words[0], str(tmp_path), *words[1:]]  # a group takes the table, too
            found = CliRunner().invoke(cli, [*place, option.opts[-1], "?!/x"])
            assert found.exit_code != 0, option.opts
            assert option.opts[-1] in found.output or "?!/x" in found.output, option.opts
    assert sorted(tmp_path.rglob("*")) == before


def test_each_command_rejects_an_option_that_it_does_not_have() -> None:
    for name, command in cli.commands.items():
        assert isinstance(command, click.Command)
        found = CliRunner().invoke(cli, [name, "--no-such-option"])
        assert found.exit_code == 2, name
        assert "No such option" in found.output, name
