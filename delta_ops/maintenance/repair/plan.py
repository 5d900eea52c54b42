"""What is wrong with the files of a table: decided over its log and a listing. Touches nothing.

Source: PROTOCOL.md, "Action Reconciliation", "Per-file Statistics".

1. A live file that the store does not have is missing; whether it is so, the store is asked again
   before anything is done about it. One outside of the table is looked for in its own store, unless
   the table's handle refuses to.
2. A live file whose deletion vector is missing can only be reported: with the vector left out
   deleted rows would come back, with the file left out live ones would go.
3. A live file that is shorter than the log says was cut off, and can only be reported.
4. A live file without `numRecords` has no statistics to go by: readers open it for every query.
   One outside of the table belongs to somebody else and is not described.
5. A file that neither a live one nor a tombstone names, however old, is an orphan: the leftover of
   a writer that died, or what the log has forgotten. It is reported, never deleted. Vacuum's own
   decision tells which these are: what a vacuum would keep for any other reason is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from delta_ops.protocol.file_paths import absolute_paths, canonical_path, is_absolute
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.storage import FileInfo
from delta_ops.transaction.races.missing_files import vector_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """What was found."""

    version: int
    """Version that the plan was made on."""
    num_files: int
    """Live files that were looked for."""
    missing: tuple[AddFile, ...] = ()
    """Live files that are gone."""
    missing_vectors: tuple[AddFile, ...] = ()
    """Live files that are there and whose deletion vector is gone."""
    truncated: tuple[AddFile, ...] = ()
    """Live files that are shorter than the log says."""
    without_statistics: tuple[AddFile, ...] = ()
    """Live files that are there, and of which the log does not know how many rows they have."""
    orphans: tuple[FileInfo, ...] = ()
    """Files that the log does not name; no hidden ones, and none that is being written."""
    outside: int = 0
    """Live files outside the table that may not be read and were not looked for."""
    num_elsewhere: int = 0
    """Live files outside the table that were looked for, among `num_files`."""

    @property
    def has_work(self) -> bool:
        """Whether there is anything that `repair` can do something about."""
        return bool(self.missing or self.without_statistics)

    @property
    def is_healthy(self) -> bool:
        """Whether every row can be read, and every file be skipped by its statistics."""
        return not (self.has_work or self.missing_vectors or self.truncated)


def plan_repair(
    snapshot: Snapshot,
    listed: Iterable[FileInfo],
    *,
    now_ms: int,
    retention_ms: int,
    links: Mapping[str, str | None] = MappingProxyType({}),
) -> RepairPlan:
    """Compare the files that the log names with those that are there.

    Args:
        snapshot: The latest version.
        listed: Files under the table root, hidden ones included; any order, read once.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: A younger file that the log does not name may be about to be committed.
        links: As for `real_paths`; what the log names by way of one is no orphan.

    Raises:
        InvalidRequestError: The log does not remember what was removed so long ago.
        LogCorruptError: The log is damaged, or where a deletion vector is kept cannot be
            understood.
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
        files=infos, links=links, may_confuse_letters=snapshot.storage.has_native_input
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
    """Whether the log knows how many rows the file has."""
    return num_records(add.stats) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """The live files, and those of them that something may be wrong with."""

    paths: set[str]
    """With those of their deletion vectors, by every name that may be meant."""
    suspects: list[tuple[str, AddFile]]
    """By canonical path: of files that are gone or cut off, have a vector, or lack a row count."""
    num_files: int
    num_elsewhere: int
    """Outside of the table, among `num_files`."""
    num_refused: int
    """Outside of the table, not among `num_files`."""


def _suspects(snapshot: Snapshot, there: Mapping[str, int]) -> _Live:
    """One pass over the live files; only those that something may be wrong with become values.

    Args:
        there: Sizes in bytes, by path.
    """
    known = pa.array(list(there), pa.string())
    sizes = pa.array(list(there.values()), pa.int64())
    all_paths: set[str] = set()
    suspects: list[tuple[str, AddFile]] = []
    num_files = num_elsewhere = num_refused = 0
    for table in snapshot.stream_live([*ADD.names, CANONICAL_PATH]):
        paths = table[CANONICAL_PATH]
        all_paths.update(protected_paths(table, snapshot))
        size = sizes.take(pc.index_in(paths, value_set=known).combine_chunks())
        gone_or_cut = pc.fill_null(pc.less(size, table["size"].combine_chunks()), True)
        has_vector = pc.is_valid(table["deletionVector"])
        uncounted = [num_records(text) is None for text in table["stats"].to_pylist()]
        is_suspect = pc.or_(pc.or_(gone_or_cut, has_vector), pa.array(uncounted, pa.bool_()))
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
