"""Tables for tests: small, real, in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.schema import StructType, schema_from_json, schema_to_json
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Staged

SHARED = Path(__file__).resolve().parents[3] / "shared"
"""Tables by other writers and real records; present only beside the project."""

needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="../shared is absent")

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
)
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)


def metadata(**changes: Any) -> Metadata:
    """The metadata of a table of id and p."""
    return Metadata(**{"id": "0" * 36, "schema_string": SCHEMA, "created_time": 0, **changes})


def define(
    schema: StructType, partition_by: Sequence[str] = (), **configuration: str
) -> TableDefinition:
    """A table with properties; their names omit `delta.`."""
    return TableDefinition(
        protocol=Protocol(min_reader_version=2, min_writer_version=5),
        metadata=metadata(
            schema_string=schema_to_json(schema),
            partition_columns=tuple(partition_by),
            configuration={f"delta.{name}": value for name, value in configuration.items()},
        ),
    )


def add(path: str, **changes: Any) -> AddFile:
    """An add with this path."""
    values: dict[str, Any] = {"size": 1, "partition_values": {}, "modification_time": 0}
    return AddFile(path=path, **{**values, **changes})


def remove(path: str, **changes: Any) -> RemoveFile:
    """The remove of a path."""
    return RemoveFile(path=path, **{"deletion_timestamp": 1, **changes})


def stage_files(*adds: AddFile) -> Staged:
    """Files as an engine hands them to a transaction."""
    schema = schema_from_json(SCHEMA)
    return Staged(adds=adds, schema=schema, partition_columns=(), num_rows=len(adds))


def write_log(root: Path, commits: Iterable[Iterable[Action]]) -> DeltaLog:
    """A log of these commits; the first commit also gets protocol and metadata."""
    log = DeltaLog(root)
    for version, actions in enumerate(commits):
        first: list[Action] = [PROTOCOL, metadata()] if version == 0 else []
        create_commit(log.storage, log.log_directory, version, [*first, *actions])
    return log


def clean_up(log: DeltaLog, before: int = 1) -> None:
    """Delete the commits below a version, so that they cannot replace a damaged checkpoint."""
    for version in range(before):
        log.storage.delete(f"{log.log_directory}/{commit_name(version)}")


def live_paths(log: DeltaLog, version: int | None = None) -> set[str]:
    """Canonical paths of the live files."""
    return set(log.snapshot(version).files(["path"])["path"].to_pylist())


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows in a fixed order, to compare tables as sets of rows."""
    return sorted(table.to_pylist(), key=lambda row: [repr(row[name]) for name in sorted(row)])


def rows_by_deltalake(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    """The rows of a version, by default the latest, as the `deltalake` package reads them."""
    from deltalake import DeltaTable
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    # With deltalake's own file system, Arrow's threads sometimes abort the exiting process.
    files = SubTreeFileSystem(str(path), LocalFileSystem())
    return rows(DeltaTable(str(path), version).to_pyarrow_table(filesystem=files))


def rows_by_polars(path: Path) -> list[dict[str, Any]]:
    """The rows as polars reads them."""
    import polars as pl

    return rows(pl.read_delta(str(path)).to_arrow())


Row = Mapping[str, Any]


def destroy_files_without(root: Path, numbers: Sequence[int]) -> None:
    """Damage all data files that have none of these values of `id`, so that no read opens them."""
    for path in DeltaLog(root).snapshot().files(["path"])["path"].to_pylist():
        place = root / path
        if not {*numbers} & {*pq.read_table(place, columns=["id"])["id"].to_pylist()}:
            place.write_bytes(bytes(place.stat().st_size))
