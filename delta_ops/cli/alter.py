"""The commands that say what a table is: `alter` with its own commands, `convert`, `clone`,
`manifest` and `drop`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

import delta_ops.arrow as da
from delta_ops import ddl
from delta_ops.cli.options import (
    dry_run_option,
    json_option,
    open_snapshot,
    open_table,
    pairs_callback,
    storage_options_option,
    table_argument,
    version_options,
)
from delta_ops.cli.render import command_error, progress, say, show_json
from delta_ops.log import DeltaLog
from delta_ops.transaction import CommitResult
from delta_ops.units import count_text, size_text

F = TypeVar("F", bound=Callable[..., Any])


@click.group("alter")
@click.argument("table")
@click.pass_context
def alter_command(context: click.Context, table: str) -> None:
    """Change columns, constraints and features: alter TABLE COMMAND.

    No file is rewritten. What is so already is not committed.
    """
    context.obj = table


def _change_command(name: str) -> Callable[[F], click.Command]:
    """A command of `alter`: its function gets the table, and gives what was committed."""

    def make(change: F) -> click.Command:
        def run(
            table: str, storage_options: dict[str, Any], as_json: bool, **arguments: Any
        ) -> None:
            log = open_table(table, storage_options)
            result = change(log, **arguments)
            _show(log, result, arguments["dry_run"], as_json)

        run.__doc__ = change.__doc__
        for parameters in (storage_options_option, json_option, dry_run_option):
            run = parameters(run)
        run.__click_params__ += getattr(change, "__click_params__", [])  # type: ignore[attr-defined]
        command = click.command(name)(click.pass_obj(run))
        alter_command.add_command(command)
        return command

    return make


def _show(log: DeltaLog, result: CommitResult, dry_run: bool, as_json: bool) -> None:
    if as_json:
        show_json({"table": log.uri, "dry_run": dry_run, "version": result.version})
    elif dry_run:
        say("This can be done; nothing was changed.")
    elif result.version is None:
        say("The table is so already; nothing to do.")
    else:
        say(f"Version {result.version} has the change.")


@_change_command("add-column")
@click.argument("column")
@click.argument("data_type", metavar="TYPE")
@click.option("--first", is_flag=True, help="Before all others.")
@click.option("--after", metavar="COLUMN", help="After this one.")
@click.option("--comment", metavar="TEXT", help="What the column holds.")
def add_column(
    log: DeltaLog,
    column: str,
    data_type: str,
    first: bool,
    after: str | None,
    comment: str | None,
    dry_run: bool,
) -> CommitResult:
    """Add a column, null in the rows that are there; a.b is a field of the struct a."""
    new = ddl.NewColumn(name=column, data_type=data_type, comment=comment, first=first, after=after)
    return ddl.add_columns(log, [new], dry_run=dry_run)


@_change_command("drop-column")
@click.argument("columns", nargs=-1, required=True)
def drop_column(log: DeltaLog, columns: tuple[str, ...], dry_run: bool) -> CommitResult:
    """Drop columns; where the table has column mapping."""
    return ddl.drop_columns(log, columns, dry_run=dry_run)


@_change_command("rename-column")
@click.argument("column")
@click.argument("name")
def rename_column(log: DeltaLog, column: str, name: str, dry_run: bool) -> CommitResult:
    """Rename a column; where the table has column mapping."""
    return ddl.rename_column(log, column, name, dry_run=dry_run)


@_change_command("reorder-columns")
@click.argument("columns", nargs=-1, required=True)
@click.option("--struct", metavar="COLUMN", help="The fields of this struct are meant.")
def reorder_columns(
    log: DeltaLog, columns: tuple[str, ...], struct: str | None, dry_run: bool
) -> CommitResult:
    """Put columns first, in the order given; the others follow as they were."""
    return ddl.reorder_columns(log, columns, struct=struct, dry_run=dry_run)


@_change_command("comment")
@click.argument("text")
@click.option("--column", metavar="COLUMN", help="Of this column; of the table if not given.")
def comment(log: DeltaLog, text: str, column: str | None, dry_run: bool) -> CommitResult:
    """Describe a column or the table; an empty TEXT removes the description."""
    if column is None:
        return ddl.set_table_comment(log, text or None, dry_run=dry_run)
    return ddl.set_comment(log, column, text or None, dry_run=dry_run)


@_change_command("default")
@click.argument("column")
@click.argument("default", metavar="SQL", required=False)
def default(log: DeltaLog, column: str, default: str | None, dry_run: bool) -> CommitResult:
    """Say what a column holds in new rows that leave it out; without SQL, null again."""
    return ddl.set_default(log, column, default, dry_run=dry_run)


@_change_command("type")
@click.argument("column")
@click.argument("data_type", metavar="TYPE")
def change_type(log: DeltaLog, column: str, data_type: str, dry_run: bool) -> CommitResult:
    """Give a column a wider type; where the table has type widening."""
    return ddl.change_type(log, column, data_type, dry_run=dry_run)


@_change_command("cluster-by")
@click.argument("columns", nargs=-1)
def cluster_by(log: DeltaLog, columns: tuple[str, ...], dry_run: bool) -> CommitResult:
    """Say by which columns the table is clustered; by none if none is named."""
    return ddl.cluster_by(log, columns, dry_run=dry_run)


@_change_command("rename")
@click.argument("name")
def rename(log: DeltaLog, name: str, dry_run: bool) -> CommitResult:
    """Give the table another name in its metadata; its place stays."""
    return ddl.rename_table(log, name or None, dry_run=dry_run)


@_change_command("set-not-null")
@click.argument("column")
def set_not_null(log: DeltaLog, column: str, dry_run: bool) -> CommitResult:
    """Demand that a column is never null, once no row has a null there."""
    return ddl.set_not_null(log, column, dry_run=dry_run)


@_change_command("drop-not-null")
@click.argument("column")
def drop_not_null(log: DeltaLog, column: str, dry_run: bool) -> CommitResult:
    """Let a column be null."""
    return ddl.drop_not_null(log, column, dry_run=dry_run)


@_change_command("add-constraint")
@click.argument("name")
@click.argument("condition")
def add_constraint(log: DeltaLog, name: str, condition: str, dry_run: bool) -> CommitResult:
    """Add a CHECK constraint, once all rows keep it."""
    return ddl.add_constraint(log, name, condition, dry_run=dry_run)


@_change_command("drop-constraint")
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do nothing where there is none.")
def drop_constraint(log: DeltaLog, name: str, if_exists: bool, dry_run: bool) -> CommitResult:
    """Drop a CHECK constraint."""
    return ddl.drop_constraint(log, name, if_exists, dry_run=dry_run)


@_change_command("add-feature")
@click.argument("name")
def add_feature(log: DeltaLog, name: str, dry_run: bool) -> CommitResult:
    """Add a feature to the table's protocol."""
    return ddl.add_feature(log, name, dry_run=dry_run)


