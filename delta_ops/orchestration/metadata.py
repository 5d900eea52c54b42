"""What Dagster shows of a table: metadata of materializations, observations and inputs.

Whole numbers become plots; the `dagster/` names are those that the UI knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from delta_ops.log import Snapshot
from delta_ops.protocol.schema import StructField
from delta_ops.transaction import CommitResult


def data_version(snapshot: Snapshot, version: int | None = None) -> str:
    """A table's version as Dagster's data version: which table, and which state of it.

    Args:
        version: One of the same table; None: the snapshot has it.
    """
    return f"{snapshot.metadata.id[:8]}@{snapshot.version if version is None else version}"


def table_version(data_version: str | None, snapshot: Snapshot) -> int | None:
    """The version that a data version names, if it is of this table."""
    prefix = f"{snapshot.metadata.id[:8]}@"
    if data_version is None or not data_version.startswith(prefix):
        return None
    number = data_version.removeprefix(prefix)
    return int(number) if number.isdecimal() else None


def table_metadata(snapshot: Snapshot) -> dict[str, Any]:
    """The table as it stands at a version."""
    return {
        "dagster/uri": dg.MetadataValue.text(snapshot.uri),
        "dagster/size_bytes": snapshot.size_bytes,
        "dagster/column_schema": column_schema(snapshot),
        "delta/version": snapshot.version,
        "delta/num_files": snapshot.num_files,
        "delta/commits_since_checkpoint": snapshot.commits_since_checkpoint,
    }


def commit_metadata(results: Sequence[CommitResult]) -> dict[str, Any]:
    """What the commits of one materialization did; several where its parts have identities."""
    written = [result for result in results if not result.already_committed]
    return {
        "delta/commits": len(written),
        "delta/already_committed": len(results) - len(written),
        "delta/adopted": bool(results) and not written,
        "delta/commit_attempts": sum(result.attempts for result in written),
        "delta/rows_written": sum(r.metrics.get("numOutputRows", 0) for r in written),
        "delta/files_written": sum(r.metrics.get("numFiles", 0) for r in written),
        "delta/failed_hooks": [hook for result in written for hook in result.failed_hooks],
    }


def column_schema(snapshot: Snapshot) -> dg.TableSchema:
    """The table's columns as Dagster shows them."""
    return dg.TableSchema(
        columns=[_column(field, snapshot.partition_columns) for field in snapshot.schema.fields]
    )


def _column(field: StructField, partition_columns: tuple[str, ...]) -> dg.TableColumn:
    return dg.TableColumn(
        name=field.name,
        type=_type_text(field),
        constraints=dg.TableColumnConstraints(nullable=field.nullable),
        tags={"partition": ""} if field.name in partition_columns else {},
    )


def _type_text(field: StructField) -> str:
    from delta_ops.protocol.arrow_types import arrow_type_from_type

    return str(arrow_type_from_type(field.data_type))
