"""The commands of `delta-ops`.

Exit codes: 0 success, or nothing to do; 1 failure, with one sentence on standard error; 2 invalid
command line; 3 `repair --dry-run` found missing files or statistics. `fleet` lists the codes of
`health` and `maintain`. With `--json`, standard output holds JSON only: one object for a result;
one object per line for `history`, `files`, `head`, `changes`, `diff`, and each table of a fleet.

The help shows the commands by group. The help page of a command lists its own options
first, then the options that many commands share, and ends with an example.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from delta_ops.cli.render import Group, report_errors
from delta_ops.option_words import Surface, speaking

_PACKAGES = (
    "pyarrow",
    "fsspec",
    "s3fs",
    "gcsfs",
    "adlfs",
    "dagster",
    "dagster-pyspark",
    "pandas",
    "polars",
    "zarr",
)


_COMMANDS_BY_MODULE: Mapping[str, Sequence[str]] = {
    "delta_ops.cli.alter": ["alter_command"],
    "delta_ops.cli.health": ["health_command"],
    "delta_ops.cli.indexes": ["index_command"],
    "delta_ops.cli.log": [
        "backfill_statistics_command",
        "checkpoint_command",
        "clean_up_log_command",
        "compact_log_command",
        "scan_cache_command",
    ],
    "delta_ops.cli.maintain": ["maintain_command"],
    "delta_ops.cli.optimize": ["advise_command", "optimize_command"],
    "delta_ops.cli.properties": ["properties_command"],
    "delta_ops.cli.restore": ["repair_command", "restore_command", "revert_command"],
    "delta_ops.cli.rows": [
        "changes_command",
        "count_command",
        "diff_command",
        "head_command",
        "plan_command",
        "schema_command",
    ],
    "delta_ops.cli.show": ["files_command", "history_command", "show_command"],
    "delta_ops.cli.tables": [
        "clone_command",
        "convert_command",
        "drop_command",
        "manifest_command",
    ],
    "delta_ops.cli.vacuum": ["vacuum_command"],
    "delta_ops.cli.versioning.publish": ["publish_command"],
    "delta_ops.cli.versioning.refs": ["branch_command", "refs_command", "tag_command"],
    "delta_ops.cli.versioning.releases": ["release_command"],
    "delta_ops.cli.versioning.sessions": ["session_command"],
}
"""The modules of commands, which a call of the command imports."""
_MODULES = {
    name.removesuffix("_command").replace("_", "-"): module
    for module, names in _COMMANDS_BY_MODULE.items()
    for name in names
}


class _LateCommands(MutableMapping[str, click.Command]):
    """The commands by name; a call imports the modules of its command only."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            command = _load_command(name)
            complete_help(command, name)
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        from delta_ops.maintenance.registry import OPERATIONS  # imports all of maintenance

        operations = (entry.command for entry in OPERATIONS)
        return iter(dict.fromkeys((*_MODULES, *operations, *self._loaded)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _load_command(name: str) -> click.Command:
    """Import the module of a command, or build the command of an operation without a module."""
    if name in _MODULES:
        module = import_module(_MODULES[name])
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command
    from delta_ops.cli.operation_command import operation_command  # both import maintenance
    from delta_ops.maintenance.registry import OPERATIONS

    for entry in OPERATIONS:
        if entry.command == name:
            return operation_command(entry)
    raise KeyError(name)


class _Commands(Group):
    """Shows the errors of delta_ops without a traceback."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with speaking(Surface.TERMINAL), report_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with speaking(Surface.TERMINAL), report_errors():
            if ctx.params["version"]:
                return _show_version(ctx, with_packages=ctx.params["verbose"])
            return super().invoke(ctx)

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[str]]]:
        """The groups of commands."""
        return commands_by_group(self.list_commands(ctx))


def _show_version(ctx: click.Context, *, with_packages: bool) -> None:
    click.echo(f"{ctx.info_name}, version {version('delta_ops')}")
    if with_packages:
        for name, found in _installed_packages():
            click.echo(f"{name}: {found}")


def _installed_packages() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each installed package and engine."""
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    for name in _PACKAGES:
        yield name, _package_version(name) or "not installed"
    yield "Arrow engine", "runs in this process; delta-ops uses it"
    yield from _spark_parts()


def _spark_parts() -> Iterator[tuple[str, str]]:
    try:
        from delta_ops.spark.installation import installation
    except ImportError as error:
        yield "Spark engine", f"cannot be used: {error}"
        return
    yield from installation()


def _package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


GROUPS: Mapping[str, Sequence[str]] = {
    "Look": (
        "show",
        "schema",
        "properties",
        "history",
        "files",
        "plan",
        "head",
        "count",
        "changes",
        "diff",
        "refs",
        "health",
        "advise",
    ),
    "Change": (
        "alter",
        "tag",
        "branch",
        "publish",
        "session",
        "release",
        "convert",
        "clone",
        "manifest",
        "drop",
    ),
    "Recover": ("restore", "revert", "repair"),
}
"""The commands of each group; any other command is in the group of maintenance."""
MAINTAIN = "Maintain"

EXAMPLES: Mapping[str, str] = {
    "advise": "advise lake/orders",
    "alter": "alter lake/orders add-column weight double",
    "alter add-column": "alter lake/orders add-column weight double --after price",
    "alter add-constraint": "alter lake/orders add-constraint positive 'price > 0'",
    "alter add-feature": "alter lake/orders add-feature deletionVectors",
    "alter cluster-by": "alter lake/orders cluster-by country id",
    "alter comment": "alter lake/orders comment --column price 'in euros'",
    "alter default": "alter lake/orders default country \"'NL'\"",
    "alter drop-column": "alter lake/orders drop-column discount",
    "alter drop-constraint": "alter lake/orders drop-constraint positive",
    "alter drop-feature": "alter lake/orders drop-feature deletionVectors",
    "alter drop-not-null": "alter lake/orders drop-not-null id",
    "alter rename": "alter lake/orders rename sales",
    "alter rename-column": "alter lake/orders rename-column price amount",
    "alter reorder-columns": "alter lake/orders reorder-columns id price",
    "alter set-not-null": "alter lake/orders set-not-null id",
    "alter type": "alter lake/orders type pieces bigint",
    "backfill-statistics": "backfill-statistics lake/orders",
    "changes": "changes lake/orders --from-version 3 --columns id,_change_type",
    "checkpoint": "checkpoint lake/orders",
    "clean-up-log": "clean-up-log lake/orders --dry-run",
    "clone": "clone lake/orders lake/orders_copy --version 3",
    "compact-log": "compact-log lake/orders",
    "scan-cache": "scan-cache lake/orders",
    "convert": "convert lake/visits --partition day=date",
    "branch": "branch lake/orders create audit",
    "branch anchor": "branch lake/orders anchor audit",
    "branch create": "branch lake/orders create audit --expires-in 2",
    "branch delete": "branch lake/orders delete audit --dry-run",
    "branch diff": "branch lake/orders diff audit",
    "branch list": "branch lake/orders list",
    "branch publish": "branch lake/orders publish audit --expected-version 8",
    "branch rebase": "branch lake/orders rebase audit",
    "branch rename": "branch lake/orders rename audit audit/2026-11-29",
    "count": "count lake/orders --where \"country = 'NL'\"",
    "diff": "diff lake/orders 3 5 --columns id,price",
    "drop": "drop lake/orders --dry-run",
    "files": "files lake/orders --limit 20",
    "head": "head lake/orders -n 5 --columns id,price",
    "health": "health lake",
    "history": "history lake/orders --limit 5",
    "index": "index lake/orders create by_country country",
    "index create": "index lake/orders create by_country country --budget 10GB",
    "index drop": "index lake/orders drop by_country",
    "index refresh": "index lake/orders refresh by_country",
    "index show": "index lake/orders show",
    "maintain": "maintain lake --dry-run",
    "manifest": "manifest lake/orders",
    "optimize": "optimize lake/orders --zorder country,id --dry-run",
    "plan": "plan lake/orders --where \"country = 'NL' AND id < 100\"",
    "properties": "properties lake/orders --set delta.checkpointInterval=20",
    "publish": "publish lake/orders audit --expected-version 8",
    "refs": "refs lake/orders",
    "release": "release lake/releases create orders=lake/orders items=lake/items",
    "release create": "release lake/releases create orders=lake/orders --version orders=3",
    "release delete": "release lake/releases delete --keep-last 12 --dry-run",
    "release diff": "release lake/releases diff 1 --rows",
    "release drop-holds": "release lake/old_releases drop-holds lake/orders",
    "release list": "release lake/releases list",
    "release rollback": "release lake/releases rollback 1",
    "release show": "release lake/releases show",
    "repair": "repair lake/orders --dry-run",
    "restore": "restore lake/orders --version 3 --dry-run",
    "revert": "revert lake/orders 4 --dry-run",
    "schema": "schema lake/orders --export orders.parquet",
    "session": "session lake/orders list",
    "session abandon": "session lake/orders abandon 7d9f4c1e --dry-run",
    "session commit": "session lake/orders commit 7d9f4c1e",
    "session list": "session lake/orders list",
    "session show": "session lake/orders show 7d9f4c1e",
    "show": "show lake/orders --version 3",
    "tag": "tag lake/orders create reports/2026-11 --version 3",
    "tag anchor": "tag lake/orders anchor reports/2026-11",
    "tag create": "tag lake/orders create reports/2026-11 --version 3",
    "tag delete": "tag lake/orders delete reports/2026-11 --dry-run",
    "tag list": "tag lake/orders list",
    "vacuum": "vacuum lake/orders --keep-last 10 --dry-run",
}
"""Arguments of one call for each command."""

_SHARED = ("dry_run", "storage_options", "as_json")
"""Options of many commands; a help page lists them after the command's own options."""


def complete_help(command: click.Command, name: str) -> None:
    """Add the example to the command's help page, and list its shared options last."""
    command.params.sort(key=_rank)
    for each in command.params:
        if isinstance(each.type, click.IntRange | click.FloatRange) and each.metavar is None:
            each.metavar = "N"
    if name in EXAMPLES:
        command.epilog = f"\b\nExample:\n  delta-ops {EXAMPLES[name]}"
    for part in getattr(command, "commands", {}).values():
        complete_help(part, f"{name} {part.name}")


def commands_by_group(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The groups in order, each with its commands."""
    placed = {name for group in GROUPS.values() for name in group}
    rest = [name for name in names if name not in placed]
    for group, members in GROUPS.items():
        if group == "Recover":
            yield MAINTAIN, rest
        yield group, [name for name in members if name in names]


def _rank(parameter: Any) -> int:
    return _SHARED.index(parameter.name) + 1 if parameter.name in _SHARED else 0


@click.group(
    cls=_Commands,
    commands=_LateCommands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option(
    "-v", "--verbose", is_flag=True, help="With --version: versions of all parts, for a bug report."
)
def cli(**_options: bool) -> None:
    """Inspect and maintain Delta tables. TABLE is a local path or a URI."""
