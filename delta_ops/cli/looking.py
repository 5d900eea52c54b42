"""The commands that look at a table: `show`, `history`, `files`."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from delta_ops.cli.options import (
    json_option,
    open_table,
    table_argument,
    where_option,
)
from delta_ops.cli.render import show_fields, show_json, show_rows, size_text
from delta_ops.planning.scan import plan_columnar_scan
from delta_ops.protocol.far_times import utc_text
from delta_ops.protocol.predicate import Predicate


@click.command()
@table_argument
@json_option
def show(table: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """What the table is: version, schema, protocol, properties, size."""
    snapshot = open_table(table, storage_options).snapshot()
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
    columns = [(field.name, field.type, field.nullable) for field in snapshot.arrow_schema]
    del values["schema"]
    show_fields({**values, "size_bytes": size_text(snapshot.size_bytes)})
    click.echo()
    show_rows(("column", "type", "nullable"), columns)


@click.command()
@table_argument
@click.option("--limit", type=click.IntRange(min=1), help="The newest versions only.")
@json_option
def history(table: str, storage_options: dict[str, Any], limit: int | None, as_json: bool) -> None:
    """What each version did, newest first."""
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
    rows = (
        (e.version, utc_text(e.timestamp_ms), e.operation, e.operation_parameters, e.engine_info)
        for e in entries
    )
    show_rows(("version", "timestamp", "operation", "parameters", "engine"), rows)


@click.command()
@table_argument
@where_option
@click.option("--limit", type=click.IntRange(min=1), help="So many files at most.")
@json_option
def files(
    table: str,
    storage_options: dict[str, Any],
    where: Predicate | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """The live files, ordered by path; with --where those that may hold such rows."""
    snapshot = open_table(table, storage_options).snapshot()
    names = ("path", "size", "num_records", "modification_time", "partition_values")
    found = plan_columnar_scan(snapshot, names, where).sort_by("path")
    rows = [
        {**row, "modification_time": utc_text(row["modification_time"])}
        for row in islice(found.to_pylist(), limit)
    ]
    if as_json:
        for row in rows:
            show_json(row)
        return
    show_rows(names, ([row[name] for name in names] for row in rows))


def _list_or_none(features: tuple[str, ...] | None) -> list[str] | None:
    return None if features is None else list(features)
