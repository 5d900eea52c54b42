"""The commands of `delta-ops`.

Exit codes: 0 success, or nothing to do; 1 failure, with one sentence on standard error; 2 invalid
command line; 3 `repair --dry-run` found missing files or statistics. `fleet` lists the codes of
`health` and `maintain`. With `--json`, standard output holds JSON only: one object for a result;
one object per line for `history`, `files`, `head`, `changes`, and for each table of a fleet.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from delta_ops.cli.alter import alter_command
from delta_ops.cli.health import health_command
from delta_ops.cli.help_pages import commands_by_group, complete_help
from delta_ops.cli.log import (
    backfill_statistics_command,
    checkpoint_command,
    clean_up_log_command,
    compact_log_command,
)
from delta_ops.cli.maintain import maintain_command
from delta_ops.cli.operation_command import operation_command
from delta_ops.cli.optimize import optimize_command
from delta_ops.cli.properties import properties_command
from delta_ops.cli.render import report_errors
from delta_ops.cli.restore import repair_command, restore_command, revert_command
from delta_ops.cli.rows import changes_command, count_command, head_command, schema_command
from delta_ops.cli.show import advise_command, files_command, history_command, show_command
from delta_ops.cli.tables import clone_command, convert_command, drop_command, manifest_command
from delta_ops.cli.vacuum import vacuum_command
from delta_ops.maintenance.registry import OPERATIONS

_PACKAGES = ("pyarrow", "fsspec", "s3fs", "gcsfs", "adlfs", "dagster", "dagster-pyspark")


class _Commands(click.Group):
    """Shows the errors of delta_ops without a traceback."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with report_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with report_errors():
            if ctx.params["version"]:
                return _show_version(ctx, all_parts=ctx.params["verbose"])
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by group, with the first line of their help."""
        for group, names in commands_by_group(self.list_commands(ctx)):
            helps = [(name, self.commands[name].help or "") for name in names]
            with formatter.section(group):
                formatter.write_dl([(name, text.partition("\n")[0]) for name, text in helps])


def _show_version(ctx: click.Context, *, all_parts: bool) -> None:
    click.echo(f"{ctx.info_name}, version {version('delta_ops')}")
    if all_parts:
        for name, found in _installed_parts():
            click.echo(f"{name}: {found}")


def _installed_parts() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each part."""
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


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option("-v", "--verbose", is_flag=True, help="With --version: of all parts, for a report.")
def cli(**_options: bool) -> None:
    """Inspect and maintain Delta tables. TABLE is a local path or a URI."""


for _command in (
    show_command,
    history_command,
    files_command,
    head_command,
    count_command,
    schema_command,
    changes_command,
    properties_command,
    alter_command,
    convert_command,
    clone_command,
    manifest_command,
    drop_command,
    checkpoint_command,
    advise_command,
    optimize_command,
    vacuum_command,
    clean_up_log_command,
    compact_log_command,
    backfill_statistics_command,
    restore_command,
    revert_command,
    repair_command,
    health_command,
    maintain_command,
):
    cli.add_command(_command)
for _entry in OPERATIONS:
    if _entry.command not in cli.commands:
        cli.add_command(operation_command(_entry))
for _name, _each in cli.commands.items():
    complete_help(_each, _name)
