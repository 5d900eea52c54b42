"""One list of all places for user settings: each rejects an unknown or unusable setting.

Otherwise a setting would be ignored silently, without its effect. The places: metadata of assets
and inputs, tags of runs, fields of IO managers and resources, run config, policies, attributes of
components, options of commands, options of stores, options of Spark, table properties, and
arguments of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from delta_ops.orchestration.swap_in import (
    dagster_delta,
    dagster_deltalake,
    dagster_iceberg,
    dagster_polars,
)
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
    ),
    Surface("the metadata of an Output", of_output, {"delta/mod": "append"}, {"dagster/uri": "/x"}),
    Surface(
        "the metadata of an input",
        of_input,
        {"delta/predicat": "n > 1", "partitionExpr": "day"},
        {"delta/mode": "append", "columns": ["n"], "delta/predicate": "n > 1"},
    ),
    Surface(
        "the tags of a run",
        of_run,
        {"delta_ops/idempotence": "force", "delta-ops/idempotency": "force"},
        {"delta_ops/idempotency": "perhaps"},
    ),
    Surface(
        "the fields of DeltaIOManager",
        fields_of(DeltaIOManager, root="lake"),
        {"mode": "append", "storage_option": {}},
        {"metadata": {"metadata": "append"}, "checkpoint": "never", "cache_max_bytes": 0},
    ),
    Surface(
        "the fields of DeltaLogResource",
        fields_of(DeltaLogResource, root="lake"),
        {"strage_options": {}, "schema": "x"},
        {"cache_max_bytes": -1},
    ),
    *(
        Surface(
            f"the fields of {package}",
            fields_of(make, **{root: "lake"}),
            {"mod": "append", "storage_option": {}},
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
    ),
    *(
        Surface(
            f"the run config of {config.__name__}",
            fields_of(config, **fixed),
            {"dry_runn": True, **misspelt},
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
    ),
    Surface(
        "the attributes of DeltaTableComponent",
        fields_of(DeltaTableComponent, uri="/lake/t", asset=dg.AssetSpec("t")),
        {"check": "0 6 * * *"},
        {"check_cron": "noon", "name": "a b"},
    ),
    Surface(
        "the attributes of DeltaLakeComponent",
        fields_of(DeltaLakeComponent, root="/lake"),
        {"includes": ["*"]},
        {"include": [], "key_prefix": ".."},
    ),
    Surface(
        "the attributes of DeltaMaintenanceComponent",
        fields_of(DeltaMaintenanceComponent, root="/lake", tables=["t"]),
        {"policy": []},
        {"tables": [], "name": "a b"},
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
        )
        for use in Use
    ),
    Surface(
        "table properties",
        properties,
        {"delta.appendOnlyy": "true", "delta.checkpointIntervall": "7"},
        {"delta.appendOnly": "perhaps", "delta.checkpointInterval": "0"},
    ),
    Surface(
        "the arguments of a function",
        lambda root, name, value: da.write(root / "t", ROWS, **{name: value}),
        {"partition_columns": ["day"], "mod": "append"},
        {"mode": "upsert", "configuration": "x", "merge_schema": "yes"},
    ),
]


def settings() -> Iterator[Any]:
    for surface in SURFACES:
        for kind in ("misspelt", "unusable"):
            for name, value in getattr(surface, kind).items():
                yield pytest.param(surface, name, value, id=f"{surface.name}: {name}={value!r}")


@pytest.mark.parametrize(("surface", "name", "value"), list(settings()))
def test_a_setting_that_nothing_can_use_is_rejected(
    tmp_path: Path, surface: Surface, name: str, value: Any
) -> None:
    # Python, pydantic and Dagster reject arguments and fields by their own errors.
    with pytest.raises(Exception, match=r"(?s)\S") as rejected:
        surface.give(tmp_path, name, value)
    assert not isinstance(rejected.value, KeyError | AttributeError | AssertionError)
    assert name.lower().rstrip("_x") in str(rejected.value).lower()


def test_each_command_rejects_an_option_that_it_does_not_have() -> None:
    for name, command in cli.commands.items():
        assert isinstance(command, click.Command)
        found = CliRunner().invoke(cli, [name, "--no-such-option"])
        assert found.exit_code == 2, name
        assert "No such option" in found.output, name
