"""Purge: rewrites files because of their content, not their size. No commit changes a row.

Rows that deletion vectors mark are physically gone once vacuum has deleted the old files. Files
without statistics get statistics. Files of an old schema, of another compression or with large row
groups are written by the current settings of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.engine import ARROW
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.optimize.plan import OptimizePlan, Planned, validate_bounds
from delta_ops.maintenance.optimize.run import (
    COMMIT_BYTES,
    OptimizeResult,
    RewriteRequest,
    run,
)
from delta_ops.maintenance.optimize.small_files import own_files, target_size_bytes
from delta_ops.maintenance.purge.outdated_files import (
    OutdatedReasons,
    find_outdated_files,
    validate_reasons,
)
from delta_ops.maintenance.purge.plan import plan_purge
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.transaction.engine import Engine, RewriteFiles


def purge(
    log: TableOrPlace,
    *,
    deleted_share: float | None = 0.0,
    lacking_statistics: bool = False,
    old_schema: bool = False,
    other_codec: bool = False,
    max_row_group_bytes: int | None = None,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    engine: Engine | RewriteFiles | None = None,
    dry_run: bool = False,
    max_bytes: int | None = None,
    commit_bytes: int = COMMIT_BYTES,
    user_metadata: str | None = None,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> OptimizeResult:
    """Rewrite files that have deletion vectors, and files that have other given faults.

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
    """
    validate_arguments(purge, locals())
    request = PurgeRequest(
        deleted_share=deleted_share,
        lacking_statistics=lacking_statistics,
        outdated=OutdatedReasons(
            old_schema=old_schema, other_codec=other_codec, max_row_group_bytes=max_row_group_bytes
        ),
        target_size=target_size,
        predicate=predicate,
        engine=engine or ARROW,
        max_bytes=max_bytes,
        commit_bytes=commit_bytes,
        user_metadata=user_metadata,
        clock=clock,
        on_event=on_event,
    )
    return run(log_of(log), request, dry_run=dry_run)


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
            raise InvalidRequestError(f"deleted_share is from 0 to 1, not {self.deleted_share}")
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
        )
        return Planned(plan=planned.fit_groups(self.max_bytes, snapshot.uri))

    def parameters(self, _snapshot: Snapshot, _plan: OptimizePlan, /) -> Mapping[str, Any]:
        """See `RewriteRequest.parameters`."""
        predicate = self.predicate
        return {
            "predicate": [] if predicate is None else [predicate_text(predicate)],
            "applyPurge": True,
        }
