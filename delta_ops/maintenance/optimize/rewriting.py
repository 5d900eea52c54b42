"""Rewriting: executes an optimize plan until no more files can be combined.

Outputs are smaller than their inputs together. Where a partition has several groups, a rewrite of a
few files shows first how much smaller. Several outputs may still fit into one file again, so each
round plans on the results of the round before. A group with an output of an earlier round is
rewritten from the original live files, because an engine reads only files of the table. Every
round leaves fewer files, so it ends; groups that an engine cannot combine stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from delta_ops.arrow.engine import ARROW
from delta_ops.arrow.read.reading import DECODED
from delta_ops.arrow.rewrite.ordered_rewrite import MEMORY_BYTES
from delta_ops.arrow.rewrite.rewrite import rewrite
from delta_ops.arrow.write.data_file import discard
from delta_ops.arrow.write.written_files import all_or_none
from delta_ops.errors import DataFileError
from delta_ops.events import Progress
from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.cubes import (
    mark_cube,
    order_tags,
    shared_provider,
    shared_tags,
)
from delta_ops.maintenance.optimize.plan import OptimizePlan, Partition, PlanAgain, partition_of
from delta_ops.maintenance.optimize.run_tags import mark_run
from delta_ops.maintenance.optimize.small_files import own_files_by_path
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.columns.identity import only_moves_marks
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.storage.concurrency import MAX_CONCURRENCY
from delta_ops.transaction import KeyOrder, RewriteGroup, Staged, Transaction
from delta_ops.transaction.engine import Engine, RewriteFiles
from delta_ops.transaction.write_rules import num_rows

_HELD_BYTES = MEMORY_BYTES // 3
"""Approximate bytes of rows in memory per thread, for a group of any size."""
_SAMPLE_BYTES, _SAMPLED_SHARE = 4 << 20, 16
"""A sample has at most these bytes, and at most a sixteenth of its partition."""
_ASSUMED_BYTES_PER_BYTE = 0.8
"""For several groups of files that are too large or too few for a sample: a file that is a quarter
larger than the target does less harm than outputs that are rewritten to fit together."""
_LEAST_BYTES_PER_BYTE = 0.5
"""A file is at most this much smaller than planned, or larger by the inverse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Live files, and the new files that hold their rows."""

    inputs: tuple[AddFile, ...]
    staged: Staged


class Rewriting:
    """The rewrites of one commit of `optimize`; tracks the files that it has written."""

    def __init__(
        self,
        transaction: Transaction,
        snapshot: Snapshot,
        engine: Engine | RewriteFiles,
        *,
        done: int = 0,
        to_come: int = 0,
    ) -> None:
        """Create the state of a run that has written no file.

        Args:
            done: Number of groups in earlier commits of the run, for progress.
            engine: An engine rewrites several groups in parallel, a function one by one.
            to_come: Number of groups in later commits.
        """
        self.transaction, self.snapshot = transaction, snapshot
        engine = ARROW if engine is rewrite else engine
        self._engine = engine if isinstance(engine, Engine) else None
        self._rewrite_files = engine.rewrite if isinstance(engine, Engine) else engine
        self.done, self._to_come = done, to_come
        self.loose: Sequence[AddFile] = ()
        """Files that may be combined with outputs of other commits."""
        self.lost_files = 0
        """Files of groups that were given up."""
        self._earlier: dict[str, Rewrite] = {}  # by the path of the only file written
        self._final: list[Rewrite] = []

    @property
    def rewrites(self) -> list[Rewrite]:
        """The rewrites that count; no file is in two of them."""
        return [*self._final, *self._earlier.values()]

    @property
    def inputs(self) -> list[AddFile]:
        """The live files that are replaced."""
        return [add for each in self.rewrites for add in each.inputs]

    @property
    def outputs(self) -> list[AddFile]:
        """The new files that replace the inputs."""
        return [add for each in self.rewrites for add in each.staged.adds]

    def run(self, files: Iterable[AddFile], plan: OptimizePlan, plan_again: PlanAgain) -> None:
        """Rewrite until nothing more is planned.

        Args:
            files: The live files that may be combined.

        Raises:
            DataFileError: A file does not hold the rows that the log says, or cannot be read.
        """
        loose = {add.path: add for add in files}

        def note(group: RewriteGroup, staged: Staged) -> None:
            for add in group.files:
                loose.pop(add.path, None)
            loose.update((add.path, add) for add in self._note(group, staged))

        ratio = self._measure_ratio(plan, loose)
        if ratio < 1:
            cut = tuple(group for group in plan.groups if len(group.files) == 1)
            planned = plan_again(loose.values(), ratio)
            plan = replace(planned, groups=(*cut, *planned.groups))
        while plan.has_work:
            self._rewrite_all(plan.groups, note)
            plan = plan_again(loose.values())
        self.loose = list(loose.values())

    def _measure_ratio(self, plan: OptimizePlan, loose: Mapping[str, AddFile]) -> float:
        """Bytes of output per byte of input, by a sample if possible.

        It is 1 if no output could be combined with another group or file of its partition.

        Args:
            loose: The files that may be combined, by path.
        """
        by_partition: dict[Partition, list[RewriteGroup]] = {}
        for group in plan.groups:
            if len(group.files) > 1:
                by_partition.setdefault(partition_of(group.files[0]), []).append(group)
        planned = {add.path for group in plan.groups for add in group.files}
        left = {partition_of(add) for path, add in loose.items() if path not in planned}
        several = [
            groups
            for partition, groups in by_partition.items()
            if len(groups) > 1 or partition in left
        ]
        if not several:
            return 1.0
        largest = max(several, key=lambda groups: sum(group.size_bytes for group in groups))
        sample = _sample([add for group in largest for add in group.files])
        if len(sample) < 2:
            return _ASSUMED_BYTES_PER_BYTE
        size = sum(add.size for add in sample)
        group = RewriteGroup(files=sample, target_size_bytes=size)
        staged = self._rewrite(group, self._rewrite_files)
        discard(self.transaction.log.storage, staged.adds)
        written = sum(add.size for add in staged.adds)
        return min(max(written / size, _LEAST_BYTES_PER_BYTE), 1.0)

    def run_once(self, plan: OptimizePlan) -> None:
        """Rewrite each group once; its outputs are final.

        Raises:
            DataFileError: A file does not hold the rows that the log says, or cannot be read.
        """
        is_clustered = bool(self.snapshot.clustering_columns)

        def note(group: RewriteGroup, staged: Staged) -> None:
            if isinstance(group.order, KeyOrder):
                staged = replace(staged, adds=mark_run(staged.adds))
            elif group.order is not None:
                tags = order_tags(self.snapshot, group.order)
                adds = mark_cube(staged.adds, tags, is_clustered=is_clustered)
                staged = replace(staged, adds=adds)
            self._final.append(Rewrite(inputs=group.files, staged=staged))

        self._rewrite_all(plan.groups, note)

    def drop_changed_groups(self, new: Snapshot) -> bool:
        """Give up groups with changed files; return whether the others can be committed.

        A file with a changed deletion vector counts as changed: the newly deleted rows are gone.
        Call it only after a failed commit: the new files of lost groups are deleted.

        Args:
            new: The version to commit on.
        """
        old = self.snapshot
        if old.protocol != new.protocol or not only_moves_marks(old.metadata, new.metadata):
            return False
        live = own_files_by_path(new, array_of(_paths(self.inputs, new), pa.string()))
        lost = [each for each in self.rewrites if not _are_live(each.inputs, live, new)]
        if not lost or len(lost) == len(self.rewrites):
            return False
        self.lost_files += sum(len(each.inputs) for each in lost)
        self._final = [each for each in self.rewrites if each not in lost]
        self._earlier = {}
        discard(new.storage, [add for each in lost for add in each.staged.adds])
        return True

    def undo(self) -> None:
        """Delete the written files, which no version names or will name."""
        discard(self.transaction.log.storage, self.outputs)

    def _rewrite_all(
        self, groups: Sequence[RewriteGroup], note: Callable[[RewriteGroup, Staged], None]
    ) -> None:
        """Rewrite groups that share no file, several at a time if possible, and record each."""
        total = self.done + len(groups) + self._to_come

        def take(written: tuple[int, Staged]) -> None:
            number, staged = written
            note(groups[number], staged)
            self.done += 1
            self._report(self.done, total)

        num_at_once = self._num_at_once(groups)
        if self._engine is None or num_at_once < 2:
            for number, group in enumerate(groups):
                take((number, self._rewrite(self._live_group(group), self._rewrite_files)))
            return
        with self._engine.together() as calls, all_or_none(self.snapshot.storage) as files:

            def write(number: int, rewrite_files: RewriteFiles) -> tuple[int, Staged]:
                staged = self._rewrite(self._live_group(groups[number]), rewrite_files)
                files.keep(staged.adds)
                return number, staged

            writes = (
                (
                    min(group.size_bytes * DECODED, _HELD_BYTES) if calls is None else 0,
                    partial(
                        write,
                        number,
                        self._rewrite_files if calls is None else calls.bind(self._rewrite_files),
                    ),
                )
                for number, group in enumerate(groups)
            )
            cancel = None if calls is None else calls.cancel
            try:
                files.write_all(
                    writes, MEMORY_BYTES, num_at_once, on_written=take, on_failure=cancel
                )
            except BaseException:
                if cancel is not None:
                    cancel()
                raise

    def _num_at_once(self, groups: Sequence[RewriteGroup]) -> int:
        """How many groups are rewritten at the same time.

        Each group then has its own thread, which neither waits for another nor passes rows on.
        Sorting rows needs all memory, or all of Spark's tasks.
        """
        is_sorted = any(group.order is not None for group in groups)
        if self._engine is None or len(groups) == 1 or is_sorted:
            return 1
        num_at_once = self._engine.num_rewrites_at_once()
        # The stores share the thread pool of that size, and long calls would block it.
        return num_at_once - 1 if num_at_once == MAX_CONCURRENCY else num_at_once

    def _live_group(self, group: RewriteGroup) -> RewriteGroup:
        """The group with live files instead of outputs of earlier rounds."""
        if not any(add.path in self._earlier for add in group.files):
            return group
        inputs = tuple(
            live
            for add in group.files
            for live in (self._earlier[add.path].inputs if add.path in self._earlier else (add,))
        )
        # The plan uses the sizes of earlier outputs. By the sizes of the inputs, one file would be
        # too small.
        target = max(group.target_size_bytes, sum(add.size for add in inputs))
        return RewriteGroup(files=inputs, target_size_bytes=target)

    def _note(self, group: RewriteGroup, staged: Staged) -> Sequence[AddFile]:
        """Keep a useful output of a group and return the files for the next plan."""
        adds = staged.adds
        # A single file was to be cut; if the engine cannot cut it, it stays as it is.
        is_useful = len(adds) > 1 if len(group.files) == 1 else len(adds) < len(group.files)
        if not is_useful:
            discard(self.transaction.log.storage, adds)
            return ()
        earlier = [self._earlier[add.path] for add in group.files if add.path in self._earlier]
        made = Rewrite(inputs=self._live_group(group).files, staged=staged)
        # Recorded before the replaced outputs are deleted, so that an interrupt loses nothing.
        if len(adds) == 1:
            self._earlier[adds[0].path] = made
        else:
            self._final.append(made)
        for each in earlier:
            discard(self.transaction.log.storage, each.staged.adds)
            del self._earlier[each.staged.adds[0].path]
        return adds if len(adds) == 1 else ()

    def _rewrite(self, group: RewriteGroup, rewrite_files: RewriteFiles) -> Staged:
        """Rewrite a group and keep the tags that all its files share."""
        staged = rewrite_files(self.snapshot, group)
        try:
            _validate_row_counts(group.files, staged, self.snapshot)
        except BaseException:
            discard(self.transaction.log.storage, staged.adds)
            raise
        tags, provider = shared_tags(group.files), shared_provider(group.files)
        adds = (
            replace(
                add,
                data_change=False,
                tags={**tags, **(add.tags or {})} or None,
                clustering_provider=provider,
            )
            for add in staged.adds
        )
        return replace(staged, adds=tuple(adds))

    def _report(self, done: int, total: int) -> None:
        self.transaction.on_event(
            Progress(table=self.snapshot.uri, operation="optimize", done=done, total=total)
        )


def _sample(files: Sequence[AddFile]) -> tuple[AddFile, ...]:
    """Choose files of a small part of all bytes, spread evenly."""
    total = sum(add.size for add in files)
    count = len(files) * min(_SAMPLE_BYTES, total // _SAMPLED_SHARE) // max(total, 1)
    return tuple(files[number * len(files) // count] for number in range(count))


def _validate_row_counts(inputs: Sequence[AddFile], staged: Staged, snapshot: Snapshot) -> None:
    for files in (inputs, staged.adds):
        known = num_rows(files)
        if known is not None and known != staged.num_rows:
            raise DataFileError(
                snapshot.uri,
                snapshot.version,
                canonical_path(inputs[0].path, snapshot.uri),
                f"and the other files of its group have {staged.num_rows} rows, but their "
                f"statistics count {known}; nothing was committed. Restore the files, or "
                "overwrite them if their rows are correct",
            )


def _are_live(adds: Sequence[AddFile], live: Mapping[str, AddFile], snapshot: Snapshot) -> bool:
    """Whether files are unchanged: a path and a deletion vector identify a file.

    Source: PROTOCOL.md, "Add File and Remove File".
    """
    return all(
        path in live and live[path].deletion_vector == add.deletion_vector
        for path, add in zip(_paths(adds, snapshot), adds, strict=True)
    )


def _paths(adds: Sequence[AddFile], snapshot: Snapshot) -> list[str]:
    return [canonical_path(add.path, snapshot.uri) for add in adds]
