"""The commands that read a table's rows: `head`, `count`, `plan`, `schema`, `changes`, `diff`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

import delta_ops.arrow as da
from delta_ops.cli.json_values import rows
from delta_ops.cli.options import (
    json_option,
    open_snapshot,
    open_table,
    table_argument,
    version_options,
    where_option,
)
from delta_ops.cli.render import say, show_columns, show_fields, show_json, show_records, show_rows
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.planning.row_difference import CHANGE
from delta_ops.protocol.predicate import Predicate
from delta_ops.units import count_text, size_text


def _split_columns(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> list[str] | None:
    """Names separated by commas outside of backticks; None means all columns."""
    names = [name.strip() for text in texts for name in _COLUMN.findall(text)]
    if texts and not any(names):
        raise click.BadParameter("give the name of a column")
    return [name for name in names if name] or None


_COLUMN = re.compile(r"(?:`(?:[^`]|``)*`|[^,])+")
_columns_option = click.option(
    "columns",
    "--columns",
    "--column",
    multiple=True,
    metavar="NAMES",
    callback=_split_columns,
    help="Only these columns, separated by commas. a.b is the field b of the struct a.",
)
_limit_option = click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many rows to show.",
)


@click.command("head")
@table_argument
@version_options
@_columns_option
@where_option
@_limit_option
@json_option
def head_command(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
    columns: list[str] | None,
    where: Predicate | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show some rows, in no particular order."""
    snapshot = open_snapshot(table, storage_options, version, timestamp, ref)
    names = columns or [field.name for field in snapshot.schema.fields]
    _show(da.to_batches(snapshot, columns, where), limit, as_json, names)


@click.command("count")
@table_argument
@version_options
@where_option
@json_option
def count_command(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
    where: Predicate | None,
    as_json: bool,
) -> None:
    """Count rows."""
    snapshot = open_snapshot(table, storage_options, version, timestamp, ref)
    num_rows = da.count_rows(snapshot, where)
    if as_json:
        show_json({"table": snapshot.uri, "version": snapshot.version, "num_rows": num_rows})
    else:
        click.echo(num_rows)


@click.command("schema")
@table_argument
@version_options
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an empty Parquet file with these columns to this new file.",
)
@click.option("--arrow", is_flag=True, help="Show Arrow's types instead of the types of SQL.")
@json_option
def schema_command(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
    export: Path | None,
    arrow: bool,
    as_json: bool,
) -> None:
    """Show the columns with their types; with --json, the schema as in the log."""
    snapshot = open_snapshot(table, storage_options, version, timestamp, ref)
    if export is not None:
        da.export_schema(snapshot, export)
    if as_json:
        show_json(json.loads(snapshot.metadata.schema_string))
        return
    show_columns(snapshot, arrow=arrow)
    if export is not None:
        say(f"Wrote these columns to {export}.")


@click.command("changes")
@table_argument
@click.option(
    "start_version",
    "--from-version",
    type=click.IntRange(min=0),
    help="The first commit to read.",
)
@click.option(
    "end_version", "--to-version", type=click.IntRange(min=0), help="The last commit to read."
)
@click.option(
    "start_timestamp",
    "--from-timestamp",
    metavar="TIME",
    help="The first commit at or after this time.",
)
@click.option(
    "end_timestamp",
    "--to-timestamp",
    metavar="TIME",
    help="The last commit at or before this time.",
)
@click.option(
    "--schema",
    type=click.Choice(["end", "latest"]),
    default="end",
    show_default=True,
    help="Use the columns of the last version to read, or of the table's latest version.",
)
@_columns_option
@where_option
@_limit_option
@json_option
def changes_command(
    table: str,
    storage_options: dict[str, Any],
    columns: list[str] | None,
    where: Predicate | None,
    limit: int,
    as_json: bool,
    **bounds: Any,
) -> None:
    """Show inserted, deleted and updated rows of a table with a change data feed."""
    if (bounds["start_version"] is None) == (bounds["start_timestamp"] is None):
        raise click.UsageError("give --from-version or --from-timestamp, one of the two")
    if bounds["end_version"] is not None and bounds["end_timestamp"] is not None:
        raise click.UsageError("give --to-version or --to-timestamp, not both")
    found = da.read_changes(
        open_table(table, storage_options), columns=columns, predicate=where, **bounds
    )
    _show(found, limit, as_json, found.schema.names)


