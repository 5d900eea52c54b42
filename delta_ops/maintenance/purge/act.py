"""Purge: rewrites files because of their content, not their size. No commit changes a row.

Rows that deletion vectors mark are physically gone once vacuum has deleted the old files. Files
without statistics get statistics. Files with an old schema, another compression or large row groups
are rewritten with the current settings of the table; footers show which files these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.engine import ARROW
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import DataFileError, InvalidRequestError, naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.data_footers import read_data_footer
from delta_ops.maintenance.optimize.plan import OptimizePlan, Planned, validate_bounds
from delta_ops.maintenance.optimize.plan_runs import key_order
from delta_ops.maintenance.optimize.run import (
    COMMIT_BYTES,
    OptimizeResult,
    RewriteRequest,
    run,
)
from delta_ops.maintenance.optimize.small_files import own_files, target_size_bytes
from delta_ops.maintenance.purge.plan import plan_purge
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import predicate_of
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.parquet_ranges import stored_schema
from delta_ops.transaction.engine import Engine, RewriteFiles

_CODEC_PROPERTY = "delta.parquet.compression.codec"
LEAST_ROW_GROUP_BYTES = 64 << 20
"""The largest row group in bytes that engines write, unless one row is larger."""
_VARIANT = {"metadata", "value", "typed_value"}


def purge(
    log: TableOrPlace,
    *,
    deleted_share: float | None = 0.0,
    lacking_statistics: bool = False,
    old_schema: bool = False,
    other_codec: bool = False,
    max_row_group_bytes: int | None = None,
    target_size: int | None = None,
    predicate: Predicate | Expression | str | None = None,
    engine: Engine | RewriteFiles | None = None,
    dry_run: bool = False,
    max_bytes: int | None = None,
    commit_bytes: int = COMMIT_BYTES,
    user_metadata: str | None = None,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> OptimizeResult:
    """Rewrite files that have deletion vectors, or another property that the caller names.

    Args:
        deleted_share: Rewrite files with at least this share of deleted rows, from 0 to 1; 0: any
            file with a deletion vector; None: no file because of its deletion vector.
        lacking_statistics: Rewrite files without a row count in the log.
        old_schema: Rewrite files that lack columns of the table, or have other columns or types.
            Reads the footer of each file, as do the next two.
        other_codec: Rewrite files with another compression than `delta.parquet.compression.codec`.
        max_row_group_bytes: Rewrite files with a row group of more uncompressed bytes.
        target_size: As for `optimize`; so are the other arguments.

    Raises:
        InvalidRequestError: An argument does not fit the table.
        DataFileError: A file is gone, unreadable, or has other rows than the log says.
        CommitConflictError: Another writer removed a file of each group first, or changed the
            table; new files were deleted.
        CommitStateUnknownError: The store did not confirm the commit; new files are kept.
        UnsupportedFeatureError: The table uses a feature that we cannot write.

    Examples:
        >>> vectors = {"delta.enableDeletionVectors": "true"}
        >>> _ = da.write("lake/t", pa.table({"id": range(10)}), configuration=vectors)
        >>> _ = da.delete("lake/t", col("id") == 1)  # a deletion vector marks the row
        >>> purge("lake/t").files_removed
        1
    """
    validate_arguments(purge, locals())
    table = log_of(log)
    with naming_table(table.uri):
        request = PurgeRequest(
            deleted_share=deleted_share,
            lacking_statistics=lacking_statistics,
            outdated=OutdatedReasons(
                old_schema=old_schema,
                other_codec=other_codec,
                max_row_group_bytes=max_row_group_bytes,
            ),
            target_size=target_size,
            predicate=predicate_of(predicate),
            engine=engine or ARROW,
            max_bytes=max_bytes,
            commit_bytes=commit_bytes,
            user_metadata=user_metadata,
            clock=clock,
            on_event=on_event,
        )
        return run(table, request, dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PurgeRequest(RewriteRequest):
    """The arguments of `purge`, which documents them.

    Raises:
        InvalidRequestError: The share is not from 0 to 1, or a bound is too small.
    """

    operation: ClassVar[str] = "REORG"

    deleted_share: float | None
    lacking_statistics: bool
    outdated: OutdatedReasons

    def __post_init__(self) -> None:
        if self.deleted_share is not None and not 0 <= self.deleted_share <= 1:
            raise InvalidRequestError(
                f"{option('deleted_share')} must be from 0 to 1, not {self.deleted_share}"
            )
        validate_bounds(max_bytes=self.max_bytes, commit_bytes=self.commit_bytes, min_size=None)

    @property
    def identity(self) -> str:
        """See `RewriteRequest.identity`: everything that changes which files are rewritten."""
        reasons = f"{self.deleted_share} {self.lacking_statistics} {self.outdated}"
        bounds = (self.target_size, self.max_bytes, self.commit_bytes)
        return f"purge {reasons} {bounds} {self.predicate!r}"

    def plan(self, snapshot: Snapshot) -> Planned:
        """Choose the files to rewrite."""
        validate_reasons(self.outdated, snapshot)
        files = own_files(snapshot, self.predicate)
        planned = plan_purge(
            files,
            target_size_bytes=target_size_bytes(snapshot, self.target_size),
            deleted_share=self.deleted_share,
            lacking_statistics=self.lacking_statistics,
            otherwise=find_outdated_files(snapshot, files, self.outdated),
            max_group_bytes=self.max_bytes,
            order=key_order(snapshot),
        )
        return Planned(plan=planned.fit_groups(self.max_bytes, snapshot.uri))

    def parameters(self, _snapshot: Snapshot, _plan: OptimizePlan, /) -> Mapping[str, Any]:
        """See `RewriteRequest.parameters`."""
        predicate = self.predicate
        return {
            "predicate": [] if predicate is None else [predicate_text(predicate)],
            "applyPurge": True,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedReasons:
    """Reasons to rewrite a file because of its footer."""

    old_schema: bool = False
    """Columns or types differ from the table's."""
    old_types: bool = False
    """A column has another type than in the table."""
    other_codec: bool = False
    """The compression is not the table's."""
    max_row_group_bytes: int | None = None
    """A row group has more uncompressed bytes."""

    @property
    def needs_footers(self) -> bool:
        """Whether a reason is set."""
        by_columns = self.old_schema or self.old_types
        return by_columns or self.other_codec or self.max_row_group_bytes is not None


