"""Purge: rewrite files for what is wrong with them, not for their size; no commit changes a row.

Rows that deletion vectors mark are left out for good once vacuum has deleted the files, files
without statistics get some, and files of an old schema, of another compression or of large row
groups are stored as the table's files are written today.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.arrow import rewrite
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.optimize.act import COMMIT_BYTES, OptimizeResult, result_of
from delta_ops.maintenance.optimize.plan import (
    OptimizePlan,
    Planned,
    pack,
    split_by_partition,
    validate_bounds,
)
from delta_ops.maintenance.optimize.run import Work, run
from delta_ops.maintenance.optimize.small_files import own_files, target_size_bytes
from delta_ops.maintenance.purge.outdated_files import (
    Otherwise,
    files_stored_otherwise,
    validate_otherwise,
)
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.transaction import RewriteGroup
from delta_ops.transaction.rewrite_group import Rewriter


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
    engine: Rewriter | None = None,
    dry_run: bool = False,
    max_bytes: int | None = None,
    commit_bytes: int = COMMIT_BYTES,
    user_metadata: str | None = None,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> OptimizeResult:
    """Rewrite the files that have deletion vectors, and those that are asked for beside these.

    Args:
        deleted_share: Only those of whose rows so many are deleted, from 0 to 1; 0: any; None:
            none for their vectors alone.
        lacking_statistics: Files of which the log does not tell how many rows they have.
        old_schema: Files that lack columns of the table, or have others or other types: the footer
            of each file is read.
        other_codec: Files of another compression than `delta.parquet.compression.codec`, by
            their footers.
        max_row_group_bytes: Files with a row group of more bytes without compression, by their
            footers.
        target_size: As for `optimize`; so are the others.

    Raises:
        InvalidRequestError: An argument does not fit the table.
        DataFileError: A file is gone, unreadable, or does not hold the rows that the log says.
        CommitConflictError: Somebody removed a file of each group first, or changed the table; what
            was written is deleted.
        CommitStateUnknownError: The store did not tell; what was written is kept.
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    validate_arguments(purge, locals())
    if deleted_share is not None and not 0 <= deleted_share <= 1:
        raise InvalidRequestError(f"deleted_share is from 0 to 1, not {deleted_share}")
    validate_bounds(max_bytes=max_bytes, commit_bytes=commit_bytes, min_size=None)
    reasons = Otherwise(
        old_schema=old_schema, other_codec=other_codec, max_row_group_bytes=max_row_group_bytes
    )
    sizes = (target_size, max_bytes, commit_bytes)

    def plan(snapshot: Snapshot) -> Planned:
        validate_otherwise(reasons, snapshot)
        files = own_files(snapshot, predicate)
        planned = plan_purge(
            files,
            target_size_bytes=target_size_bytes(snapshot, target_size),
            deleted_share=deleted_share,
            lacking_statistics=lacking_statistics,
            otherwise=_stored_otherwise(snapshot, files, reasons),
            max_group_bytes=max_bytes,
        )
        return Planned(plan=planned.fit_groups(max_bytes, snapshot.uri))

    work = Work(
        log=log_of(log),
        plan=plan,
        operation="REORG",
        parameters=partial(_parameters, predicate),
        request=f"purge {deleted_share} {lacking_statistics} {reasons} {sizes} {predicate!r}",
        engine=engine or rewrite,
        max_bytes=max_bytes,
        commit_bytes=commit_bytes,
        user_metadata=user_metadata,
        clock=clock,
        on_event=on_event,
    )
    return result_of(run(work, dry_run=dry_run), work, dry_run)


def plan_purge(
    files: Iterable[AddFile],
    *,
    target_size_bytes: int,
    deleted_share: float | None = 0.0,
    lacking_statistics: bool = False,
    otherwise: Collection[str] = (),
    max_group_bytes: int | None = None,
) -> OptimizePlan:
    """Choose the files to rewrite; those that fit together become one. Pure.

    Args:
        otherwise: Paths of files to rewrite whatever else there is to say of them.
        max_group_bytes: As for `plan_optimize`.

    Raises:
        InvalidRequestError: The target is not positive.
    """
    validate_arguments(plan_purge, locals())
    if target_size_bytes < 1:
        raise InvalidRequestError(f"the target size must be positive, not {target_size_bytes}")

    def is_chosen(add: AddFile) -> bool:
        if add.path in otherwise:
            return True
        rows = num_records(add.stats)
        if rows is None and lacking_statistics:
            return True
        if deleted_share is None:
            return False
        if rows is None:
            return add.deletion_vector is not None
        deleted = add.deletion_vector.cardinality if add.deletion_vector else 0
        return deleted > 0 and deleted >= deleted_share * rows

    groups = (
        RewriteGroup(files=tuple(group), target_size_bytes=target_size_bytes)
        for of_partition in split_by_partition(filter(is_chosen, files))
        for group in pack(
            of_partition, min(target_size_bytes, max_group_bytes or target_size_bytes)
        )
    )
    return OptimizePlan(
        target_size_bytes=target_size_bytes,
        groups=tuple(sorted(groups, key=lambda group: group.files[0].path)),
    )


def _stored_otherwise(
    snapshot: Snapshot, files: Sequence[AddFile], reasons: Otherwise
) -> Collection[str]:
    return files_stored_otherwise(snapshot, files, reasons) if reasons.needs_footers else ()


def _parameters(
    predicate: Predicate | None, _snapshot: Snapshot, _plan: OptimizePlan
) -> Mapping[str, Any]:
    return {
        "predicate": [] if predicate is None else [predicate_text(predicate)],
        "applyPurge": True,
    }