@click.command("diff")
@table_argument
@click.argument("old")
@click.argument("new", required=False)
@click.option("only_count", "--count", is_flag=True, help="Show only the number of rows.")
@_columns_option
@_limit_option
@json_option
def diff_command(
    table: str,
    storage_options: dict[str, Any],
    old: str,
    new: str | None,
    only_count: bool,
    columns: list[str] | None,
    limit: int,
    as_json: bool,
) -> None:
    """Compare the rows of two versions, tags or branches.

    OLD and NEW are versions, or refs such as tag:2026-11 and branch:audit. NEW is the latest
    version if not given.
    """
    log = open_table(table, storage_options)
    before, after = _open_side(log, old), _open_side(log, new)
    found = da.diff_rows(before, after, columns)
    if not only_count:
        _show(found.to_batches(), limit, as_json, found.schema.names)
        return
    kinds = found[CHANGE].to_pylist()
    deleted, inserted = kinds.count("delete"), kinds.count("insert")
    if as_json:
        fields = {"old_version": before.version, "new_version": after.version}
        show_json({"table": log.uri, **fields, "deleted_rows": deleted, "inserted_rows": inserted})
    else:
        say(f"{count_text(deleted, 'row')} only in {old}, {inserted:,} only in {new or 'latest'}.")


def _open_side(log: DeltaLog, text: str | None) -> Snapshot:
    """A version or a ref that the command names; the latest version if None."""
    if text is not None and not text.isdecimal():
        return log.snapshot(ref=text)
    return log.snapshot(None if text is None else int(text))


def _show(
    batches: Iterable[pa.RecordBatch], limit: int, as_json: bool, columns: Sequence[str]
) -> None:
    """Show the first rows; without rows, the columns."""
    found = islice(chain.from_iterable(map(rows, batches)), limit)
    if as_json:
        for row in found:
            show_json(row)
        return
    shown = list(found)
    names = list(shown[0] if shown else columns)
    if shown and not names:
        say(f"{count_text(len(shown), 'row')} without columns")
        return
    show_records(names, [[row[name] for name in names] for row in shown])


@click.command("plan")
@table_argument
@version_options
@where_option
@json_option
def plan_command(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
    where: Predicate | None,
    as_json: bool,
) -> None:
    """Show how many files a read opens, and which step leaves out the others."""
    snapshot = open_snapshot(table, storage_options, version, timestamp, ref)
    plan = da.explain_scan(snapshot, where)
    num_live, live_bytes = plan.steps[0].num_files, plan.steps[0].size_bytes or 0
    values = {
        "table": snapshot.uri,
        "version": snapshot.version,
        "condition": plan.condition,
        "num_files": len(plan),
        "size_bytes": plan.size_bytes,
        "max_rows": plan.max_rows,
        "num_deletion_vectors": plan.num_deletion_vectors,
    }
    if as_json:
        notes = [*plan.notes(), *plan.problems]
        show_json({**values, "steps": [*map(asdict, plan.steps)], "notes": notes})
        return
    shown = {
        "table": snapshot.uri,
        "version": snapshot.version,
        "condition": plan.condition,
        "files": f"{len(plan):,} of {num_live:,}",
        "size": f"{size_text(plan.size_bytes or 0)} of {size_text(live_bytes)}",
        "rows": "unknown" if plan.max_rows is None else f"at most {plan.max_rows:,}",
        "deletion vectors": f"{plan.num_deletion_vectors:,}" if plan.num_deletion_vectors else None,
    }
    show_fields({name: value for name, value in shown.items() if value is not None})
    click.echo()
    show_rows(("step", "files", "size"), plan.rows(), whole=("files", "size"))
    for note in (*plan.notes(), *plan.problems):
        say(note)