@_change_command("drop-feature")
@click.argument("name")
@click.option(
    "--truncate-history",
    is_flag=True,
    help="Write a checkpoint and clean the log up first, as far as its retention allows.",
)
def drop_feature(log: DeltaLog, name: str, truncate_history: bool, dry_run: bool) -> CommitResult:
    """Drop a feature on which nothing rests any more."""
    return ddl.drop_feature(log, name, truncate_history, dry_run=dry_run)


@click.command("convert")
@table_argument
@click.option(
    "partitions",
    "--partition",
    multiple=True,
    metavar="NAME[=TYPE]",
    help="A partition column that the directories name, in their order, with its type as Spark SQL "
    "writes it; may be repeated. Without it, columns are long, date or string by their values.",
)
@click.option(
    "properties",
    "--property",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs_callback,
    help="A property of the new table; may be repeated.",
)
@click.option("--name", metavar="NAME", help="The table's name in its metadata.")
@dry_run_option
@json_option
def convert_command(
    table: str,
    storage_options: dict[str, Any],
    partitions: tuple[str, ...],
    properties: list[tuple[str, str]],
    name: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a directory of Parquet files a table, where it is."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = da.convert(
            log,
            partition_by=_partition_types(partitions),
            configuration=dict(properties),
            name=name,
            dry_run=dry_run,
            on_event=on_event,
        )
    num_files = result.metrics.get("numConvertedFiles", 0)
    if as_json:
        show_json(
            {
                "table": log.uri,
                "dry_run": dry_run,
                "version": result.version,
                "num_files": num_files,
                "was_table": result.ignored,
            }
        )
    elif result.ignored:
        say("There is a table already; nothing to do.")
    else:
        verb = "Would make" if dry_run else f"Version {result.version} makes"
        say(f"{verb} a table of {count_text(num_files, 'file')}.")


