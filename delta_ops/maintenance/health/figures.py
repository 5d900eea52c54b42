"""Health figures: measurements of a table from one pass over its log.

The log directory is listed once and in full. Its checkpoint, the commits after it and their
checksums are read once, and the journal of refs. If the table has refs, the newest commits are read
for vacuums of other engines. The data is not listed. If tombstones have expired, a few of their
files are looked up by name, since the log does not record whether vacuum has run. On a disk, where
other writers may replace a commit, older commits are also compared with their checksums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.clock import Clock, system_clock
from delta_ops.errors import DeltaOpsError, UnsupportedFeatureError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.checkpoint.damaged import DamagedCheckpoint
from delta_ops.log.commit_file import CommitMark, read_txn_id
from delta_ops.log.history.commit_times import monotone_times
from delta_ops.log.lost_commits import LostCommit, find_lost_commits
from delta_ops.log.segment import (
    LogListing,
    earliest_version,
    listing_from_files,
    segment_from_listing,
)
from delta_ops.log.snapshot import load_readable
from delta_ops.log.version.repeated_files import all_differ, drop_repeated
from delta_ops.maintenance.facts import LoadedTable, load_facts
from delta_ops.maintenance.indexes.act import IndexInfo, indexes_of
from delta_ops.maintenance.optimize.clustering import load_clustering
from delta_ops.maintenance.optimize.cubes import is_in_cube
from delta_ops.maintenance.optimize.plan import small_file_limit
from delta_ops.maintenance.optimize.small_files import target_size_bytes
from delta_ops.maintenance.thresholds import Facts
from delta_ops.maintenance.vacuum.due import TOMBSTONE_COLUMNS
from delta_ops.protocol.actions import AddFile, Protocol
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.file_paths import are_absolute, is_absolute
from delta_ops.protocol.stats.file_stats import num_records
from delta_ops.storage import FileInfo
from delta_ops.versioning.verify_refs import RefAtRisk, load_refs_at_risk

_COMPARED_COMMITS = 1_000
"""Number of commits older than the checkpoint that are compared, on a disk."""
_ADDS = ("path", "size", "partitionValues", "modificationTime", "deletionVector", "stats", "tags")
_Partition = frozenset[tuple[str, str | None]]
"""Partition values; equal for files of one partition, in any order of the columns."""
_REMOVES = (*TOMBSTONE_COLUMNS, "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFigures(Facts):
    """A table in numbers; times in ms since the Unix epoch, durations in ms, sizes in bytes."""

    num_files: int
    size_bytes: int
    num_rows: int
    """Rows of the files with a row count in their statistics, including rows that are marked
    deleted."""
    small_files: int
    """Live files below three quarters of the target size."""
    target_size_bytes: int
    largest_file_bytes: int
    num_partitions: int
    """Partitions that have at least one live file; 1 for a table without partition columns."""
    largest_partition_bytes: int
    files_with_stats: int
    """Live files whose statistics have a row count."""
    files_to_describe: int
    """Live files without a row count. Files outside the table do not count; they have another
    owner."""
    files_with_vectors: int
    """Live files with a deletion vector."""
    deleted_rows: int
    """Rows that deletion vectors mark."""
    purgeable_rows: int
    """Rows that deletion vectors mark in files within the table. Other files have another owner."""
    checkpoint_version: int | None
    """None: there is no checkpoint."""
    log_files: int
    log_bytes: int
    tombstones: int
    """Removed files that the log still names, until vacuum runs or their retention ends."""
    tombstone_bytes: int
    """Total size of the removed files whose tombstones have a size."""
    log_retention_ms: int
    """`delta.logRetentionDuration`."""
    deleted_file_retention_ms: int
    """`delta.deletedFileRetentionDuration`."""
    earliest_version: int | None
    """The first readable version; all later versions are readable, too."""
    readable_ms: int | None
    """For how long the log has been readable; None: since the first version."""
    lost_commits: tuple[LostCommit, ...]
    """Versions whose checksum belongs to another commit, ascending."""
    damaged_checkpoints: tuple[DamagedCheckpoint, ...]
    """Checkpoints that cannot be read, newest first."""
    refs_at_risk: tuple[RefAtRisk, ...]
    """Tags, branches and sessions that have expired, or whose files another engine may have
    deleted."""
    indexes: tuple[IndexInfo, ...]
    """The inverted indexes of the table, with what they cover."""
    protocol: Protocol
    configuration: dict[str, str]
    """The properties of the table, as its metadata has them."""

    @property
    def stats_coverage(self) -> float:
        """Share of the files that have statistics, or are outside the table."""
        files = self.num_files
        return (files - self.files_to_describe) / files if files else 1.0

    @property
    def deleted_share(self) -> float:
        """Share of all rows that a purge would remove."""
        rows = max(self.num_rows, self.deleted_rows)
        return self.purgeable_rows / rows if rows else 0.0

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Features that prevent some of our operations on the table."""
        return tuple(dict.fromkeys(chain.from_iterable(self.refused.values())))

    @property
    def promised_ms(self) -> int:
        """How far back time travel is promised: the shorter retention of log and removed files."""
        return min(self.log_retention_ms, self.deleted_file_retention_ms)


