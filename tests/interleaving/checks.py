"""Checks: what must hold after two operations, in whatever order they ran.

Every acknowledged row is there once, every retained version reads, no named file is missing,
another engine reads the same, both operations' answers are true.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DataFileError,
    DeltaOpsError,
    InvalidRequestError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log import Snapshot
from delta_ops.log.checksum import validate_checksum
from tests.interleaving.operations import NEW, Operation
from tests.interleaving.scenes import Rows, Scene, paths_in, rows_in
from tests.interleaving.schedule import Order
from tests.interleaving.turns import Outcome, Run
from tests.tables import rows

_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class Actor:
    """An operation under the name that it has in an order."""

    name: str
    operation: Operation
    role: int
    is_rerun: bool = False

    def effect(self, rows: Rows, scene: Scene) -> Rows | None:
        return self.operation.effect(rows, scene, self.role)


@dataclass(frozen=True, slots=True)
class Created:
    """A commit file that an operation created."""

    version: int
    who: str
    at: int
    """Its place among the steps."""


@dataclass(frozen=True, slots=True)
class Case:
    """An order that was run, and all that is known of it."""

    scene: Scene
    root: Path
    order: Order
    run: Run
    actors: Mapping[str, Actor]

    @property
    def is_dropped(self) -> bool:
        return any(step.call.method == "delete_at_once" for step in self.run.steps)

    def created(self, who: str = "") -> list[Created]:
        """All commits, in the order of the steps; of one operation."""
        found: list[Created] = []
        for at, step in enumerate(self.run.steps):
            if step.call.method == "create" and step.error in ("", "the answer is lost"):
                match = _COMMIT.fullmatch(min(step.call.writes))
                if match and who in ("", step.who):
                    found.append(Created(int(match[1]), step.who, at))
        return found

    def left(self) -> dict[int, Created]:
        """The commits that are there at the end, of those that were created."""
        kept: dict[int, Created] = {}
        for created in self.created():
            kept[created.version] = created
        log = self.root / "_delta_log"
        return {version: c for version, c in kept.items() if (log / f"{version:020}.json").exists()}

    def last_look(self, created: Created) -> int:
        """The place of the last listing of the log by which the commit was made."""
        return max(
            at
            for at, step in enumerate(self.run.steps[: created.at])
            if step.who == created.who and "_delta_log" in step.call.lists
        )

    def span(self, who: str) -> tuple[int, int]:
        """The places of its first and last step."""
        places = [at for at, step in enumerate(self.run.steps) if step.who == who]
        return (places[0], places[-1]) if places else (0, 0)


def complaints(case: Case) -> list[str]:
    """What does not hold, a sentence each."""
    found = [text for name in case.run.outcomes for text in _untrue_answer(case, name)]
    try:
        found += _dropped(case) if case.is_dropped else _whole(case)
    except DeltaOpsError as error:
        found.append(f"the table cannot be read: {type(error).__name__}: {error}")
    except Exception as error:
        found.append(f"a look at the table raised {type(error).__name__}: {error}")
    return found


def _whole(case: Case) -> Iterator[str]:
    """Of a table that stayed where it was."""
    log = DeltaLog(case.root)
    left = case.left()
    base = len(case.scene.versions)
    if sorted(left) != list(range(base, base + len(left))) or len(left) < len(case.created()):
        yield f"commits {sorted(left)} follow version {base - 1}"
        return
    for actor in case.actors.values():
        count = sum(c.who in (actor.name, actor.name + " again") for c in left.values())
        if actor.operation.is_once and not actor.is_rerun and count > 1:
            yield f"{actor.name} was committed {count} times"
        if not actor.operation.commits and count:
            yield f"{actor.name} committed"
    if not left and not base:
        return
    latest = log.snapshot()
    if latest.version != base + len(left) - 1:
        yield f"the latest version is {latest.version}, and {sorted(left)} were committed"
    missing = sorted(path for path in paths_in(latest) if not (case.root / path).exists())
    if missing:
        yield f"version {latest.version} names {', '.join(missing)}, which is not there"
        return
    table = da.to_table(latest)
    expected = serial_outcomes(case, left)
    if rows_in(table) not in expected:
        yield f"version {latest.version} holds {rows_in(table)}, not {' or '.join(map(str, expected))}"
    validate_checksum(latest)
    if case.scene.held is not None:
        yield from _unlike_held(case, latest, log)
    yield from _unlike_deltalake(case, table)
    yield from _lost_versions(case, log, left)


def _unlike_deltalake(case: Case, table: pa.Table) -> Iterator[str]:
    found = rows(as_deltalake_reads(case.root, table.column_names))
    if found != rows(table):
        yield f"deltalake reads {found}, and we {rows(table)}"


def as_deltalake_reads(root: Path, columns: Sequence[str]) -> pa.Table:
    """Of the latest version, whatever features it has that deltalake can read."""
    query = QueryBuilder().register("t", DeltaTable(str(root)))
    return pa.table(query.execute(f"SELECT {', '.join(columns)} FROM t"))


def _unlike_held(case: Case, latest: Snapshot, log: DeltaLog) -> Iterator[str]:
    assert case.scene.held
    refreshed = replace(case.scene.held, storage=log.storage).refresh()
    if refreshed.version != latest.version or paths_in(refreshed) != paths_in(latest):
        yield (
            f"a snapshot that was held refreshes to version {refreshed.version} of "
            f"{sorted(paths_in(refreshed))}, and not to {latest.version} of {sorted(paths_in(latest))}"
        )


def _lost_versions(case: Case, log: DeltaLog, left: Mapping[int, Created]) -> Iterator[str]:
    scene = case.scene
    taken = {case.actors[name].operation.takes for name in case.run.outcomes}
    base = len(scene.versions)
    first = max(
        scene.old if "old files" in taken else 0,
        scene.cleaned if "old commits" in taken else 0,
        base + len(left) - 1 if "removed files" in taken else 0,
    )
    for version in range(first, base):
        paths = paths_in(log.snapshot(version))
        if paths != scene.paths[version]:
            yield f"version {version} has files {sorted(paths)}, not {sorted(scene.paths[version])}"
        if gone := sorted(path for path in paths if not (case.root / path).exists()):
            yield f"version {version} is promised, and {', '.join(gone)} is gone"
    state: Rows | None = scene.rows
    for version in range(base, base + len(left) - 1):
        state = None if state is None else case.actors[left[version].who].effect(state, scene)
        if state is not None and version >= first:
            found = rows_in(da.to_table(log.snapshot(version)))
            if found != tuple(sorted(state, key=repr)):
                yield f"version {version} holds {found}, not {state}"


def serial_outcomes(case: Case, left: Mapping[int, Created]) -> list[Rows]:
    """What the operations that committed, or found nothing to do, come to one after the other."""
    done: list[tuple[str, bool]] = [(created.who, True) for created in left.values()]
    committed = {created.who for created in left.values()}
    done += [
        (name, False)
        for name, outcome in case.run.outcomes.items()
        if outcome.error is None and name not in committed and not _is_done_before(outcome)
    ]
    found: list[Rows] = []
    for order in permutations(done):
        if not _is_possible(case, [name for name, _ in order]):
            continue
        state: Rows | None = case.scene.rows
        for name, has_committed in order:
            before = state
            state = case.actors[name].effect(before, case.scene) if before is not None else None
            if not has_committed and state is not None and _sorted(state) != _sorted(before or ()):
                state = None
        if state is not None and _sorted(state) not in found:
            found.append(_sorted(state))
    return found


def _is_possible(case: Case, names: Sequence[str]) -> bool:
    """Whether no operation comes before one that had ended when it began."""
    spans = [case.span(name) for name in names]
    return all(
        spans[later][1] >= spans[earlier][0] or names[later] == names[earlier]
        for earlier in range(len(names))
        for later in range(earlier + 1, len(names))
    )


def _sorted(state: Rows) -> Rows:
    return tuple(sorted(state, key=repr))


def _is_done_before(outcome: Outcome) -> bool:
    return bool(getattr(outcome.value, "already_committed", False))


def _dropped(case: Case) -> Iterator[str]:
    """Of a table that was deleted, and another one made in its place."""
    drops = [a for a, step in enumerate(case.run.steps) if step.call.method == "delete_at_once"]
    left = case.left()
    for version, created in left.items():
        actor = case.actors[created.who]
        if actor.operation.takes == "the table":
            continue
        if case.last_look(created) < drops[-1] < created.at:
            yield (
                f"{created.who} began on the table that was deleted, and committed version "
                f"{version} where another one is"
            )
    if sorted(left) != list(range(len(left))):
        yield f"there are commits {sorted(left)}"
    log = DeltaLog(case.root)
    if not left:
        stray = sorted(str(p.name) for p in (case.root / "_delta_log").glob("0*")) if (
            case.root / "_delta_log"
        ).exists() else []
        if stray:
            yield f"no commit is left, and there are {stray}"
        return
    state: Rows = ()
    scene = replace(case.scene, versions=(NEW[:1], NEW))
    numbers: dict[str, int] = defaultdict(int)
    for version in sorted(left):
        actor = case.actors[left[version].who]
        match actor.operation.name:
            case "drop-create":
                number = numbers[actor.name]
                state = (*state, *NEW[number : number + 1])
                numbers[actor.name] += 1
            case "drop-create-shorter":
                state = (*state, *NEW)
            case _:
                state = actor.effect(state, scene) or ()
    latest = log.snapshot()
    if latest.version != max(left):
        yield f"the latest version is {latest.version}, and {sorted(left)} were committed"
    table = da.to_table(latest)
    if rows_in(table) != _sorted(state):
        yield f"the new table holds {rows_in(table)}, not {state}"
    validate_checksum(latest)
    yield from _unlike_deltalake(case, table)
    try:
        yield from _unlike_held(case, latest, log)
    except DeltaOpsError:
        pass  # as it should


def _untrue_answer(case: Case, name: str) -> Iterator[str]:
    outcome = case.run.outcomes[name]
    created = case.created(name)
    if outcome.is_killed:
        return
    if outcome.error is not None:
        yield from _untrue_error(case, name, outcome.error, created)
        return
    version = getattr(outcome.value, "version", None)
    if getattr(outcome.value, "already_committed", False):
        if created:
            yield f"{name} says that it was done before, and committed {created[0].version}"
        if version is not None:
            maker = case.left().get(version)
            same = maker and case.actors[maker.who].operation is case.actors[name].operation
            if not same:
                yield f"{name} says that version {version} had done it before"
        return
    if version is not None and version not in {each.version for each in created}:
        yield f"{name} says that version {version} is its own"
    is_many = case.actors[name].operation.is_many
    if version is None and created and not is_many:
        yield f"{name} says that it committed nothing, and made version {created[0].version}"
    if len(created) > 1 and not is_many:
        yield f"{name} made versions {[each.version for each in created]}"
    if version is not None and not case.is_dropped and version not in case.left():
        yield f"{name} says that version {version} is its own, which is gone"


def _untrue_error(
    case: Case, name: str, error: BaseException, created: Sequence[Created]
) -> Iterator[str]:
    said = f"{name} raised {type(error).__name__}: {error}"
    if not isinstance(error, DeltaOpsError):
        yield said
        return
    operation = case.actors[name].operation
    left = [each for each in created if each in case.left().values()]
    if left and not (operation.is_many or isinstance(error, CommitStateUnknownError)):
        yield f"{said}; and made version {left[0].version}"
    if case.is_dropped:
        return  # whatever it says of a table that is not there any more
    others = [each for each in case.created() if each.who != name]
    taken = {case.actors[each].operation.takes for each in case.run.outcomes}
    is_lost = case.order.lost is not None and case.order.lost[0] == name
    is_young = case.scene.name in ("empty", "young")
    match error:
        case CommitConflictError():
            is_true = bool(others)
        case DataFileError():
            is_true = bool({"removed files", "old files"} & taken)
        case VersionNotFoundError():
            is_true = is_young or "old commits" in taken
        case TableNotFoundError():
            is_true = case.scene.name == "empty"
        case StorageError() | CommitStateUnknownError():
            is_true = is_lost
        case InvalidRequestError():
            is_true = bool(others) or is_young or (
                "lite" in name and "old commits" in taken
            )
        case _:
            is_true = False
    if not is_true:
        yield said
