"""What Dagster shows of a table: metadata of definitions, materializations and observations.

Whole numbers become plots; the `dagster/` names are those that the UI knows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import DeltaOpsError
from delta_ops.log import Snapshot
from delta_ops.protocol.file_paths import place_of
from delta_ops.protocol.row_rules import (
    GENERATION_EXPRESSION,
    Check,
    Generated,
    Identity,
    Invariant,
    MaxLength,
    NotNull,
)
from delta_ops.protocol.schema import StructField
from delta_ops.protocol.schema.char_types import SQL_TYPE
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import redact, split_uri
from delta_ops.transaction import CommitResult

STORAGE_KIND = "deltalake"
_MAX_COUNTED_FILES = 50_000
"""Live files up to which the rows of a table are counted: the statistics of each are read."""
_COLUMN_ID = "delta.columnMapping.id"
_SAID_OF_COLUMNS = {
    GENERATION_EXPRESSION: "generated as",
    "CURRENT_DEFAULT": "default",
    SQL_TYPE: "declared as",
}
"""Metadata of a field, and how its value is introduced."""
_INSERTED, _UPDATED = "numTargetRowsInserted", "numTargetRowsUpdated"
_MERGE_FIGURES = {
    "delta/rows_inserted": _INSERTED,
    "delta/rows_updated": _UPDATED,
    "delta/rows_deleted": "numTargetRowsDeleted",
}
"""What is told of merges, and the metric of their commits."""
_ColumnRule = NotNull | Invariant | Generated | Identity | MaxLength


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


def definition_metadata(uri: str) -> dict[str, Any]:
    """What a definition says of its table: where it is, its name, the kind of its storage."""
    return {
        "dagster/uri": dg.MetadataValue.text(redact(uri)),
        "dagster/table_name": table_name(uri),
        "dagster/storage_kind": STORAGE_KIND,
    }


def table_name(uri: str) -> str:
    """A table's name by its place: bucket or container, then folders, joined by dots.

    Two addresses of one table have one name (`s3://b/lake/orders` and `s3a://b/lake/orders/`). A
    part that has a dot itself stands in backquotes.

    Raises:
        InvalidRequestError: The address could mean two places.
    """
    local = local_path_of(uri)
    _, place = split_uri(place_of(redact(uri))) if local is None else ("", local)
    authority, slash, path = place.partition("/")
    parts = [authority.partition("@")[0], *re.split(r"[/\\]+", path)] if slash else [place]
    return ".".join(f"`{part}`" if "." in part else part for part in parts if part)


def table_metadata(snapshot: Snapshot) -> dict[str, Any]:
    """The table as it stands at a version."""
    rows = row_count(snapshot)
    return {
        **definition_metadata(snapshot.uri),
        "dagster/size_bytes": snapshot.size_bytes,
        **({} if rows is None else {"dagster/row_count": rows}),
        "dagster/column_schema": column_schema(snapshot),
        "delta/version": snapshot.version,
        "delta/num_files": snapshot.num_files,
        "delta/commits_since_checkpoint": snapshot.commits_since_checkpoint,
    }


def row_count(snapshot: Snapshot) -> int | None:
    """How many rows the table has, by its log; None where a file does not tell, or where the files
    are too many to be asked.
    """
    if snapshot.num_files > _MAX_COUNTED_FILES:
        return None
    counts = [rows_by_statistics(t) for t in snapshot.stream_live(["stats", "deletionVector"])]
    return None if None in counts else sum(count for count in counts if count is not None)


def rows_by_statistics(adds: pa.Table) -> int | None:
    """How many rows files have by their statistics; None where one of them does not tell.

    Args:
        adds: With the columns `stats` and `deletionVector` of `arrow_schemas.ADD`.
    """
    known = [num_records(text) for text in adds["stats"].to_pylist()]
    if None in known:
        return None
    deleted: int = pc.sum(pc.struct_field(adds["deletionVector"], "cardinality")).as_py() or 0
    return sum(number for number in known if number is not None) - deleted


def commit_metadata(results: Sequence[CommitResult]) -> dict[str, Any]:
    """What the commits of one materialization did; several where its parts have identities."""
    written = [result for result in results if not result.already_committed]
    failed = [hook for result in written for hook in result.failed_hooks]
    merged = [result.metrics for result in written if _INSERTED in result.metrics]
    return {
        "delta/commits": len(written),
        "delta/already_committed": len(results) - len(written),
        "delta/adopted": bool(results) and not written,
        "delta/commit_attempts": sum(result.attempts for result in written),
        "delta/rows_written": sum(rows_written(result.metrics) for result in written),
        "delta/files_written": sum(
            r.metrics.get("numFiles", r.metrics.get("numTargetFilesAdded", 0)) for r in written
        ),
        **({"delta/failed_hooks": failed} if failed else {}),
        **{
            name: sum(metrics.get(metric, 0) for metrics in merged)
            for name, metric in _MERGE_FIGURES.items()
            if merged
        },
    }


def rows_written(metrics: Mapping[str, Any]) -> int:
    """The rows that a commit has written, of a merge those that are new or changed.

    Args:
        metrics: The commit's `operationMetrics`, numbers or texts of such.
    """
    names = (_INSERTED, _UPDATED) if _INSERTED in metrics else ("numOutputRows",)
    numbers = [str(metrics.get(name, 0)) for name in names]
    return sum(int(number) for number in numbers if number.isdecimal())


def column_schema(snapshot: Snapshot) -> dg.TableSchema:
    """The table's columns as Dagster shows them: with comments, and what their rows must keep."""
    rules = defaultdict[str, list[_ColumnRule]](list)
    checks = []
    names = {field.name for field in snapshot.schema.fields}
    for rule in snapshot.definition.row_rules:
        if isinstance(rule, Check):
            checks.append(f"{rule.name}: {rule.expression}")
        else:
            rules[_column_of(rule, names)].append(rule)
    return dg.TableSchema(
        columns=[
            _column(field, rules[field.name], snapshot.partition_columns)
            for field in snapshot.schema.fields
        ],
        constraints=dg.TableConstraints(other=checks),
    )