def load_figures(log: DeltaLog, *, clock: Clock = system_clock) -> HealthFigures:
    """Measure the latest version.

    Raises:
        TableNotFoundError: There is no table here.
        LogCorruptError: The log is damaged.
        UnsupportedFeatureError: The table uses a feature that we cannot open.
        InvalidRequestError: A property of the table cannot be understood.
        StorageError: The store failed.
    """
    now_ms = clock()
    return figures_of(log, open_listed(log), now_ms=now_ms)


class ListedTable(NamedTuple):
    """The latest version of a table, and the listing of the log that it was opened from."""

    snapshot: Snapshot
    files: Sequence[FileInfo]
    """All files directly in the log directory."""
    listing: LogListing
    """`files` by kind."""


def open_listed(log: DeltaLog) -> ListedTable:
    """Open the latest version, and list the log once and in full; raises as `load_figures`."""
    files = list(log.storage.list_from(log.log_directory, ""))
    listing = listing_from_files(files)
    return ListedTable(_open(log, listing), files, listing)


def figures_of(log: DeltaLog, table: ListedTable, *, now_ms: int) -> HealthFigures:
    """Measure an opened version; raises as `load_figures`.

    Args:
        now_ms: Milliseconds since the Unix epoch.
    """
    snapshot, files, listing = table
    properties = snapshot.properties
    target = target_size_bytes(snapshot, None)
    live = _live_sums(snapshot, target)
    tombstones = snapshot.tombstones(_REMOVES)
    indexes = tuple(indexes_of(snapshot))
    found = load_facts(
        LoadedTable(
            snapshot=snapshot,
            listed=files,
            listing=listing,
            small_files=live.mergeable,
            tombstones=tombstones,
            target_size_bytes=target,
            indexes=indexes,
            now_ms=now_ms,
        )
    )
    facts = replace(found, clustering=load_clustering(snapshot))
    earliest = earliest_version(listing)
    return HealthFigures(
        **{each.name: getattr(facts, each.name) for each in fields(facts)},
        num_files=live.num_files,
        size_bytes=live.size_bytes,
        num_rows=live.num_rows,
        small_files=live.small_files,
        target_size_bytes=target,
        largest_file_bytes=live.largest_file_bytes,
        num_partitions=len(live.partition_bytes),
        largest_partition_bytes=max(live.partition_bytes.values(), default=0),
        files_with_stats=live.files_with_stats,
        files_to_describe=live.files_to_describe,
        files_with_vectors=live.files_with_vectors,
        deleted_rows=live.deleted_rows,
        purgeable_rows=live.purgeable_rows,
        checkpoint_version=snapshot.checkpoint.version if snapshot.checkpoint else None,
        log_files=len(files),
        log_bytes=sum(info.size for info in files),
        tombstones=len(tombstones),
        tombstone_bytes=pc.sum(tombstones["size"], min_count=0).as_py(),
        log_retention_ms=properties.log_retention_ms,
        deleted_file_retention_ms=properties.deleted_file_retention_ms,
        earliest_version=earliest,
        readable_ms=_readable_ms(listing, earliest, now_ms),
        lost_commits=_lost_commits(log, listing, snapshot),
        damaged_checkpoints=snapshot.damaged_checkpoints,
        refs_at_risk=_refs_at_risk(snapshot, now_ms),
        indexes=indexes,
        protocol=snapshot.protocol,
        configuration=dict(snapshot.metadata.configuration),
    )


def _open(log: DeltaLog, listing: LogListing) -> Snapshot:
    """Open the latest version from a listing; fall back to the usual way.

    The listing may have gaps if writers or a clean-up changed the log meanwhile, and a log with a
    base needs more than its own files.
    """
    if log.base is None:
        try:
            segment = segment_from_listing(listing, log.uri, None)
            ahead = {"add": _ADDS, "remove": _REMOVES}
            return load_readable(
                log.storage, log.log_directory, segment, ahead=ahead, outside=log.outside
            )
        except (FileNotFoundError, DeltaOpsError):
            pass
    return log.snapshot()