def validate_reasons(reasons: OutdatedReasons, snapshot: Snapshot) -> None:
    """Reject reasons that would still apply after a rewrite.

    Raises:
        InvalidRequestError: The table sets no compression, or the limit for row groups is smaller
            than engines make them.
    """
    if reasons.other_codec and _CODEC_PROPERTY not in snapshot.metadata.configuration:
        raise InvalidRequestError(
            f"{snapshot.uri} does not set the compression of its files; set {_CODEC_PROPERTY} first"
        )
    most = reasons.max_row_group_bytes
    if most is not None and most < LEAST_ROW_GROUP_BYTES:
        raise InvalidRequestError(
            f"{option('max_row_group_bytes')} must be at least {LEAST_ROW_GROUP_BYTES}, the size "
            f"of the row groups that are written, not {most}"
        )


def find_outdated_files(
    snapshot: Snapshot,
    files: Sequence[AddFile],
    reasons: OutdatedReasons,
    definition: TableDefinition | None = None,
) -> set[str]:
    """Paths of the files with one of the reasons; reads footers only if a reason is set.

    Args:
        definition: The definition that the files should follow; None for the snapshot's.

    Raises:
        DataFileError: A file is gone or cannot be read.
    """
    if not reasons.needs_footers:
        return set()
    is_outdated = _footer_test(definition or snapshot.definition, snapshot.uri, reasons)
    answers = run_parallel(partial(_is_outdated, snapshot, is_outdated), files)
    return {add.path for add, answer in zip(files, answers, strict=True) if answer}


def _is_outdated(
    snapshot: Snapshot, is_outdated: Callable[[pq.FileMetaData], bool], add: AddFile
) -> bool:
    footer = read_data_footer(snapshot, add)
    path = canonical_path(add.path, snapshot.uri)
    if isinstance(footer, str):
        raise DataFileError(
            snapshot.uri, snapshot.version, path, f"has no footer to read: {footer}"
        )
    try:
        return is_outdated(footer)
    except ValueError as error:
        reason = f"cannot be read ({error}); restore it from a backup"
        raise DataFileError(snapshot.uri, snapshot.version, path, reason) from error


def _footer_test(
    definition: TableDefinition, table: str, reasons: OutdatedReasons
) -> Callable[[pq.FileMetaData], bool]:
    """Build a test that returns whether a footer has one of the reasons."""
    tests: list[Callable[[pq.FileMetaData], bool]] = []
    most = reasons.max_row_group_bytes
    if most is not None:
        tests.append(partial(_has_larger_row_group, most))
    if reasons.other_codec:
        codec = _codec(str(definition.properties.compression_codec))
        tests.append(partial(_has_other_codec, codec))
    expected = _columns(arrow_schema_from_schema(definition.file_schema))
    if reasons.old_schema:
        tracked = row_columns(definition, table) or ()
        # Files may have these columns, even if the schema does not require them.
        optional = {*tracked, *definition.partition_names.values()}
        tests.append(partial(_has_other_columns, expected, optional))
    if reasons.old_types:
        tests.append(partial(_has_other_types, expected))
    return lambda footer: any(test(footer) for test in tests)


def _has_larger_row_group(max_bytes: int, footer: pq.FileMetaData) -> bool:
    return any(group.total_byte_size > max_bytes for group in _row_groups(footer))


def _has_other_codec(codec: str, footer: pq.FileMetaData) -> bool:
    return any(
        _codec(group.column(number).compression) != codec
        for group in _row_groups(footer)
        for number in range(group.num_columns)
    )


def _has_other_columns(
    expected: set[tuple[str, object]], optional: set[str], footer: pq.FileMetaData
) -> bool:
    differing = _columns(stored_schema(footer)) ^ expected
    return any(name not in optional for name, _ in differing)


def _has_other_types(expected: set[tuple[str, object]], footer: pq.FileMetaData) -> bool:
    names = {name for name, _ in expected}
    return any(name in names for name, _ in _columns(stored_schema(footer)) - expected)


def _row_groups(footer: pq.FileMetaData) -> Iterator[pq.RowGroupMetaData]:
    return map(footer.row_group, range(footer.num_row_groups))


def _codec(name: str) -> str:
    return name.lower().removesuffix("_raw")


def _columns(schema: pa.Schema) -> set[tuple[str, object]]:
    return {(field.name, _shape(field.type)) for field in schema}


def _shape(kind: pa.DataType) -> object:
    """A type to compare: without element names and nullability, which differ between writers."""
    if pt.is_struct(kind):
        names = {field.name for field in kind}
        if {"metadata", "value"} <= names <= _VARIANT:
            return "variant"  # files differ in how they shred it
        return frozenset((field.name, _shape(field.type)) for field in kind)
    if pt.is_map(kind):
        return "map", _shape(kind.key_type), _shape(kind.item_type)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return "list", _shape(kind.value_type)
    if pt.is_large_string(kind):
        return str(pa.string())
    if pt.is_large_binary(kind):
        return str(pa.binary())
    return str(kind)
