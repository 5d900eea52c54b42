"""Accelerators: whether a scan cache or an index leads to other files or rows than the log."""

from __future__ import annotations

from collections.abc import Iterator

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.log import Snapshot
from delta_ops.log.scan_cache.file import UnusableCacheError
from delta_ops.log.version.cached_files import CachedPart, open_found
from delta_ops.log.version.indexes.definitions import INDEXES_DIRECTORY, load_definition
from delta_ops.maintenance import list_indexes, refresh_index
from tests.interleaving.scenes import INDEX, paths_in, rows_in, sort_rows

_VALUES = (1, 2, 3, 10, 99)
"""Values of the first column, which scenes and operations write or change."""


def accelerator_differences(snapshot: Snapshot) -> Iterator[str]:
    """A sentence for each plan of a version that finds other files or rows than the log has."""
    yield from _cache_differences(snapshot)
    everything = rows_in(da.to_table(snapshot))
    name = snapshot.arrow_schema.names[0]
    for value in _VALUES:
        found = rows_in(da.to_table(snapshot, predicate=col(name) == value))
        expected = tuple(row for row in everything if row[0] == value)
        if found != expected:
            yield f"version {snapshot.version} has {expected}, and a scan of {value} finds {found}"


def ordered_differences(snapshot: Snapshot) -> Iterator[str]:
    """A sentence if an ordered scan has other rows than the table, or another order."""
    batches = da.to_batches(snapshot, order_by=["id"])
    rows = [(row["id"], row["p"]) for batch in batches for row in batch.to_pylist()]
    ids = [each for each, _ in rows]
    if ids != sorted(ids) or sort_rows(rows) != rows_in(da.to_table(snapshot)):
        yield f"an ordered scan of version {snapshot.version} has {rows}"


def dropped_index_files(log: DeltaLog) -> Iterator[str]:
    """A sentence if a dropped index has files."""
    if load_definition(log.storage, INDEX) is None:
        left = [each.path for each in log.storage.list_tree(f"{INDEXES_DIRECTORY}/{INDEX}")]
        if left:
            yield f"the dropped index has {len(left)} files, such as {left[0]}"


def refreshed_differences(log: DeltaLog) -> Iterator[str]:
    """A sentence if the next refresh does not make the index whole; refreshes it."""
    if all(each.name != INDEX for each in list_indexes(log)):
        return
    refresh_index(log, INDEX)
    (index,) = list_indexes(log)
    if index.coverage < 1 or index.problems:
        yield f"a refresh leaves the index with coverage {index.coverage} and {index.problems}"
    if (again := refresh_index(log, INDEX)).indexed_files:
        yield f"a second refresh indexes {again.indexed_files} files"
    yield from accelerator_differences(log.snapshot())


def _cache_differences(snapshot: Snapshot) -> Iterator[str]:
    """A sentence if the whole scan cache, with later commits, has other files than the log."""
    found = snapshot.scan_cache
    if found is None or snapshot.checkpoint is None:
        return
    try:
        file = open_found(snapshot, found)
    except UnusableCacheError:
        return
    part = CachedPart(
        version=snapshot,
        file=file,
        groups=tuple(range(len(file.index))),
        columns=(),
        commits=found.commits,
    )
    cached = {path for files in part.stream(["path"]) for path in files["path"].to_pylist()}
    if cached != paths_in(snapshot):
        yield (
            f"version {snapshot.version} has {sorted(paths_in(snapshot))}, and its scan cache "
            f"{sorted(cached)}"
        )
