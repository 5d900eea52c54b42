"""File figures: number, bytes and size histogram of live files, and how a commit changes them.

Source: PROTOCOL.md, "Action Reconciliation".

An add of a live file replaces the earlier add. A remove of a file that is not live has no effect.
The effect of a commit therefore depends on the previous state of its files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.snapshot import Snapshot
from delta_ops.log.version.reconciliation import FileRows, regroup_tables
from delta_ops.log.version.repeated_files import hash_keys, hashes_differ
from delta_ops.protocol.actions import AddFile, FileAction
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.arrow_values import text_array
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.stats.file_size_histogram import (
    EMPTY_HISTOGRAM,
    FileSizeHistogram,
    changed_histogram,
    histogram_of_sizes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of the live files, as in a checksum."""

    num_files: int
    size_bytes: int
    histogram: FileSizeHistogram | None


NO_FILES = Figures(num_files=0, size_bytes=0, histogram=EMPTY_HISTOGRAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """State of a commit's files just before the commit, as far as known."""

    live_sizes: Sequence[int]
    """Bytes of the files known to be live, in any order."""
    is_complete: bool
    """Whether all other files are known not to be live; if False, some are unknown."""


def figures_after(
    figures: Figures,
    before: Snapshot | None,
    files: Sequence[FileAction],
    table: str,
    *,
    may_read: bool,
) -> Figures | None:
    """The figures after a commit; None if unknown.

    Args:
        figures: The figures before the commit.
        before: The version before the commit; None for version 0.
        files: The file actions of the commit.
        table: The table's root.
        may_read: Look up files of unknown state in the checkpoint.
    """
    paths = canonical_texts((action.path for action in files), table)
    by_path = dict(zip(paths, files, strict=True))
    if len(by_path) < len(files):  # the commit names a file twice
        return None
    return _changed_figures(figures, by_path, _known_files(before, by_path, may_read=may_read))


def _changed_figures(
    figures: Figures, actions: Mapping[str, FileAction], known: KnownFiles
) -> Figures | None:
    """The figures after a commit's file actions.

    None if they cannot be computed from `known`, or if the result is impossible.
    """
    if not known.is_complete:
        return None
    added = [action.size for action in actions.values() if isinstance(action, AddFile)]
    # An add of a live file replaces that file.
    removed = known.live_sizes
    histogram = figures.histogram and changed_histogram(figures.histogram, added, removed)
    after = Figures(
        num_files=figures.num_files + len(added) - len(removed),
        size_bytes=figures.size_bytes + sum(added) - sum(removed),
        histogram=histogram,
    )
    return after if is_possible(after) else None


def _known_files(
    before: Snapshot | None, actions: Mapping[str, FileAction], *, may_read: bool
) -> KnownFiles:
    """Find which of a commit's files were live before the commit."""
    if before is None or not actions:
        return KnownFiles(live_sizes=(), is_complete=True)
    named = text_array(actions)
    live = _select_paths(before.tail.adds, named)
    sizes: list[int] = live.rows["size"].to_pylist()
    gone = _select_paths(before.tail.removes, named)
    rest = _drop_files(_drop_files(actions.keys(), live), gone)
    if before.checkpoint is None and before.base is None:
        return KnownFiles(live_sizes=sizes, is_complete=True)
    if before.checkpoint is not None:
        written_ms = max(part.modified_ms for part in before.checkpoint.parts)
        if new := {path for path, action in actions.items() if _is_new(action, written_ms)}:
            rest = rest - new
    if rest and may_read:
        wanted = named if len(rest) == len(actions) else text_array(rest)
        sizes += _stored_sizes(before, wanted)
        rest = set()
    return KnownFiles(live_sizes=sizes, is_complete=not rest)


def count_files(snapshot: Snapshot) -> Figures:
    """Count the figures of a version from the sizes of all its files."""
    sizes = snapshot.sizes()
    return Figures(
        num_files=len(sizes),
        size_bytes=pc.sum(sizes, min_count=0).as_py(),
        histogram=histogram_of_sizes(sizes.combine_chunks()),
    )


def is_possible(figures: Figures) -> bool:
    """Whether the figures are consistent: not negative, and equal to the histogram's sums."""
    histogram = figures.histogram
    if histogram is not None and (
        not histogram.is_possible
        or sum(histogram.file_counts) != figures.num_files
        or sum(histogram.total_bytes) != figures.size_bytes
    ):
        return False
    return figures.num_files >= 0 and figures.size_bytes >= 0


def _is_new(action: FileAction, written_ms: int) -> bool:
    """Whether an add names a file that was created after the checkpoint.

    An add with `dataChange` false does not count, since it may name a file of the checkpoint. Such
    a file looks newer than the checkpoint if the store's clock was set back between the two.
    """
    return (
        isinstance(action, AddFile) and action.data_change and action.modification_time > written_ms
    )


def _drop_files(paths: Set[str], files: FileRows) -> Set[str]:
    return paths - set(files.paths.to_pylist()) if len(files) else paths


def _stored_sizes(snapshot: Snapshot, wanted: pa.Array) -> list[int]:
    """Bytes of the live files with these paths, one number per file."""
    # Arrow hashes all wanted paths again for each table, so tables are at least as large.
    tables = regroup_tables(snapshot.stream_live(["size", CANONICAL_PATH]), len(wanted))
    found = pa.concat_tables(
        table.filter(pc.is_in(table[CANONICAL_PATH], value_set=wanted)) for table in tables
    )
    paths = found[CANONICAL_PATH]
    sizes: list[int] = found["size"].to_pylist()
    if hashes_differ([hash_keys(paths)]):
        return sizes
    # A checkpoint may name a file twice.
    return list(dict(zip(paths.to_pylist(), sizes, strict=True)).values())


def _select_paths(files: FileRows, wanted: pa.Array) -> FileRows:
    """The files with these paths. Takes time for each path in `wanted`, even without matches."""
    return files.filter(pc.is_in(files.paths, value_set=wanted)) if len(files) else files