def _live_sums(snapshot: Snapshot, target_size_bytes: int) -> _Live:
    """Sum over the live files. A file that a checkpoint names twice counts once, as for readers."""
    columns = [CANONICAL_PATH, *_ADDS]
    live = _Live(target_size_bytes)

    def stream_tables() -> Iterator[pa.Table]:
        for files in snapshot.stream_live(columns):
            live.count(files)
            yield files

    if all_differ(stream_tables(), snapshot.uri):
        return live
    once = _Live(target_size_bytes)
    once.count(drop_repeated(pa.concat_tables(snapshot.stream_live(columns)), snapshot.uri))
    return once


class _Live:
    """Sums over a stream of live files."""

    def __init__(self, target_size_bytes: int) -> None:
        self.num_files = self.size_bytes = self.num_rows = self.deleted_rows = 0
        self.largest_file_bytes = self.files_with_stats = self.files_with_vectors = 0
        self.files_to_describe = self.purgeable_rows = 0
        self.partition_bytes: Counter[_Partition] = Counter()
        self.small_files = 0
        self.mergeable: list[AddFile] = []
        self._limit = small_file_limit(target_size_bytes)

    def count(self, files: pa.Table) -> None:
        """Add files to the sums."""
        sizes = files["size"].to_pylist()
        if not sizes:
            return
        self.num_files += len(sizes)
        self.size_bytes += sum(sizes)
        self.largest_file_bytes = max(self.largest_file_bytes, *sizes)
        counts = [num_records(text) for text in files["stats"].to_pylist()]
        records = [n for n in counts if n is not None]
        self.files_with_stats += len(records)
        if len(records) < len(counts):
            places = zip(counts, files[CANONICAL_PATH].to_pylist(), strict=True)
            self.files_to_describe += sum(n is None and not is_absolute(p) for n, p in places)
        self.num_rows += sum(records)
        vectors = files["deletionVector"]
        if vectors.null_count < len(vectors):
            self.files_with_vectors += len(vectors) - vectors.null_count
            marked = pc.struct_field(vectors, "cardinality")
            self.deleted_rows += pc.sum(marked, min_count=0).as_py()
            own = marked.filter(pc.invert(are_absolute(files[CANONICAL_PATH])))
            self.purgeable_rows += pc.sum(own, min_count=0).as_py()
        partitions = list(_partitions(files["partitionValues"]))
        for partition, size in zip(partitions, sizes, strict=True):
            self.partition_bytes[partition] += size
        self._take_small(files, sizes, partitions)

    def _take_small(
        self, files: pa.Table, sizes: Sequence[int], partitions: Sequence[_Partition]
    ) -> None:
        paths = files[CANONICAL_PATH].to_pylist()
        times = files["modificationTime"].to_pylist()
        tags = map(dict, map(_pairs, files["tags"].to_pylist()))
        rows = zip(paths, sizes, times, tags, partitions, strict=True)
        for path, size, time, of_file, partition in rows:
            if size >= self._limit:
                continue
            self.small_files += 1
            if not is_absolute(path) and not is_in_cube(of_file):
                add = AddFile(
                    path=path,
                    size=size,
                    partition_values=dict(partition),
                    modification_time=time or 0,
                )
                self.mergeable.append(add)


def _pairs(pairs: list[tuple[str, str | None]] | None) -> list[tuple[str, str | None]]:
    return pairs or []


def _partitions(values: pa.ChunkedArray) -> Iterator[_Partition]:
    for pairs in values.to_pylist():
        yield frozenset(pairs or ())


def _refs_at_risk(snapshot: Snapshot, now_ms: int) -> tuple[RefAtRisk, ...]:
    try:
        return load_refs_at_risk(snapshot, now_ms=now_ms)
    except UnsupportedFeatureError:  # the measure `features` reports the format of the refs
        return ()


def _lost_commits(log: DeltaLog, listing: LogListing, snapshot: Snapshot) -> tuple[LostCommit, ...]:
    marks = [mark for mark in snapshot.marks if mark.version in listing.checksums]
    if log.storage.has_native_input:
        replayed = {mark.version for mark in snapshot.marks}
        older = sorted((listing.checksums & listing.commits.keys()) - replayed)
        marks = [
            CommitMark(v, read_txn_id(log.storage, listing.commits[v]), None)
            for v in older[-_COMPARED_COMMITS:]
        ] + marks
    return tuple(find_lost_commits(log.storage, log.log_directory, marks, snapshot.state_checksum))


def _readable_ms(listing: LogListing, earliest: int | None, now_ms: int) -> int | None:
    if not earliest:
        return None
    times = monotone_times(listing)
    since: FileInfo | None = None
    if earliest not in times:
        checkpoints = [c for c in listing.checkpoints if c.version == earliest]
        since = checkpoints[0].parts[0] if checkpoints else None
    since_ms = times.get(earliest, since.modified_ms if since else now_ms)
    return max(0, now_ms - since_ms)