def _partition_types(texts: tuple[str, ...]) -> dict[str, str] | list[str] | None:
    if not texts:
        return None
    pairs = [text.partition("=") for text in texts]
    types = {name: data_type for name, _, data_type in pairs if data_type}
    if types and len(types) < len(pairs):
        raise click.UsageError("give the type of each partition column, or of none")
    return types or [name for name, _, _ in pairs]


@click.command("drop")
@table_argument
@click.option(
    "--yes-delete",
    "name",
    metavar="NAME",
    required=True,
    help="The last part of the table's path, as confirmation.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with a drop that was killed or has failed. Its process must have ended.",
)
@dry_run_option
@json_option
def drop_command(
    table: str,
    storage_options: dict[str, Any],
    name: str,
    resume: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete a table with all files under its root."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = ddl.drop_table(log, name, resume=resume, dry_run=dry_run, on_event=on_event)
    if as_json:
        show_json(
            {
                "table": log.uri,
                "dry_run": dry_run,
                "num_files": result.num_files,
                "size_bytes": result.size_bytes,
                "resumed": result.resumed,
                "failures": result.failures,
            }
        )
    elif not result.failures:
        verb = "Would delete" if dry_run else "Deleted"
        say(f"{verb} {count_text(result.num_files, 'file')}, {size_text(result.size_bytes)}.")
    if result.failures:
        raise command_error(
            f"{count_text(len(result.failures), 'file')} could not be deleted, the first of them "
            f"{result.failures[0]}; the table cannot be opened any more. Check the permissions and "
            "run this again."
        )


@click.command("clone")
@click.argument("source")
@click.argument("target")
@storage_options_option
@version_options
@json_option
def clone_command(
    source: str,
    target: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    as_json: bool,
) -> None:
    """Make TARGET a table of the files of SOURCE, without copying any.

    The files stay where they are: a vacuum of SOURCE deletes what TARGET still needs.
    """
    snapshot = open_snapshot(source, storage_options, version, timestamp)
    result = ddl.shallow_clone(snapshot, target, storage_options=storage_options)
    num_files = result.metrics["sourceNumOfFiles"]
    if as_json:
        show_json(
            {
                "source": snapshot.uri,
                "source_version": snapshot.version,
                "target": target,
                "version": result.version,
                "num_files": num_files,
            }
        )
    else:
        say(f"{target} has {count_text(num_files, 'file')} of version {snapshot.version}.")


@click.command("manifest")
@table_argument
@json_option
def manifest_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Write the lists of the latest version's files, for engines that read such lists."""
    log = open_table(table, storage_options)
    result = ddl.generate_manifest(log)
    if as_json:
        show_json({"table": log.uri, **asdict(result)})
    else:
        say(
            f"Version {result.version}: {count_text(result.num_files, 'file')} in "
            f"{count_text(result.written, 'list')}."
        )
