"""The commands that look at a table: `show`, `history`, `files`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import click

from delta_ops.cli.options import (
    json_option,
    open_snapshot,
    open_table,
    table_argument,
    version_options,
    where_option,
)
from delta_ops.cli.render import (
    is_terminal,
    make_printable,
    moment_text,
    show_columns,
    show_fields,
    show_json,
    show_rows,
)
from delta_ops.log import HistoryEntry, plan_scan
from delta_ops.log.commit_metrics import files_text, rows_text
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.units import size_text

_RUN = "dagster/run_id"
_RUN_DIGITS = 8
"""Number of digits of a run's id, as on Dagster's own pages."""


@click.command("show")
@table_argument
@version_options
@json_option
def show_command(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
    as_json: bool,
) -> None:
    """Show version, schema, protocol, properties and size."""
    snapshot = open_snapshot(table, storage_options, version, timestamp, ref)
    protocol = snapshot.protocol
    values = {
        "table": snapshot.uri,
        "id": snapshot.metadata.id,
        "name": snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "version": snapshot.version,
        "num_files": snapshot.num_files,
        "size_bytes": snapshot.size_bytes,
        "partition_columns": list(snapshot.partition_columns),
        "protocol": {
            "min_reader_version": protocol.min_reader_version,
            "min_writer_version": protocol.min_writer_version,
            "reader_features": _list_or_none(protocol.reader_features),
            "writer_features": _list_or_none(protocol.writer_features),
        },
        "properties": dict(snapshot.metadata.configuration),
        "num_transactions": len(snapshot.transactions()),
        "checkpoint_version": snapshot.checkpoint.version if snapshot.checkpoint else None,
        "schema": json.loads(snapshot.metadata.schema_string),
    }
    if as_json:
        show_json(values)
        return
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    checkpoint = snapshot.checkpoint
    shown = {
        "table": snapshot.uri,
        "name": snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "version": snapshot.version,
        "files": f"{snapshot.num_files:,}",
        "size": size_text(snapshot.size_bytes),
        "partitioned by": ", ".join(snapshot.partition_columns),
        "last checkpoint": None if checkpoint is None else f"version {checkpoint.version}",
        "transactions": len(snapshot.transactions()) or None,
        "protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
        "features": ", ".join(features),
    }
    show_fields({name: value for name, value in shown.items() if value not in (None, "")})
    if snapshot.metadata.configuration:
        click.echo("properties")
        properties = sorted(snapshot.metadata.configuration.items())
        show_fields({make_printable(name): value for name, value in properties}, indent="  ")
    click.echo()
    show_columns(snapshot)


@click.command("history")
@table_argument
@click.option(
    "--limit", "-n", type=click.IntRange(min=1), help="Show only this many of the newest versions."
)
@json_option
def history_command(
    table: str, storage_options: dict[str, Any], limit: int | None, as_json: bool
) -> None:
    """List versions and their operations, newest first."""
    entries = open_table(table, storage_options).history(limit)
    if as_json:
        for entry in entries:
            show_json(
                {
                    "version": entry.version,
                    "timestamp": utc_text(entry.timestamp_ms),
                    "operation": entry.operation,
                    "operation_parameters": entry.operation_parameters,
                    "operation_metrics": entry.operation_metrics,
                    "engine_info": entry.engine_info,
                    "user_metadata": entry.user_metadata,
                }
            )
        return
    columns = ("version", "time", "operation", "rows", "files", "by")
    show_rows(columns, map(_history_row, entries), whole=("time", "rows", "files", "by"))


@click.command("files")
@table_argument
@version_options
@where_option
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Show at most this many files.")
@json_option
def files_command(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
    where: Predicate | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List live files by path; with --where, only files that may have matching rows."""
    snapshot = open_snapshot(table, storage_options, version, timestamp, ref)
    names = ("path", "size", "num_records", "modification_time", "partition_values")
    found = plan_scan(snapshot, where, columns=names).files().sort_by("path")
    rows = list(islice(found.to_pylist(), limit))
    if as_json:
        for row in rows:
            ms = row["modification_time"]
            show_json({**row, "modification_time": None if ms is None else utc_text(ms)})
        return
    columns = ("path", "size", "rows", "modified", "partition")
    # The directory of a file usually has the partition's values already.
    is_in_path = is_terminal() and all(_has_partition_in_path(row) for row in rows)
    show_rows(
        columns[:-1] if is_in_path else columns,
        (values[:-1] if is_in_path else values for values in map(_file_row, rows)),
        whole=("size", "rows", "modified"),
        cut=("path", "partition"),
    )


def _file_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        row["path"],
        size_text(row["size"]),
        "" if row["num_records"] is None else f"{row['num_records']:,}",
        moment_text(row["modification_time"]) if row["modification_time"] is not None else "",
        ", ".join(f"{name}={value}" for name, value in row["partition_values"].items()),
    )


def _has_partition_in_path(row: Mapping[str, Any]) -> bool:
    """Whether a person reads the partition's values in the path of a file."""
    values = row["partition_values"]
    folder = "".join(f"{name}={value}/" for name, value in values.items())
    return bool(row["path"].startswith(folder))


def _history_row(entry: HistoryEntry) -> tuple[Any, ...]:
    mode = entry.operation_parameters.get("mode")
    return (
        entry.version,
        moment_text(entry.timestamp_ms),
        f"{entry.operation or ''} {mode or ''}".strip(),
        rows_text(entry.operation, entry.operation_metrics),
        files_text(entry.operation_metrics),
        _writer_text(entry),
    )


def _writer_text(entry: HistoryEntry) -> str:
    """The Dagster run that committed, or else the engine."""
    try:
        values = json.loads(entry.user_metadata or "")
    except ValueError:
        values = None
    run = values.get(_RUN) if isinstance(values, dict) else None
    # The engine's name comes first, then its platform.
    return f"run {str(run)[:_RUN_DIGITS]}" if run else (entry.engine_info or "").partition(" ")[0]


def _list_or_none(features: tuple[str, ...] | None) -> list[str] | None:
    return None if features is None else list(features)
