"""The commands for whole tables: `convert`, `clone`, `drop` and `manifest`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

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
from delta_ops.ddl.drop import confirmation_of
from delta_ops.units import count_text, size_text


@click.command("convert")
@table_argument
@click.option(
    "partitions",
    "--partition",
    multiple=True,
    metavar="NAME[=TYPE]",
    help=(
        "A partition column in the order of the directories, with its Spark SQL type; may be "
        "repeated. If not given, columns are long, date or string by their values."
    ),
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
    """Convert a directory of Parquet files to a table, in place."""
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
        say("The table already exists; nothing to do.")
    else:
        verb = "Would make" if dry_run else f"Version {result.version} creates"
        say(f"{verb} a table of {count_text(num_files, 'file')}.")


def _partition_types(texts: tuple[str, ...]) -> dict[str, str] | list[str] | None:
    if not texts:
        return None
    pairs = [text.partition("=") for text in texts]
    types = {name: data_type for name, _, data_type in pairs if data_type}
    if types and len(types) < len(pairs):
        raise click.UsageError("give the types of all partition columns, or of none")
    return types or [name for name, _, _ in pairs]


@click.command("drop")
@table_argument
@click.option(
    "--yes-delete",
    "name",
    metavar="NAME",
    help="The last part of the table's path, as confirmation; not needed with --dry-run.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue a drop that was killed or failed. Its process must have ended.",
)
@dry_run_option
@json_option
def drop_command(
    table: str,
    storage_options: dict[str, Any],
    name: str | None,
    resume: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete a table with all files under its root."""
    log = open_table(table, storage_options)
    confirmation = confirmation_of(log)
    if name is None and not dry_run:
        raise click.UsageError(f"confirm with --yes-delete {confirmation}, or look with --dry-run")
    name = confirmation if name is None else name
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
    ref: str | None,
    as_json: bool,
) -> None:
    """Create TARGET as a table of the files of SOURCE, without copying them.

    The files stay where they are: a vacuum of SOURCE deletes what TARGET still needs.
    """
    snapshot = open_snapshot(source, storage_options, version, timestamp, ref)
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
    """Write manifests of the latest version, for engines that read them."""
    log = open_table(table, storage_options)
    result = ddl.generate_manifest(log)
    if as_json:
        show_json({"table": log.uri, **asdict(result)})
    else:
        say(
            f"Version {result.version}: {count_text(result.num_files, 'file')} in "
            f"{count_text(result.written, 'list')}."
        )
