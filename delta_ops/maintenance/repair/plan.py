"""Finds faults in the files of a table from its log and a listing. Writes nothing.

Source: PROTOCOL.md, "Action Reconciliation", "Per-file Statistics".

1. A live file that the store does not have is missing. The caller looks it up by name before it
   changes anything. A file outside the table is looked up in its own store, unless the table's
   handle forbids it.
2. A live file whose deletion vector is missing can only be reported: an entry without the vector
   would bring deleted rows back, and a removed entry would lose live rows.
3. A live file that is shorter than the log says was truncated, and can only be reported.
4. A live file without `numRecords` cannot be skipped by statistics: readers open it for every
   query. A file outside the table has another owner and gets no statistics.
5. A file that no live file and no tombstone names is an orphan at any age: a writer died, or the
   log has dropped its tombstone. It is reported, never deleted. A file that vacuum would keep for
   another reason is not an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.log import Snapshot
from delta_ops.maintenance.vacuum.facts import TableListing, vacuum_facts
from delta_ops.maintenance.vacuum.hidden_names import hidden_names
from delta_ops.maintenance.vacuum.plan import plan_by_facts
from delta_ops.maintenance.vacuum.reachable import protected_paths, stream_removed
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, add_files
from delta_ops.protocol.arrow_values import TRUE_SCALAR, array_of
from delta_ops.protocol.file_paths import absolute_paths, canonical_path, is_absolute
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.storage import FileInfo
from delta_ops.storage.packed_files import pack_files
from delta_ops.transaction.races.missing_files import vector_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """The faults that were found."""

    version: int
    """The version that the plan is based on."""
    num_files: int
    """Live files that were checked."""
    missing: tuple[AddFile, ...] = ()
    """Live files that do not exist."""
    missing_vectors: tuple[AddFile, ...] = ()
    """Live files that exist without their deletion vector."""
    truncated: tuple[AddFile, ...] = ()
    """Live files that are shorter than the log says."""
    without_statistics: tuple[AddFile, ...] = ()
    """Live files that exist and have no row count in the log."""
    orphans: Sequence[FileInfo] = ()
    """Files that the log does not name, without hidden files and files in progress."""
    outside: int = 0
    """Live files outside the table that may not be read and were not checked."""
    num_elsewhere: int = 0
    """Checked live files outside the table; part of `num_files`."""

    @property
    def has_work(self) -> bool:
        """Whether there is a fault that `repair` can repair."""
        return bool(self.missing or self.without_statistics)

    @property
    def is_healthy(self) -> bool:
        """Whether every row can be read, and every file has statistics."""
        return not (self.has_work or self.missing_vectors or self.truncated)


def plan_repair(
    snapshot: Snapshot,
    listed: Iterable[FileInfo],
    *,
    now_ms: int,
    retention_ms: int,
    links: Mapping[str, str | None] = MappingProxyType({}),
) -> RepairPlan:
    """Compare the files in the log with a listing.

    Args:
        snapshot: The latest version.
        listed: Files under the table root, also hidden files; any order, read once.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: A younger file that the log does not name may be about to be committed.
        links: As for `real_paths`; a file that the log names by a link is no orphan.

    Raises:
        InvalidRequestError: The log was cleaned up and lacks removes within the retention.
        LogCorruptError: The log is damaged, or the location of a deletion vector cannot be parsed.

    Examples:
        >>> snapshot = DeltaLog("lake/orders").snapshot()
        >>> week_ms = 7 * 86_400_000
        >>> plan = plan_repair(snapshot, [], now_ms=0, retention_ms=week_ms)  # an empty listing
        >>> len(plan.missing)
        1
    """
    validate_arguments(plan_repair, locals())
    infos = list(listed)
    there = {info.path: info.size for info in infos}
    live = _suspects(snapshot, there)
    missing = tuple(add for path, add in live.suspects if path not in there)
    present = [(path, add) for path, add in live.suspects if path in there]
    named = live.paths.union(protected_paths(snapshot.tombstones(), snapshot))
    for removed in stream_removed(snapshot, now_ms=now_ms, retention_ms=retention_ms):
        named.update(removed)
    listing = TableListing(
        files=pack_files(infos),
        links=links,
        may_confuse_letters=snapshot.storage.has_native_input,
    )
    facts = vacuum_facts(
        listing,
        hidden_names(snapshot.definition),
        named,
        now_ms=now_ms,
        retention_ms=retention_ms,
    )
    return RepairPlan(
        version=snapshot.version,
        num_files=live.num_files,
        missing=missing,
        missing_vectors=tuple(a for _, a in present if not _has_vector(a, snapshot, there)),
        truncated=tuple(add for path, add in present if there[path] < add.size),
        without_statistics=tuple(
            add for path, add in present if not is_absolute(path) and not has_row_count(add)
        ),
        orphans=plan_by_facts(listing, facts).files,
        outside=live.num_refused,
        num_elsewhere=live.num_elsewhere,
    )


def has_row_count(add: AddFile) -> bool:
    """Whether the log has a row count for the file."""
    return num_records(add.stats) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """The live files, and the live files that may have a fault."""

    paths: set[str]
    """Paths of live files and their deletion vectors, under every name that they may have."""
    suspects: list[tuple[str, AddFile]]
    """By canonical path: files that are missing or truncated, have a vector, or lack a row count.
    """
    num_files: int
    num_elsewhere: int
    """Files outside the table; part of `num_files`."""
    num_refused: int
    """Files outside the table; not part of `num_files`."""


def _suspects(snapshot: Snapshot, there: Mapping[str, int]) -> _Live:
    """Find suspect files in one pass over the live files.

    Only suspect files become Python values, to save memory.

    Args:
        there: Sizes in bytes, by path.
    """
    known = array_of(list(there), pa.string())
    sizes = array_of(list(there.values()), pa.int64())
    all_paths: set[str] = set()
    suspects: list[tuple[str, AddFile]] = []
    num_files = num_elsewhere = num_refused = 0
    for table in snapshot.stream_live([*ADD.names, CANONICAL_PATH]):
        paths = table[CANONICAL_PATH]
        all_paths.update(protected_paths(table, snapshot))
        size = sizes.take(pc.index_in(paths, value_set=known).combine_chunks())
        gone_or_cut = pc.fill_null(pc.less(size, table["size"].combine_chunks()), TRUE_SCALAR)
        has_vector = pc.is_valid(table["deletionVector"])
        uncounted = [num_records(text) is None for text in table["stats"].to_pylist()]
        is_suspect = pc.or_(pc.or_(gone_or_cut, has_vector), array_of(uncounted, pa.bool_()))
        suspect = table.filter(is_suspect)
        outside = absolute_paths(paths)
        refused = {path for path in outside if not snapshot.table_files.is_admitted(path)}
        num_refused += sum(path in refused for path in outside)
        num_elsewhere += sum(path not in refused for path in outside)
        num_files += len(table) - sum(path in refused for path in outside)
        for add in add_files(suspect.select(ADD.names)):
            path = canonical_path(add.path, snapshot.uri)
            if path not in refused:
                suspects.append((path, add))
    return _Live(
        paths=all_paths,
        suspects=suspects,
        num_files=num_files,
        num_elsewhere=num_elsewhere,
        num_refused=num_refused,
    )


def _has_vector(add: AddFile, snapshot: Snapshot, there: Mapping[str, int]) -> bool:
    path = vector_path(add, snapshot)
    return path is None or path in there or not snapshot.table_files.is_admitted(path)
