"""Dropped tables: promises where a table was deleted and another table took its place.

An operation that began on the old table leaves no file in the new table's log, and does not report
a commit. One case cannot be prevented, because no store creates a file on the condition that
another file exists: the table is replaced between an operation's last check and its write. Then a
commit may stay, and its writer gets an error. The files of a killed writer also stay, and so does a
checkpoint that another operation read and committed on before its writer could check again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError
from delta_ops.log.checksum_write.verify import validate_checksum
from tests.interleaving.accelerators import accelerator_differences
from tests.interleaving.cases import Case, Created
from tests.interleaving.operations import NEW
from tests.interleaving.readers import deltalake_differences, held_snapshot_differences
from tests.interleaving.scenes import Rows, rows_in, sort_rows


def broken_promises(case: Case, deleted_at: int) -> Iterator[str]:
    """A sentence for each broken promise."""
    strays = [each for each in case.left().values() if _is_stray(case, each, deleted_at)]
    excused = [each for each in strays if _is_excused(case, each, deleted_at)]
    excused += [each for each in strays if each not in excused and _follows(case, each, excused)]
    for stray in strays:
        if stray not in excused:
            yield f"{stray.who} began on the table that was deleted, and left {stray.path}"
    if not excused and _is_made_again(case):
        yield from _new_table_differences(case)


def _is_made_again(case: Case) -> bool:
    """Whether the operation that deleted the table completed, at once or in a rerun."""
    return any(
        outcome.error is None and case.actors[name].operation.takes == "the table"
        for name, outcome in case.run.outcomes.items()
    )


def _is_stray(case: Case, created: Created, deleted_at: int) -> bool:
    """Whether the file was created from what its writer saw of the old table."""
    last_look = case.last_look_before(created, lists_log=True)
    return last_look < deleted_at < created.at


def _is_excused(case: Case, created: Created, deleted_at: int) -> bool:
    outcome = case.outcome(created)
    has_looked = case.last_look_before(created) > deleted_at
    is_reported = created.version is not None and isinstance(outcome.error, DeltaOpsError)
    return not has_looked and (outcome.is_killed or is_reported or _is_built_on(case, created))


def _is_built_on(case: Case, created: Created) -> bool:
    """Whether another operation read the file and committed before its writer could check again."""
    return any(
        commit.who != created.who
        and created.at < commit.at < case.next_look_after(created)
        and case.has_read(commit.who, created.path, range(created.at, commit.at))
        for commit in case.commits()
    )


def _follows(case: Case, created: Created, excused: list[Created]) -> bool:
    """Whether a killed writer created it after a commit that may stay, without a check."""
    is_before = any(
        each.version is not None and each.who == created.who and each.at < created.at
        for each in excused
    )
    return is_before and created.version is None and case.outcome(created).is_killed


def _new_table_differences(case: Case) -> Iterator[str]:
    commits = case.left_commits()
    if sorted(commits) != list(range(len(commits))):
        yield f"there are commits {sorted(commits)}"
        return
    if not commits:
        return
    log = DeltaLog(case.root)
    latest = log.snapshot()
    if latest.version != max(commits):
        yield f"the latest version is {latest.version}, and {sorted(commits)} were committed"
    table = da.to_table(latest)
    expected = _rows_of(case, [commits[version].who for version in sorted(commits)])
    if rows_in(table) != expected:
        yield f"the new table holds {rows_in(table)}, not {expected}"
    validate_checksum(latest)
    yield from deltalake_differences(case, table)
    yield from accelerator_differences(latest)
    with suppress(DeltaOpsError):  # the answer to a replaced table
        yield from held_snapshot_differences(case, latest, log)


def _rows_of(case: Case, makers: list[str]) -> Rows:
    """The rows that the commits of these makers produce."""
    scene = replace(case.scene, versions=(NEW[:1], NEW))
    rows: Rows = ()
    made: Counter[str] = Counter()
    for maker in makers:
        actor = case.actors[maker]
        match actor.operation.name:
            case "drop-create":
                rows = (*rows, NEW[made[maker]])
            case "drop-create-shorter":
                rows = (*rows, *NEW)
            case _:
                rows = actor.effect(rows, scene) or ()
        made[maker] += 1
    return sort_rows(rows)
