"""The command `index`: inverted indexes of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from delta_ops.cli.options import (
    dry_run_option,
    index_budget_option,
    json_option,
    open_table,
    storage_options_option,
)
from delta_ops.cli.render import Group, progress, say, show_json, show_rows
from delta_ops.maintenance import (
    IndexInfo,
    IndexRefresh,
    create_index,
    drop_index,
    list_indexes,
    refresh_index,
)
from delta_ops.units import count_text, size_text


@click.group("index", cls=Group)
@click.argument("table")
@click.pass_context
def index_command(context: click.Context, table: str) -> None:
    """Find the files that hold a value, by inverted indexes: index TABLE COMMAND."""
    context.obj = table


@index_command.command("create")
@click.argument("name")
@click.argument("column")
@index_budget_option
@storage_options_option
@dry_run_option
@json_option
@click.pass_obj
def create_index_command(
    table: str,
    storage_options: dict[str, Any],
    name: str,
    column: str,
    budget: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Create an index on a column, or on a field of a struct such as address.city."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = create_index(
            log, name, column, max_bytes=budget, dry_run=dry_run, on_event=on_event
        )
    _show_refresh(log.uri, result, as_json=as_json)


@index_command.command("refresh")
@click.argument("name")
@index_budget_option
@click.option("--verify", is_flag=True, help="Read the whole index, and replace damaged parts.")
@storage_options_option
@dry_run_option
@json_option
@click.pass_obj
def refresh_index_command(
    table: str,
    storage_options: dict[str, Any],
    name: str,
    budget: int | None,
    verify: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Index the files that were added since the last refresh."""
    log = open_table(table, storage_options)
    with progress(wanted=not as_json) as on_event:
        result = refresh_index(
            log, name, max_bytes=budget, verify=verify, dry_run=dry_run, on_event=on_event
        )
    _show_refresh(log.uri, result, as_json=as_json)


@index_command.command("show")
@storage_options_option
@json_option
@click.pass_obj
def show_indexes_command(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the indexes of a table: what they cover, and how selective they are."""
    log = open_table(table, storage_options)
    indexes = list_indexes(log)
    if as_json:
        show_json({"table": log.uri, "indexes": [index_json(each) for each in indexes]})
        return
    if not indexes:
        say("The table has no indexes.")
        return
    columns = ("index", "column", "files covered", "files per value", "runs", "size")
    show_rows(columns, map(_row, indexes), whole=("index", "column"))
    for each in indexes:
        for problem in each.problems:
            say(problem)


@index_command.command("drop")
@click.argument("name")
@storage_options_option
@dry_run_option
@json_option
@click.pass_obj
def drop_index_command(
    table: str, storage_options: dict[str, Any], name: str, dry_run: bool, as_json: bool
) -> None:
    """Drop an index with all its files."""
    log = open_table(table, storage_options)
    num_files = drop_index(log, name, dry_run=dry_run)
    if as_json:
        show_json({"table": log.uri, "dry_run": dry_run, "name": name, "num_files": num_files})
    else:
        verb = "Would drop" if dry_run else "Dropped"
        say(f"{verb} index {name}, {count_text(num_files, 'file')}.")


def index_json(index: IndexInfo) -> dict[str, Any]:
    """The index as JSON."""
    return {
        **asdict(index),
        "problems": list(index.problems),
        "coverage": index.coverage,
        "selectivity": index.selectivity,
    }


def _row(index: IndexInfo) -> tuple[str, ...]:
    per_value = index.files_per_value
    return (
        index.name,
        index.column or "",
        f"{index.covered_files:,} of {index.num_files:,}",
        "" if per_value is None else f"{per_value:,.3g}",
        f"{index.num_runs:,}",
        size_text(index.size_bytes),
    )


def _show_refresh(table: str, result: IndexRefresh, *, as_json: bool) -> None:
    if as_json:
        show_json({"table": table, **asdict(result), "problems": list(result.problems)})
        return
    if result.dry_run:
        files = count_text(result.planned_files, "file")
        say(f"Would index {files}, {size_text(result.planned_bytes)}.")
    else:
        files = count_text(result.indexed_files, "file")
        say(f"Indexed {files}, {result.added_entries:,} entries.")
    if result.left_files:
        say(f"{count_text(result.left_files, 'file')} wait for the next refresh.")
    for each in result.problems:
        say(each)
