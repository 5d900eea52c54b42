"""File figures: how many live files there are, their bytes, and what a commit makes of that.

Source: PROTOCOL.md, "Action Reconciliation".

An add of a live file replaces what is known of it, and a remove of one that is not live leaves the
files as they are. So what a commit's actions come to depends on which of the files were live.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.reconciliation import FileRows, regroup_tables
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.actions import AddFile, FileAction
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.file_size_histogram import (
    EMPTY_HISTOGRAM,
    FileSizeHistogram,
    changed_histogram,
    histogram_of_sizes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a checksum says of the live files."""

    num_files: int
    size_bytes: int
    histogram: FileSizeHistogram | None


NO_FILES = Figures(num_files=0, size_bytes=0, histogram=EMPTY_HISTOGRAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """What was known of the files that a commit names, by canonical path, before it."""

    live: Mapping[str, int]
    """Their sizes in bytes."""
    absent: Set[str]
    """Files that were not live."""


def actions_by_path(files: Sequence[FileAction], table: str) -> dict[str, FileAction]:
    """File actions by the canonical paths of their files; fewer of them if a file stands twice.

    Args:
        table: The table's root.
    """
    return dict(zip(canonical_texts((action.path for action in files), table), files, strict=True))


def changed_figures(
    figures: Figures, actions: Mapping[str, FileAction], known: KnownFiles
) -> Figures | None:
    """The figures after a commit's file actions; None if they do not follow from what is known."""
    if actions.keys() - known.live.keys() - known.absent:
        return None
    added = [action.size for action in actions.values() if isinstance(action, AddFile)]
    # An add of a live file takes its place.
    removed = list(known.live.values())
    histogram = figures.histogram and changed_histogram(figures.histogram, added, removed)
    after = Figures(
        num_files=figures.num_files + len(added) - len(removed),
        size_bytes=figures.size_bytes + sum(added) - sum(removed),
        histogram=histogram,
    )
    return after if is_possible(after) else None


def known_files(
    before: Snapshot | None, actions: Mapping[str, FileAction], *, may_read: bool
) -> KnownFiles:
    """What is known of the files that a commit names.

    Args:
        may_read: Look those up in the checkpoint of which it is not known otherwise.
    """
    if before is None or not actions:
        return KnownFiles(live={}, absent=frozenset(actions))
    named = _array(actions)
    live = _sizes(before.tail.adds, named)
    gone = _paths(before.tail.removes, named) - live.keys()
    rest = actions.keys() - live.keys() - gone
    if before.checkpoint is None and before.base is None:
        return KnownFiles(live=live, absent=gone | rest)
    if before.checkpoint is not None:
        written_ms = max(part.modified_ms for part in before.checkpoint.parts)
        new = {path for path, action in actions.items() if _is_new(action, written_ms)}
        gone |= new & rest
        rest -= gone
    if rest and may_read:
        wanted = named if len(rest) == len(actions) else _array(rest)
        # Each time, Arrow takes in all that is wanted first.
        for found in regroup_tables(before.stream_live(["size", CANONICAL_PATH]), len(rest)):
            live |= _sizes(FileRows(rows=found, canonical=found[CANONICAL_PATH]), wanted)
        gone |= rest - live.keys()
    return KnownFiles(live=live, absent=gone)


def count_files(snapshot: Snapshot) -> Figures:
    """The figures of a version, from the sizes of all its files."""
    sizes = snapshot.sizes()
    return Figures(
        num_files=len(sizes),
        size_bytes=pc.sum(sizes, min_count=0).as_py(),
        histogram=histogram_of_sizes(sizes.combine_chunks()),
    )


def is_possible(figures: Figures) -> bool:
    """Whether there can be files of these figures."""
    histogram = figures.histogram
    if histogram is not None and (
        not histogram.is_possible
        or sum(histogram.file_counts) != figures.num_files
        or sum(histogram.total_bytes) != figures.size_bytes
    ):
        return False
    return figures.num_files >= 0 and figures.size_bytes >= 0


def _is_new(action: FileAction, written_ms: int) -> bool:
    """Whether a file was made after the checkpoint.

    One of which an add says something else, without a change of data, is live, and looks younger
    than a checkpoint that was written while the store's clock was set back.
    """
    return (
        isinstance(action, AddFile) and action.data_change and action.modification_time > written_ms
    )


def _sizes(files: FileRows, wanted: pa.Array) -> dict[str, int]:
    found = _select_paths(files, wanted)
    return dict(zip(found.paths.to_pylist(), found.rows["size"].to_pylist(), strict=True))


def _paths(files: FileRows, wanted: pa.Array) -> set[str]:
    return set(_select_paths(files, wanted).paths.to_pylist())


def _select_paths(files: FileRows, wanted: pa.Array) -> FileRows:
    """The files of these paths; to take the paths in, Arrow takes as long as there are of them."""
    return files.filter(pc.is_in(files.paths, value_set=wanted)) if len(files) else files


def _array(paths: Collection[str]) -> pa.Array:
    return pa.array(list(paths), pa.string())
