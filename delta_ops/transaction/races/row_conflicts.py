"""Row-level concurrency: commits that delete different rows of the same files by deletion vectors.

Source: PROTOCOL.md, "Deletion Vectors" (a file is identified by its path and its vector). No other
open engine does this; in the reference the later commit must run again.

The later commit unites its vector of a file with the winner's vector, under three conditions:

1. Our commit changes every row that it read, as DELETE and UPDATE do.
2. The winner left the file live, and restored no deleted row.
3. The two commits delete different rows. If the winner deleted a row that our commit had read, our
   commit would delete that row too.

After judging a file, this module drops it from the winner's actions. `conflicts` then judges the
other actions, including the rows that the winner added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from delta_ops.log.commit_file import Commit
from delta_ops.log.deletion_vectors import load_deletion_vector, write_deletion_vectors
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.actions import Action, AddFile, DeletionVector, RemoveFile
from delta_ops.protocol.arrow_schemas import add_files, remove_files
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.file_paths import canonical_path, canonical_paths
from delta_ops.transaction.races.conflicts import Conflict, Footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChange:
    """How the deletion vector of a file that stays live changes."""

    before: DeletionVector | None
    after: DeletionVector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebase:
    """The united deletion vectors of two commits, and the actions that remain to be checked."""

    winner: Commit
    """The winner without the judged files."""
    footprint: Footprint
    """Our footprint without the judged files."""
    united: Mapping[str, tuple[DeletionVector | None, BitMap64]]
    """By path of a file that both changed: the winner's vector, and all rows deleted by either."""


def judge_vectors(
    winner: Commit, ours: Footprint, actions: Sequence[Action], snapshot: Snapshot
) -> Rebase | Conflict:
    """Compare the deletion vectors of a winner with ours; a conflict if both delete the same row.

    Args:
        winner: A commit after the snapshot.
        ours: The rows and files that our commit reads and changes.
        actions: The actions of our commit.
        snapshot: The snapshot that our commit was prepared on.

    Raises:
        DataFileError: A vector is missing, or contradicts its descriptor.
        StorageError: The store failed.
    """
    theirs = _changes_of_winner(winner, snapshot.uri) if ours.changes_all_it_reads else {}
    own = _changes_of(actions, snapshot.uri) if theirs else {}
    united: dict[str, tuple[DeletionVector | None, BitMap64]] = {}
    judged: set[str] = set()
    for path, change in theirs.items():
        if path in ours.removed_paths and path not in own:
            continue  # our commit replaces all rows of the file
        before, after = (_load(snapshot, path, each) for each in (change.before, change.after))
        if not before <= after:
            continue  # the winner restored rows, so its change is not a deletion
        if path in own:
            deleted = _load(snapshot, path, own[path].after)
            if both := (deleted - before) & (after - before):
                return Conflict(
                    kind="delete delete",
                    version=winner.version,
                    reason=f"changed {len(both)} of the rows that this operation changes",
                    evidence=(path,),
                )
            united[path] = change.after, deleted | after
        judged.add(path)
    if not judged:
        return Rebase(winner=winner, footprint=ours, united=united)
    return Rebase(
        winner=replace(
            winner,
            adds=_drop(winner.adds, judged, snapshot.uri),
            removes=_drop(winner.removes, judged, snapshot.uri),
        ),
        footprint=replace(ours, removed_paths=ours.removed_paths - judged),
        united=united,
    )


def unite_vectors(
    actions: tuple[Action, ...], rebase: Rebase, snapshot: Snapshot
) -> tuple[Action, ...]:
    """Replace the vectors in the actions by the united vectors, written to a new file.

    Raises:
        StorageError: The store failed.
    """
    if not rebase.united:
        return actions
    rows = [each for _, each in rebase.united.values()]
    vectors = dict(zip(rebase.united, write_deletion_vectors(snapshot.storage, rows), strict=True))

    def unite(action: Action) -> Action:
        if not isinstance(action, AddFile | RemoveFile):
            return action
        path = canonical_path(action.path, snapshot.uri)
        if path not in vectors:
            return action
        if isinstance(action, AddFile):
            return replace(action, deletion_vector=vectors[path])
        return replace(action, deletion_vector=rebase.united[path][0])

    return tuple(map(unite, actions))


def _changes_of_winner(winner: Commit, table: str) -> dict[str, VectorChange]:
    if not len(winner.adds) or not len(winner.removes):
        return {}
    added = _paths(winner.adds, table)
    both = pc.unique(added.filter(pc.is_in(added, value_set=_paths(winner.removes, table))))
    kept = [
        each.filter(pc.is_in(_paths(each, table), value_set=both))
        for each in (winner.adds, winner.removes)
    ]
    return _changes_of([*add_files(kept[0]), *remove_files(kept[1])], table)


def _changes_of(actions: Sequence[Action], table: str) -> dict[str, VectorChange]:
    removed = {canonical_path(a.path, table): a for a in actions if isinstance(a, RemoveFile)}
    added = {canonical_path(a.path, table): a for a in actions if isinstance(a, AddFile)}
    return {
        path: VectorChange(before=removed[path].deletion_vector, after=add.deletion_vector)
        for path, add in added.items()
        if path in removed
    }


def _load(snapshot: Snapshot, path: str, vector: DeletionVector | None) -> BitMap64:
    if vector is None:
        return BitMap64()
    return load_deletion_vector(snapshot.table_files, snapshot.version, path, vector)


def _drop(actions: pa.Table, paths: set[str], table: str) -> pa.Table:
    is_judged = pc.is_in(_paths(actions, table), value_set=array_of(sorted(paths), pa.string()))
    return actions.filter(pc.invert(is_judged))


def _paths(actions: pa.Table, table: str) -> pa.Array:
    return canonical_paths(actions["path"].combine_chunks(), table)
