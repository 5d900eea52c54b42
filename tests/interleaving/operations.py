"""Operations: how each runs, its effect on rows, and the files it may delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import CommitResult, DeltaLog, begin, col
from delta_ops.ddl import change_type
from delta_ops.errors import InvalidRequestError, SessionEndedError
from delta_ops.log.refs.refs import refs_journal
from delta_ops.maintenance import (
    OptimizeResult,
    RepairResult,
    RestoreResult,
    RevertResult,
    clean_up_log,
    compact_log,
    create_checkpoint,
    create_scan_cache,
    drop_index,
    optimize,
    refresh_index,
    repair,
    restore,
    revert,
    vacuum,
)
from delta_ops.storage import Storage
from delta_ops.versioning import (
    Branch,
    PublishResult,
    Release,
    ReleaseSet,
    SessionResult,
    Tag,
    create_anchor,
    create_branch,
    create_release,
    create_tag,
    delete_branch,
    delete_tag,
    join_session,
    list_branches,
    list_tags,
    open_branch,
    publish,
    rebase_branch,
)
from tests.interleaving.scenes import INDEX, Rows, Scene, rows_of
from tests.interleaving.stepped_storage import SteppedStorage

Role = int
"""0 or 1: distinguishes two operations of one kind; they write other rows."""
Effect = Callable[[Rows, Scene, Role], Rows | None]
"""The effect on rows; None if it cannot follow the earlier operations."""
Takes = Literal["nothing", "old files", "removed files", "old commits", "the table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation on any scene."""

    name: str
    run: Callable[[DeltaLog, Scene, Role], object]
    effect: Effect = lambda rows, _scene, _role: rows
    scenes: tuple[str, ...] = ()
    """The scenes that suit the operation; none for any scene."""
    takes: Takes = "nothing"
    """The files that the operation may delete."""
    commits: bool = True
    """Whether it may leave a commit."""
    always_commits: bool = False
    is_many: bool = False
    """Whether it may leave several commits, while its answer names the last commit or none."""


NEW: Rows = ((90, "n"), (91, "n"))
"""The name of the table that replaces another table."""


def appended_rows(_scene: Scene, role: Role) -> Rows:
    return ((10 + role, "b"),)


def overwritten_rows(role: Role) -> Rows:
    return ((20 + role, "a"),)


def _append(log: DeltaLog, scene: Scene, role: Role) -> CommitResult:
    transaction = begin(log, clock=scene.clock)
    return da.write(transaction, rows_of(*appended_rows(scene, role)), txn=(f"append {role}", 1))


def _overwrite(log: DeltaLog, scene: Scene, role: Role) -> CommitResult:
    return da.write(begin(log, clock=scene.clock), rows_of(*overwritten_rows(role)), "overwrite")


def _delete_partition(log: DeltaLog, scene: Scene, _role: Role) -> CommitResult:
    nothing = rows_of()
    transaction = begin(log, clock=scene.clock)
    return da.write(transaction, nothing, "overwrite", replace_where=col("p") == "b")


def _delete_row(log: DeltaLog, scene: Scene, role: Role) -> CommitResult:
    """Each role deletes another row of one file, by its deletion vector."""
    return da.delete(begin(log, clock=scene.clock), col("id") == 1 + role)


def _update_row(log: DeltaLog, scene: Scene, role: Role) -> CommitResult:
    """A row that a deletion also deletes, or a row that no other operation changes."""
    transaction = begin(log, clock=scene.clock)
    return da.update(transaction, {"id": "id + 50"}, col("id") == 2 + role)


