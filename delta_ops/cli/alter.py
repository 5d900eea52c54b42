"""The command `alter`: changes columns, constraints and features of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from delta_ops import ddl
from delta_ops.cli.options import (
    dry_run_option,
    json_option,
    open_table,
    storage_options_option,
)
from delta_ops.cli.render import Group, say, show_json
from delta_ops.log import DeltaLog
from delta_ops.transaction import CommitResult

F = TypeVar("F", bound=Callable[..., Any])


@click.group("alter", cls=Group)
@click.argument("table")
@click.pass_context
def alter_command(context: click.Context, table: str) -> None:
    """Change columns, constraints and features: alter TABLE COMMAND.

    No file is rewritten. Without a change there is no commit.
    """
    context.obj = table


def _change_command(name: str) -> Callable[[F], click.Command]:
    """Register a command of `alter`: its function takes the table and returns the commit."""

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
        say("The change is possible; nothing was changed.")
    elif result.version is None:
        say("The table is already like this; nothing to do.")
    else:
        say(f"Version {result.version} has the change.")


@_change_command("add-column")
@click.argument("column")
@click.argument("data_type", metavar="TYPE")
@click.option("--first", is_flag=True, help="Put the column first.")
@click.option("--after", metavar="COLUMN", help="Put the column after this column.")
@click.option("--comment", metavar="TEXT", help="A comment that describes the column.")
def add_column(
    log: DeltaLog,
    column: str,
    data_type: str,
    first: bool,
    after: str | None,
    comment: str | None,
    dry_run: bool,
) -> CommitResult:
    """Add a column with nulls in existing rows; a.b is a field of the struct a."""
    new = ddl.NewColumn(name=column, data_type=data_type, comment=comment, first=first, after=after)
    return ddl.add_columns(log, [new], dry_run=dry_run)


@_change_command("drop-column")
@click.argument("columns", nargs=-1, required=True)
def drop_column(log: DeltaLog, columns: tuple[str, ...], dry_run: bool) -> CommitResult:
    """Drop columns of a table with column mapping."""
    return ddl.drop_columns(log, columns, dry_run=dry_run)


@_change_command("rename-column")
@click.argument("column")
@click.argument("name")
def rename_column(log: DeltaLog, column: str, name: str, dry_run: bool) -> CommitResult:
    """Rename a column of a table with column mapping."""
    return ddl.rename_column(log, column, name, dry_run=dry_run)


@_change_command("reorder-columns")
@click.argument("columns", nargs=-1, required=True)
@click.option("--struct", metavar="COLUMN", help="Apply to the fields of this struct.")
def reorder_columns(
    log: DeltaLog, columns: tuple[str, ...], struct: str | None, dry_run: bool
) -> CommitResult:
    """Move columns to the front, in this order; the others keep their order."""
    return ddl.reorder_columns(log, columns, struct=struct, dry_run=dry_run)


@_change_command("comment")
@click.argument("text")
@click.option("--column", metavar="COLUMN", help="Apply to this column; to the table if not given.")
def comment(log: DeltaLog, text: str, column: str | None, dry_run: bool) -> CommitResult:
    """Set the comment of a column or the table; an empty TEXT removes it."""
    if column is None:
        return ddl.set_table_comment(log, text or None, dry_run=dry_run)
    return ddl.set_comment(log, column, text or None, dry_run=dry_run)


@_change_command("default")
@click.argument("column")
@click.argument("default", metavar="SQL", required=False)
def default(log: DeltaLog, column: str, default: str | None, dry_run: bool) -> CommitResult:
    """Set the default of a column for new rows; without SQL, remove the default."""
    return ddl.set_default(log, column, default, dry_run=dry_run)


@_change_command("type")
@click.argument("column")
@click.argument("data_type", metavar="TYPE")
def change_type(log: DeltaLog, column: str, data_type: str, dry_run: bool) -> CommitResult:
    """Widen the type of a column, in a table with type widening."""
    return ddl.change_type(log, column, data_type, dry_run=dry_run)


@_change_command("cluster-by")
@click.argument("columns", nargs=-1)
def cluster_by(log: DeltaLog, columns: tuple[str, ...], dry_run: bool) -> CommitResult:
    """Set the clustering columns; without columns, stop clustering."""
    return ddl.cluster_by(log, columns, dry_run=dry_run)


@_change_command("rename")
@click.argument("name")
def rename(log: DeltaLog, name: str, dry_run: bool) -> CommitResult:
    """Change the table's name in its metadata; its path stays."""
    return ddl.rename_table(log, name or None, dry_run=dry_run)


@_change_command("set-not-null")
@click.argument("column")
def set_not_null(log: DeltaLog, column: str, dry_run: bool) -> CommitResult:
    """Set a column to NOT NULL, if no row has a null in it."""
    return ddl.set_not_null(log, column, dry_run=dry_run)


@_change_command("drop-not-null")
@click.argument("column")
def drop_not_null(log: DeltaLog, column: str, dry_run: bool) -> CommitResult:
    """Allow nulls in a column."""
    return ddl.drop_not_null(log, column, dry_run=dry_run)


@_change_command("add-constraint")
@click.argument("name")
@click.argument("condition")
def add_constraint(log: DeltaLog, name: str, condition: str, dry_run: bool) -> CommitResult:
    """Add a CHECK constraint, if all rows satisfy it."""
    return ddl.add_constraint(log, name, condition, dry_run=dry_run)


@_change_command("drop-constraint")
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is none.")
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
    help="First write a checkpoint and clean up the log, as far as its retention allows.",
)
def drop_feature(log: DeltaLog, name: str, truncate_history: bool, dry_run: bool) -> CommitResult:
    """Drop a feature that the table no longer uses."""
    return ddl.drop_feature(log, name, truncate_history, dry_run=dry_run)
