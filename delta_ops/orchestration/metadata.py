"""Table metadata for Dagster: of definitions, materializations and observations.

Dagster plots whole numbers. The names that begin with `dagster/` have a meaning in the UI.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.orchestration.card.small_card import small_card
from delta_ops.orchestration.markdown import console_url, is_web_address
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
from delta_ops.protocol.schema.type_text import type_text
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.storage.paths import redact
from delta_ops.transaction import CommitResult

STORAGE_KIND = "deltalake"
BROWSE_KEY = "delta/browse"
"""Metadata key of the link to the console of the object store."""
_MAX_COUNTED_FILES = 50_000
"""The rows of tables with more live files are not counted, because each file's statistics count."""
_COLUMN_ID = "delta.columnMapping.id"
_COLUMN_WORDS = {
    GENERATION_EXPRESSION: "generated as",
    "CURRENT_DEFAULT": "default",
    SQL_TYPE: "declared as",
}
"""Keys of field metadata, and the words before their values in the UI."""
_INSERTED, _UPDATED = "numTargetRowsInserted", "numTargetRowsUpdated"
_MERGE_FIGURES = {
    "delta/rows_inserted": _INSERTED,
    "delta/rows_updated": _UPDATED,
    "delta/rows_deleted": "numTargetRowsDeleted",
}
"""Metadata of merges, and the commit metric of each."""
_ColumnRule = NotNull | Invariant | Generated | Identity | MaxLength


def data_version(
    snapshot: Snapshot, version: int | None = None, branch_id: str | None = None
) -> str:
    """The data version of a table for Dagster: the beginning of the table id, and the version.

    Args:
        version: A version of the same table; None: the snapshot's version.
        branch_id: The branch that the version belongs to. `table_version` finds no version of the
            table in the result.
    """
    branch = "" if branch_id is None else f"{branch_id[:8]}."
    return f"{snapshot.metadata.id[:8]}@{branch}{snapshot.version if version is None else version}"


def table_version(data_version: str | None, snapshot: Snapshot) -> int | None:
    """The table version in a data version; None if it belongs to another table."""
    prefix = f"{snapshot.metadata.id[:8]}@"
    if data_version is None or not data_version.startswith(prefix):
        return None
    number = data_version.removeprefix(prefix)
    return int(number) if number.isdecimal() else None


def definition_metadata(name: str, uri: str) -> dict[str, Any]:
    """Metadata of an asset's definition: location, table name and storage kind.

    Args:
        name: The asset key as text.
    """
    shown = redact(uri)
    console = console_url(shown)
    uri_value = dg.MetadataValue.url if is_web_address(shown) else dg.MetadataValue.text
    return {
        "dagster/uri": uri_value(shown),
        "dagster/table_name": name,
        "dagster/storage_kind": STORAGE_KIND,
        **({} if console is None else {BROWSE_KEY: dg.MetadataValue.url(console)}),
    }


def table_metadata(
    snapshot: Snapshot, name: str | None = None, *, is_placed: bool = False
) -> dict[str, Any]:
    """Metadata of a table at a version.

    Args:
        name: The asset key as text; None if there is no asset.
        is_placed: As for `small_card`.
    """
    rows = row_count(snapshot)
    return {
        "delta/card": dg.MetadataValue.md(small_card(snapshot, rows, is_placed=is_placed)),
        "dagster/uri": dg.MetadataValue.text(redact(snapshot.uri)),
        **({} if name is None else {"dagster/table_name": name}),
        "dagster/size_bytes": snapshot.size_bytes,
        **({} if rows is None else {"dagster/row_count": rows}),
        "dagster/column_schema": column_schema(snapshot),
        "delta/version": snapshot.version,
        "delta/num_files": snapshot.num_files,
        "delta/commits_since_checkpoint": snapshot.commits_since_checkpoint,
    }


def put_card_first(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata with the card of the table, if there is one, before all other keys."""
    card = {name: value for name, value in metadata.items() if name == "delta/card"}
    return {**card, **metadata}


def row_count(snapshot: Snapshot) -> int | None:
    """The number of rows by the log; None if a count is missing or there are too many files."""
    if snapshot.num_files > _MAX_COUNTED_FILES:
        return None
    counts = [rows_by_statistics(t) for t in snapshot.stream_live(["stats", "deletionVector"])]
    return None if None in counts else sum(count for count in counts if count is not None)


def rows_by_statistics(adds: pa.Table) -> int | None:
    """The number of live rows in files; None if a file has no row count in its statistics.

    Args:
        adds: Files with the columns `stats` and `deletionVector` of `arrow_schemas.ADD`.
    """
    known = [num_records(text) for text in adds["stats"].to_pylist()]
    if None in known:
        return None
    deleted: int = pc.sum(pc.struct_field(adds["deletionVector"], "cardinality")).as_py() or 0
    return sum(number for number in known if number is not None) - deleted


def commit_metadata(results: Sequence[CommitResult]) -> dict[str, Any]:
    """Metadata of the commits of one materialization, one for each part with its own txn.

    Keys about commits are present only if they are unusual: several commits, repeated attempts,
    work that was committed before, failed hooks.
    """
    written = [result for result in results if not result.already_committed]
    failed = [hook for result in written for hook in result.failed_hooks]
    merged = [result.metrics for result in written if _INSERTED in result.metrics]
    attempts = sum(result.attempts for result in written)
    unusual = {
        "delta/commits": len(written) if len(written) > 1 else None,
        "delta/already_committed": len(results) - len(written) or None,
        "delta/adopted": (bool(results) and not written) or None,
        "delta/commit_attempts": attempts if attempts > len(written) else None,
        "delta/failed_hooks": failed or None,
    }
    return {
        "delta/rows_written": sum(rows_written(result.metrics) for result in written),
        "delta/files_written": sum(
            r.metrics.get("numFiles", r.metrics.get("numTargetFilesAdded", 0)) for r in written
        ),
        **{name: value for name, value in unusual.items() if value is not None},
        **{
            name: sum(metrics.get(metric, 0) for metrics in merged)
            for name, metric in _MERGE_FIGURES.items()
            if merged
        },
    }


def rows_written(metrics: Mapping[str, Any]) -> int:
    """The number of rows that a commit wrote; for a merge, inserted and updated rows.

    Args:
        metrics: The commit's `operationMetrics`, as numbers or strings.
    """
    names = (_INSERTED, _UPDATED) if _INSERTED in metrics else ("numOutputRows",)
    numbers = [str(metrics.get(name, 0)) for name in names]
    return sum(int(number) for number in numbers if number.isdecimal())


def column_schema(snapshot: Snapshot) -> dg.TableSchema:
    """The table's columns for Dagster, with comments and constraints."""
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
    """The top-level column of a rule."""
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
        type=type_text(field.data_type),
        description=comment if isinstance(comment, str) and comment else None,
        constraints=dg.TableColumnConstraints(
            nullable=field.nullable, other=_constraints(field, rules)
        ),
        tags=_tags(field, rules, partition_columns),
    )


def _constraints(field: StructField, rules: Sequence[_ColumnRule]) -> list[str]:
    texts = []
    for rule in rules:
        if isinstance(rule, Invariant):
            texts.append(rule.expression or "an invariant that cannot be read")
        elif isinstance(rule, NotNull) and rule.column != field.name:
            texts.append(f"{rule.column} is not null")
    for key, word in _COLUMN_WORDS.items():
        if isinstance(text := field.metadata.get(key), str):
            texts.append(f"{word} {text}")
    return texts


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