def _merge_rows(log: DeltaLog, scene: Scene, role: Role) -> CommitResult:
    return (
        da.merge(
            begin(log, clock=scene.clock),
            rows_of(*merged_rows(role)),
            "target.id = source.id",
            txn=(f"merge {role}", 1),
        )
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def merged_rows(role: Role) -> Rows:
    """One existing row, moved to another partition, and a new row."""
    return ((3 - role, "c"), (70 + role, "c"))


def _optimize(log: DeltaLog, scene: Scene, _role: Role) -> OptimizeResult:
    return optimize(log, clock=scene.clock)


def _restore(log: DeltaLog, scene: Scene, _role: Role) -> RestoreResult:
    return restore(log, version=scene.restored[0], clock=scene.clock)


def _restore_other(log: DeltaLog, scene: Scene, _role: Role) -> RestoreResult:
    return restore(log, version=scene.restored[1], clock=scene.clock)


def _revert(log: DeltaLog, scene: Scene, _role: Role) -> RevertResult:
    return revert(log, scene.reverted, clock=scene.clock)


def _repair(log: DeltaLog, scene: Scene, _role: Role) -> RepairResult:
    return repair(log, clock=scene.clock)


def _vacuum(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return vacuum(log, retention=timedelta(0), enforce_retention=False, clock=scene.late_clock)


def _vacuum_lite(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return vacuum(
        log,
        retention=timedelta(0),
        enforce_retention=False,
        mode="lite",
        clock=scene.late_clock,
    )


def _vacuum_retaining(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return vacuum(log, clock=scene.late_clock)


def _clean_up(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return clean_up_log(log, clock=scene.clock)


def _compact(log: DeltaLog, _scene: Scene, _role: Role) -> object:
    return compact_log(log)


def _checkpoint(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return create_checkpoint(log, clock=scene.clock)


def _checkpoint_parts(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return create_checkpoint(log, part_rows=1, clock=scene.clock)


def _cache(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return create_scan_cache(log, clock=scene.clock)


def _refresh_index(log: DeltaLog, scene: Scene, _role: Role) -> object:
    return refresh_index(log, INDEX, clock=scene.clock)


def _drop_index(log: DeltaLog, _scene: Scene, _role: Role) -> object:
    return drop_index(log, INDEX)


def _widen(log: DeltaLog, _scene: Scene, _role: Role) -> CommitResult:
    return change_type(log, "id", "bigint")


def _tag(log: DeltaLog, scene: Scene, role: Role) -> Tag:
    return create_tag(log, f"tag-{role}", scene.restored[0], clock=scene.clock)


def _branch(log: DeltaLog, scene: Scene, role: Role) -> Branch:
    """Create a branch of an old version, and append to it."""
    branch = _new_branch(log, scene, role, scene.restored[0])
    _append_to(log, branch, scene, role)
    return branch


def _publish(log: DeltaLog, scene: Scene, role: Role) -> PublishResult:
    """Create a branch of the latest version, append to it, and publish it."""
    branch = _new_branch(log, scene, role, None)
    _append_to(log, branch, scene, role)
    return publish(log, branch.name, rebase=True, clock=scene.clock)


def _rebase(log: DeltaLog, scene: Scene, role: Role) -> Branch:
    """Create a branch of an old version, append to it, and rebase it."""
    branch = _new_branch(log, scene, role, scene.restored[0])
    _append_to(log, branch, scene, role)
    return rebase_branch(log, branch.name, clock=scene.clock)


def _delete_refs(log: DeltaLog, scene: Scene, role: Role) -> None:
    """Create a tag and a branch of an old version, and delete both."""
    branch = _new_branch(log, scene, role, scene.restored[0])
    _append_to(log, branch, scene, role)
    delete_branch(log, branch.name, clock=scene.clock)
    name = f"deleted-{role}"
    if name not in refs_journal(log.storage).load().state.deleted_tags:
        create_tag(log, name, scene.restored[0], clock=scene.clock)
        delete_tag(log, name, clock=scene.clock)


def _new_branch(log: DeltaLog, scene: Scene, role: Role, version: int | None) -> Branch:
    """Create the branch of this role, or find the branch that a killed run created."""
    name = f"branch-{role}"
    try:
        return create_branch(
            log,
            name,
            version=version,
            expires_in=timedelta(days=36_500),
            enforce_retention=False,
            clock=scene.clock,
        )
    except InvalidRequestError:
        (created,) = [each for each in list_branches(log) if each.name == name]
        return created


def _append_to(log: DeltaLog, branch: Branch, scene: Scene, role: Role) -> None:
    transaction = begin(open_branch(log, branch.name), clock=scene.clock)
    da.write(transaction, rows_of(*branched_rows(role)), txn=(f"branch {role}", 1))


def branched_rows(role: Role) -> Rows:
    return ((40 + role, "b"),)


def _session(log: DeltaLog, scene: Scene, role: Role) -> SessionResult:
    """Begin a session, append in a step of it, and commit it."""
    return _append_in_session(log, scene, role, timedelta(days=7))


def _brief_session(log: DeltaLog, scene: Scene, role: Role) -> SessionResult:
    """A session that each vacuum finds expired, by its later clock."""
    return _append_in_session(log, scene, role, timedelta(minutes=30))


def _append_in_session(
    log: DeltaLog, scene: Scene, role: Role, expires_in: timedelta
) -> SessionResult:
    session = join_session(
        log,
        f"session-{role}",
        expires_in=expires_in,
        enforce_retention=False,
        clock=scene.clock,
    )
    try:
        step = begin(session.fork("load"), clock=scene.clock)
        da.write(step, rows_of(*session_rows(role)))
    except SessionEndedError:
        return session.commit()  # a killed run has begun the commit, or a vacuum has ended it
    return session.commit(expected_steps=["load"], txn=(f"session {role}", 1))


def session_rows(role: Role) -> Rows:
    return ((60 + role, "b"),)


class _StorageOfSet:
    """The storage of the table at another address: one schedule has the calls of both."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.uri = f"{inner.uri}/releases"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _release(log: DeltaLog, scene: Scene, role: Role) -> Release:
    """Release an old version, in a set beside the table's own files."""
    of_set = cast("Storage", _StorageOfSet(log.storage))
    return create_release(
        ReleaseSet("releases", storage=of_set, tables={"t": log}),
        {"t": log},
        versions={"t": scene.restored[0]},
        message=f"release {role}",
        allow_older=True,
        clock=scene.clock,
    )


def _anchor(log: DeltaLog, scene: Scene, role: Role) -> Tag:
    """Tag an old version, and write its anchor."""
    name = f"anchored-{role}"
    try:
        tag = create_tag(log, name, scene.restored[0], clock=scene.clock)
    except InvalidRequestError:
        (tag,) = [each for each in list_tags(log) if each.name == name]
    create_anchor(log, f"tag:{name}", clock=scene.clock)
    return tag


def _create(log: DeltaLog, scene: Scene, role: Role) -> CommitResult:
    data = rows_of(*appended_rows(scene, role))
    transaction = begin(log, clock=scene.clock)
    return da.write(transaction, data, partition_by=["p"], txn=(f"append {role}", 1))


def _drop_and_create(log: DeltaLog, scene: Scene, _role: Role) -> CommitResult:
    """Drop the table; create one with other columns and the same number of versions."""
    _drop(log)
    for number, _ in NEW[:-1]:
        da.write(begin(log, clock=scene.clock), pa.table({"number": [number]}))
    return da.write(begin(log, clock=scene.clock), pa.table({"number": [NEW[-1][0]]}))


def _drop_and_create_shorter(log: DeltaLog, scene: Scene, _role: Role) -> CommitResult:
    _drop(log)
    numbers = [number for number, _ in NEW]
    return da.write(begin(log, clock=scene.clock), pa.table({"number": numbers}))


def _drop(log: DeltaLog) -> None:
    """Delete the directory as a move would, with files that appear meanwhile."""
    assert isinstance(log.storage, SteppedStorage)
    while paths := [info.path for info in log.storage.list_tree("")]:
        log.storage.delete_at_once(paths)


def _add_appended(rows: Rows, scene: Scene, role: Role) -> Rows | None:
    """A rerun finds its rows and adds none."""
    new = appended_rows(scene, role)
    return None if set(new) & set(rows) else (*rows, *new)


def _add_in_session(rows: Rows, _scene: Scene, role: Role) -> Rows | None:
    """A rerun finds its rows and adds none."""
    new = session_rows(role)
    return None if set(new) & set(rows) else (*rows, *new)


def _without_row(rows: Rows, _scene: Scene, role: Role) -> Rows:
    return tuple(row for row in rows if row[0] != 1 + role)


def _updated_row(rows: Rows, _scene: Scene, role: Role) -> Rows:
    return tuple((number + 50 * (number == 2 + role), p) for number, p in rows)


def _merge_into(rows: Rows, _scene: Scene, role: Role) -> Rows | None:
    """A rerun finds its rows and changes none."""
    new = merged_rows(role)
    ids = {number for number, _ in new}
    return None if set(new) & set(rows) else (*(r for r in rows if r[0] not in ids), *new)


def _restored_rows(rows: Rows, scene: Scene, _role: Role) -> Rows | None:
    return scene.versions[scene.restored[0]] if scene.versions else rows


def _restored_other(rows: Rows, scene: Scene, _role: Role) -> Rows | None:
    return scene.versions[scene.restored[1]] if scene.versions else rows


def _reverted_rows(rows: Rows, scene: Scene, _role: Role) -> Rows | None:
    if not scene.versions:
        return None
    before, after = (set(scene.versions[scene.reverted - n]) for n in (1, 0))
    brought, taken = after - before, before - after
    if not brought <= set(rows) or taken & set(rows):
        return None
    return tuple(sorted((set(rows) - brought) | taken))


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            name="append",
            always_commits=True,
            run=_append,
            effect=_add_appended,
        ),
        Operation(
            name="overwrite",
            always_commits=True,
            run=_overwrite,
            effect=lambda _rows, _scene, role: overwritten_rows(role),
        ),
        Operation(
            name="delete-partition",
            always_commits=True,
            run=_delete_partition,
            effect=lambda rows, _scene, _role: tuple(row for row in rows if row[1] != "b"),
        ),
        Operation(
            name="delete-row",
            run=_delete_row,
            effect=_without_row,
            scenes=("vectors", "vectors narrow"),
        ),
        Operation(
            name="update-row",
            run=_update_row,
            effect=_updated_row,
            scenes=("vectors", "vectors narrow"),
        ),
        Operation(
            name="merge-rows",
            always_commits=True,
            run=_merge_rows,
            effect=_merge_into,
            scenes=("vectors", "vectors narrow"),
        ),
        Operation(name="widen", run=_widen, scenes=("vectors narrow",)),
        Operation(name="optimize", run=_optimize),
        Operation(name="merge-runs", run=_optimize, scenes=("sorted",)),
        Operation(name="restore", run=_restore, effect=_restored_rows),
        Operation(name="restore-other", run=_restore_other, effect=_restored_other),
        Operation(name="revert", run=_revert, effect=_reverted_rows),
        Operation(name="repair", run=_repair),
        Operation(name="vacuum", run=_vacuum, takes="removed files", is_many=True),
        Operation(name="vacuum-lite", run=_vacuum_lite, takes="removed files", is_many=True),
        Operation(name="vacuum-retaining", run=_vacuum_retaining, takes="old files", is_many=True),
        Operation(name="clean-up", run=_clean_up, takes="old commits", commits=False),
        Operation(name="tag", run=_tag, commits=False),
        Operation(name="branch", run=_branch, commits=False),
        Operation(name="rebase", run=_rebase, commits=False),
        Operation(name="delete-refs", run=_delete_refs, commits=False),
        Operation(
            name="publish",
            always_commits=True,
            run=_publish,
            effect=lambda rows, _scene, role: (*rows, *branched_rows(role)),
        ),
        Operation(
            name="session",
            always_commits=True,
            run=_session,
            effect=_add_in_session,
        ),
        Operation(
            name="session-brief",
            always_commits=True,
            run=_brief_session,
            effect=_add_in_session,
        ),
        Operation(name="release", run=_release, commits=False),
        Operation(name="anchor", run=_anchor, commits=False),
        Operation(name="compact", run=_compact, commits=False),
        Operation(name="checkpoint", run=_checkpoint, commits=False),
        Operation(name="checkpoint-parts", run=_checkpoint_parts, commits=False),
        Operation(name="checkpoint-v2", run=_checkpoint, commits=False, scenes=("aged v2",)),
        Operation(name="cache", run=_cache, commits=False, scenes=("indexed",)),
        Operation(name="refresh-index", run=_refresh_index, commits=False, scenes=("indexed",)),
        Operation(name="drop-index", run=_drop_index, commits=False, scenes=("indexed",)),
        Operation(
            name="append-due",
            always_commits=True,
            run=_append,
            effect=_add_appended,
            scenes=("aged due",),
        ),
        Operation(
            name="create",
            always_commits=True,
            run=_create,
            effect=_add_appended,
            scenes=("empty",),
        ),
        Operation(
            name="drop-create",
            run=_drop_and_create,
            effect=lambda _rows, _scene, _role: NEW,
            takes="the table",
            is_many=True,
            scenes=("young", "indexed"),
        ),
        Operation(
            name="drop-create-shorter",
            run=_drop_and_create_shorter,
            effect=lambda _rows, _scene, _role: NEW,
            takes="the table",
            is_many=True,
            scenes=("young", "indexed"),
        ),
    )
}
