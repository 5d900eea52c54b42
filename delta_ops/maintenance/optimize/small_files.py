"""Finds the small files of a table, which optimize may choose from."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.log.version.pruning import match_files
from delta_ops.maintenance.optimize.cubes import is_in_cube
from delta_ops.maintenance.optimize.plan import small_file_limit
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, add_files
from delta_ops.protocol.arrow_values import scalar
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.protocol.predicate import Predicate, columns, resolve

_MAX_SIZE_BYTES = 2**63 - 1
"""The largest size that Arrow can compare; a property may name a larger target."""


def target_size_bytes(snapshot: Snapshot, target_size: int | None) -> int:
    """The given size, else `delta.targetFileSize`, else 128 MiB."""
    if target_size is not None:
        return target_size
    return min(snapshot.properties.new_file_bytes, _MAX_SIZE_BYTES)


def small_files(
    snapshot: Snapshot,
    target_size_bytes: int,
    predicate: Predicate | None = None,
    min_size_bytes: int | None = None,
    max_size_bytes: int | None = None,
) -> list[AddFile]:
    """The live files that may be combined or cut.

    Skips files outside the table, which have another owner.

    Args:
        min_size_bytes: As for `plan_optimize`; so is `max_size_bytes`.

    Raises:
        InvalidRequestError: The predicate uses a column that is no partition column.
    """
    if predicate is not None:
        validate_predicate(predicate, snapshot)
    limit = small_file_limit(target_size_bytes) if min_size_bytes is None else min_size_bytes
    return _files_beyond(snapshot, limit, predicate, ADD.names, max_size_bytes)


def own_files(snapshot: Snapshot, predicate: Predicate | None = None) -> list[AddFile]:
    """The live files of any size within the table, which may be laid out again.

    Args:
        predicate: Only these partitions.

    Raises:
        InvalidRequestError: The predicate uses a column that is no partition column.
    """
    if predicate is not None:
        validate_predicate(predicate, snapshot)
    return _files_beyond(snapshot, None, predicate, ADD.names)


def own_files_by_path(snapshot: Snapshot, paths: pa.Array) -> dict[str, AddFile]:
    """The live files with the given canonical paths, by path."""
    found: dict[str, AddFile] = {}
    for adds in snapshot.stream_live([*ADD.names, CANONICAL_PATH]):
        wanted = adds.filter(pc.is_in(adds[CANONICAL_PATH], value_set=paths))
        found |= zip(
            wanted[CANONICAL_PATH].to_pylist(), add_files(wanted.select(ADD.names)), strict=True
        )
    return found


def small_file_sizes(snapshot: Snapshot, target_size_bytes: int) -> list[AddFile]:
    """Small files without statistics, which a plan does not need.

    Skips files that were laid out in an order, because the order decides their size.
    """
    names = ["path", "partitionValues", "size", "modificationTime", "tags"]
    found = _files_beyond(snapshot, small_file_limit(target_size_bytes), None, names)
    return [add for add in found if not is_in_cube(add.tags)]


def _files_beyond(
    snapshot: Snapshot,
    limit: int | None,
    predicate: Predicate | None,
    names: Sequence[str],
    max_size: int | None = None,
) -> list[AddFile]:
    """Live files below one limit or above another."""
    found: list[AddFile] = []
    for adds in snapshot.stream_live(names):
        small = adds
        if limit is not None:
            wanted = pc.less(small["size"], scalar(min(limit, _MAX_SIZE_BYTES)))
            if max_size is not None:
                too_large = pc.greater(small["size"], scalar(min(max_size, _MAX_SIZE_BYTES)))
                wanted = pc.or_(wanted, too_large)
            small = small.filter(wanted)
        if predicate is not None:
            small = match_files(small, predicate, snapshot.definition, snapshot.uri)
        found += add_files(_add_missing_columns(small))
    # A checkpoint may name a file twice, but its rows exist once.
    by_path = {canonical_path(add.path, snapshot.uri): add for add in found}
    return [add for path, add in by_path.items() if not is_absolute(path)]


def validate_predicate(predicate: Predicate, snapshot: Snapshot) -> None:
    """Reject a predicate over other columns than partition columns.

    Raises:
        InvalidRequestError: Names one of these columns.
    """
    others = columns(resolve(predicate, snapshot.schema)) - set(snapshot.partition_columns)
    if others:
        names = ", ".join(snapshot.partition_columns)
        cure = f"choose from {names}" if names else "leave the predicate out"
        raise InvalidRequestError(
            f"{snapshot.uri}: optimize selects whole partitions, but {min(others)} is not a "
            f"partition column; {cure}",
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        )


def _add_missing_columns(adds: pa.Table) -> pa.Table:
    return pa.table(
        [
            adds[field.name] if field.name in adds.column_names else pa.nulls(len(adds), field.type)
            for field in ADD
        ],
        schema=ADD,
    )