def _column_of(rule: _ColumnRule, names: Collection[str]) -> str:
    """The column that a rule is about, or one of whose fields it is about."""
    name = rule.column
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name


def _column(
    field: StructField, rules: Sequence[_ColumnRule], partition_columns: tuple[str, ...]
) -> dg.TableColumn:
    comment = field.metadata.get("comment")
    return dg.TableColumn(
        name=field.name,
        type=_type_text(field),
        description=comment if isinstance(comment, str) and comment else None,
        constraints=dg.TableColumnConstraints(
            nullable=field.nullable, other=_constraints(field, rules)
        ),
        tags=_tags(field, rules, partition_columns),
    )


def _constraints(field: StructField, rules: Sequence[_ColumnRule]) -> list[str]:
    said = []
    for rule in rules:
        if isinstance(rule, Invariant):
            said.append(rule.expression or "an invariant that cannot be read")
        elif isinstance(rule, NotNull) and rule.column != field.name:
            said.append(f"{rule.column} is not null")
    for key, word in _SAID_OF_COLUMNS.items():
        if isinstance(text := field.metadata.get(key), str):
            said.append(f"{word} {text}")
    return said


def _tags(
    field: StructField, rules: Sequence[_ColumnRule], partition_columns: tuple[str, ...]
) -> Mapping[str, str]:
    claims = {
        "partition": field.name in partition_columns,
        "generated": GENERATION_EXPRESSION in field.metadata,
        "identity": any(isinstance(rule, Identity) for rule in rules),
    }
    mapped = {"column_id": str(field.metadata[_COLUMN_ID])} if _COLUMN_ID in field.metadata else {}
    return {**{name: "" for name, is_so in claims.items() if is_so}, **mapped}


def _type_text(field: StructField) -> str:
    from delta_ops.protocol.schema.arrow_types import arrow_type_from_type

    try:
        return str(arrow_type_from_type(field.data_type))
    except DeltaOpsError:  # a type that Arrow lacks
        return field.data_type.name
