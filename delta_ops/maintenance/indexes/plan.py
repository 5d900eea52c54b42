"""Plans the refresh of an index: files to read, and runs to replace. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.maintenance.indexes.state import CoveringRun, IndexState, LiveFiles
from delta_ops.protocol.arrow_values import array_of, numpy_of

RUN_ENTRIES = 16 << 20
"""Maximum number of entries in a run, which is sorted in memory."""
_TIER_RUNS = 8
"""Number of runs of similar size that are merged into one."""
_TIER_RATIO = 8
_SMALLEST_TIER = 1 << 16
_DEAD_SHARE = 0.25
"""A run is rewritten if no version needs this share of its files."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplacedRun:
    """A run to replace, and the covered files to keep."""

    run: CoveringRun
    keep: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefreshPlan:
    """The work of a refresh."""

    to_read: pa.Table
    """Live files to index, as rows of `arrow_schemas.ADD`."""
    to_read_bytes: int
    num_left: int
    """Live files that stay without an index for now, because of the byte budget."""
    merged: Sequence[ReplacedRun]
    """Runs that become one run."""
    removed: Sequence[str]
    """Paths of runs that are removed: unusable, or of files that no version needs."""

    @property
    def has_work(self) -> bool:
        """Whether the refresh changes the index."""
        return bool(len(self.to_read) or self.merged or self.removed)


def plan_refresh(
    state: IndexState,
    live: LiveFiles,
    needed: Collection[str] | None,
    *,
    unreadable: Collection[str] = (),
    max_bytes: int | None = None,
) -> RefreshPlan:
    """Choose the files to index and the runs to replace.

    Args:
        state: The index.
        live: The live files of the latest version.
        needed: Decoded paths of the files that some kept version needs; None: all covered files.
        unreadable: Decoded paths of files that could not be read.
        max_bytes: Maximum bytes of the files to read; one file may have more.
    """
    is_new = ~state.is_covered(live)
    if unreadable:
        is_new &= ~numpy_of(pc.is_in(live.paths, value_set=array_of(sorted(unreadable))))
    uncovered = np.flatnonzero(is_new)
    sizes = numpy_of(live.adds["size"])[uncovered]
    count = len(uncovered)
    if max_bytes is not None:
        count = max(int(np.searchsorted(sizes.cumsum(), max_bytes, "right")), min(1, count))
    kept = [ReplacedRun(run=each, keep=_needed_files(each, needed)) for each in state.runs]
    dead = [each for each in kept if not each.keep.any()]
    others = [each for each in kept if each.keep.any()]
    return RefreshPlan(
        to_read=live.adds.take(array_of(uncovered[:count])),
        to_read_bytes=int(sizes[:count].sum()),
        num_left=len(uncovered) - count,
        merged=_choose_merged(others),
        removed=[*state.unusable, *(each.run.path for each in dead)],
    )


def _needed_files(run: CoveringRun, needed: Collection[str] | None) -> npt.NDArray[np.bool_]:
    if needed is None:
        return np.ones(len(run.covered), dtype=bool)
    paths = run.covered["path"].combine_chunks()
    found = [path in needed for path in paths.to_pylist()]
    return np.array(found, dtype=bool)


def _choose_merged(runs: Sequence[ReplacedRun]) -> Sequence[ReplacedRun]:
    """Runs of one tier if the tier is full, else a run that has many files no version needs."""
    tiers: dict[int, list[ReplacedRun]] = {}
    for each in runs:
        tiers.setdefault(_tier(each.run.opened.run.num_entries), []).append(each)
    for _, of_tier in sorted(tiers.items()):
        if len(of_tier) >= _TIER_RUNS:
            return _fitting(of_tier)
    dead = [each for each in runs if 1 - each.keep.mean() >= _DEAD_SHARE]
    return dead[:1]


def _fitting(runs: Sequence[ReplacedRun]) -> Sequence[ReplacedRun]:
    """The smallest runs that make one run; none if only one of them fits."""
    chosen, num_entries = [], 0
    for each in sorted(runs, key=lambda run: run.run.opened.run.num_entries):
        num_entries += each.run.opened.run.num_entries
        if num_entries > RUN_ENTRIES:
            break
        chosen.append(each)
    return chosen if len(chosen) > 1 else ()


def _tier(num_entries: int) -> int:
    tier, limit = 0, _SMALLEST_TIER
    while num_entries > limit:
        tier, limit = tier + 1, limit * _TIER_RATIO
    return tier
