"""Remaining: tracks the unfinished part of a run's first plan across commits.

The planned groups stay the same, with their files as the latest log describes them; later files
wait for another run. After the groups are done, their outputs are combined if they fit: outputs are
smaller than their inputs. This rewrites files of the run again and leaves fewer files, so it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.plan import OptimizePlan, Planned
from delta_ops.maintenance.optimize.small_files import own_files_by_path
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.identity import only_moves_marks
from delta_ops.protocol.file_paths import canonical_path


class Remaining:
    """The groups that are left, and the outputs of groups that are done."""

    def __init__(self, planned: Planned, snapshot: Snapshot, max_bytes: int | None) -> None:
        self.plan = planned.plan
        self.files_left = 0
        """Planned files that another writer removed from the table before their turn."""
        self.plan_again = planned.plan_again
        self._snapshot = snapshot
        self._left_bytes = max_bytes
        self._loose = _index_by_path(planned.candidates or planned.plan.files)
        self._is_first = True

    @property
    def is_done(self) -> bool:
        """Whether nothing more can be planned; call it after a part is noted."""
        return not self.plan.has_work and (self._is_first or self.plan_again is None)

    def take(self, commit_bytes: int) -> tuple[OptimizePlan, Sequence[AddFile]]:
        """The groups of the next commit, and the files that they may be combined with."""
        part, self.plan = self.plan.split(commit_bytes)
        # A part uses only its own files; later commits use the others.
        is_all = self._is_first and not self.plan.has_work
        return part, list(self._loose.values()) if is_all else part.files

    def note(self, part: OptimizePlan, loose: Iterable[AddFile]) -> None:
        """Record a part that was done or given up.

        Args:
            loose: The unused files among the files that the part might have been combined with.
        """
        for add in part.files:
            self._loose.pop(add.path, None)
        self._loose |= _index_by_path(loose)
        if self._left_bytes is not None:
            self._left_bytes -= part.size_bytes

    def go_on(self, snapshot: Snapshot, plan: Callable[[Snapshot], Planned]) -> None:
        """Continue with the table as it is after a commit.

        Args:
            plan: Plans again if another writer changed more than files.
        """
        self._is_first = False
        before, self._snapshot = self._snapshot, snapshot
        if self.plan.has_work and _is_same_table(before, snapshot):
            self._take_files_of(snapshot)
        elif self.plan.has_work:
            self._take_plan(plan(snapshot))
        if not self.plan.has_work and self.plan_again is not None:
            found = _find_live(self._loose.values(), snapshot)
            again = self.plan_again(found.values())
            self.plan = again if self._left_bytes is None else again.take_within(self._left_bytes)

    def _take_files_of(self, snapshot: Snapshot) -> None:
        """Update the plan's files from the log: some are gone or have deletion vectors."""
        live = _find_live(self.plan.files, snapshot)
        self.files_left += self.plan.num_files - len(live)
        there = self.plan.keep_files(live, self._least)
        groups = (
            replace(group, files=tuple(live[add.path] for add in group.files))
            for group in there.groups
        )
        self.plan = replace(there, groups=tuple(groups))

    def _take_plan(self, planned: Planned) -> None:
        """Replace the plan by another plan, limited to its files."""
        num_files = self.plan.num_files
        self.plan_again = planned.plan_again
        self.plan = planned.plan.keep_files({add.path for add in self.plan.files}, self._least)
        self.files_left += max(num_files - self.plan.num_files, 0)

    @property
    def _least(self) -> int:
        """The minimum number of files in a group: a single file cannot be combined."""
        return 1 if self.plan_again is None else 2


def _find_live(adds: Iterable[AddFile], snapshot: Snapshot) -> dict[str, AddFile]:
    paths = [canonical_path(add.path, snapshot.uri) for add in adds]
    found = own_files_by_path(snapshot, pa.array(paths, pa.string()))
    return _index_by_path(found.values())


def _is_same_table(before: Snapshot, after: Snapshot) -> bool:
    """Whether a plan for one version applies to the other, apart from its files."""
    return (
        before.protocol == after.protocol
        and only_moves_marks(before.metadata, after.metadata)
        and before.clustering_columns == after.clustering_columns
    )


def _index_by_path(adds: Iterable[AddFile]) -> dict[str, AddFile]:
    return {add.path: add for add in adds}
