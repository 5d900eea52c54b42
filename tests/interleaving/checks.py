"""Checks: the promises that must hold after two operations, in any order of their calls.

Every acknowledged row exists once, every retained version reads, no named file is missing, another
engine reads the same, both operations' answers are true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.refs.anchors import open_anchor
from delta_ops.versioning import Branch, Release, Tag
from tests.interleaving import dropped_tables
from tests.interleaving.accelerators import (
    accelerator_differences,
    dropped_index_files,
    ordered_differences,
    refreshed_differences,
)
from tests.interleaving.answers import untrue_answers, was_done_before
from tests.interleaving.cases import Case
from tests.interleaving.enumeration import AGAIN
from tests.interleaving.operations import branched_rows
from tests.interleaving.readers import deltalake_differences, held_snapshot_differences
from tests.interleaving.scenes import Rows, paths_in, rows_in, sort_rows


def complaints(case: Case) -> list[str]:
    """Broken promises of a case, a sentence each."""
    found: list[str] = []
    deleted_at = case.deleted_at
    try:
        found += untrue_answers(case)
        if deleted_at is None:
            found += _broken_promises(case)
        else:
            found += dropped_tables.broken_promises(case, deleted_at)
    except Exception as error:  # any error of a reader of the table
        found.append(f"reading the table raised {type(error).__name__}: {error}")
    return found


def _broken_promises(case: Case) -> Iterator[str]:
    left = case.left_commits()
    first = len(case.scene.versions)
    if sorted(left) != list(range(first, first + len(left))) or len(left) < len(case.commits()):
        yield f"after {first} versions there are commits {sorted(left)}"
        return
    for commit in left.values():
        if not case.actors[commit.who].operation.commits:
            yield f"{commit.who} committed version {commit.version}"
    if not left and not first:
        return
    log = DeltaLog(case.root)
    latest = log.snapshot()
    if latest.version != first + len(left) - 1:
        yield f"the latest version is {latest.version}, and {sorted(left)} were committed"
    missing = sorted(path for path in paths_in(latest) if not (case.root / path).exists())
    if missing:
        yield f"version {latest.version} names {', '.join(missing)}, which does not exist"
        return
    table = da.to_table(latest)
    expected = serial_outcomes(case)
    if rows_in(table) not in expected:
        texts = " or ".join(map(str, expected)) or "anything that the two can have come to"
        yield f"version {latest.version} holds {rows_in(table)}, not {texts}"
    validate_checksum(latest)
    yield from held_snapshot_differences(case, latest, log)
    yield from deltalake_differences(case, table)
    yield from _lost_versions(case, log)
    yield from _lost_refs(case, log)
    if case.scene.name == "sorted":
        yield from ordered_differences(latest)
    if case.scene.name == "indexed":
        yield from accelerator_differences(latest)
        if not any(each.is_killed for each in case.run.outcomes.values()):
            yield from dropped_index_files(log)
        yield from refreshed_differences(log)


def _lost_versions(case: Case, log: DeltaLog) -> Iterator[str]:
    """Versions that no operation may delete and that have changed."""
    scene, left, taken = case.scene, case.left_commits(), case.takes()
    number = len(scene.versions)
    first = max(
        scene.old if "old files" in taken else 0,
        scene.cleaned if "old commits" in taken else 0,
        number + len(left) - 1 if "removed files" in taken else 0,
    )
    for version in range(first, number):
        expected = scene.paths[version]
        if case.has_touched(version) and (paths := paths_in(log.snapshot(version))) != expected:
            yield f"version {version} has files {sorted(paths)}, not {sorted(expected)}"
        if gone := sorted(path for path in expected if not (case.root / path).exists()):
            yield f"version {version} is promised, and {', '.join(gone)} is gone"
    rows: Rows | None = scene.rows
    for version in range(number, number + len(left) - 1):
        rows = None if rows is None else case.actors[left[version].who].effect(rows, scene)
        if rows is not None and version >= first:
            found = rows_in(da.to_table(log.snapshot(version)))
            if found != sort_rows(rows):
                yield f"version {version} holds {found}, not {sort_rows(rows)}"


def _lost_refs(case: Case, log: DeltaLog) -> Iterator[str]:
    """Acknowledged tags and branches that are missing or have other rows."""
    for name, outcome in case.run.outcomes.items():
        match outcome.value:
            case Tag(name=tag, version=version):
                found = rows_in(da.to_table(log.snapshot(ref=f"tag:{tag}")))
                expected = sort_rows(_rows_of_version(log, case, version))
                if found != expected:
                    yield f"{name}: tag {tag} has rows {found}, not {expected}"
                if case.actors[name].operation.name == "anchor":
                    yield from _anchor_differences(log, case, name, version)
            case Release(tables=tables):
                for each in tables.values():
                    found = rows_in(da.to_table(log.snapshot(each.version)))
                    expected = sort_rows(_rows_of_version(log, case, each.version))
                    if found != expected:
                        yield f"{name}: the release has rows {found}, not {expected}"
            case Branch() if isinstance(_outcome_again(case, name), Branch):
                pass  # the second rebase has moved the branch to a later version
            case Branch(name=branch, base_version=version):
                found = rows_in(da.to_table(log.snapshot(ref=f"branch:{branch}")))
                new = branched_rows(case.actors[name].role)
                expected = sort_rows((*_rows_of_version(log, case, version), *new))
                if found != expected:
                    yield f"{name}: branch {branch} has rows {found}, not {expected}"


def _outcome_again(case: Case, name: str) -> object:
    """The value of the second run of a killed operation; None if there is none."""
    again = case.run.outcomes.get(name + AGAIN)
    return again.value if again else None


def _anchor_differences(log: DeltaLog, case: Case, name: str, version: int) -> Iterator[str]:
    found = open_anchor(log.storage, log.log_directory, version, log.snapshot().outside)
    rows = None if found is None else rows_in(da.to_table(found))
    expected = sort_rows(_rows_of_version(log, case, version))
    if rows != expected:
        yield f"{name}: the anchor of version {version} has rows {rows}, not {expected}"


def _rows_of_version(log: DeltaLog, case: Case, version: int) -> Rows:
    """The rows of a version of main, which an operation of the case may have committed."""
    versions = case.scene.versions
    return (
        versions[version]
        if version < len(versions)
        else rows_in(da.to_table(log.snapshot(version)))
    )


def serial_outcomes(case: Case) -> list[Rows]:
    """The rows after the committed and idle operations, for each possible serial order."""
    makers = [commit.who for commit in case.left_commits().values()]
    idle = [
        name
        for name, outcome in case.run.outcomes.items()
        if outcome.error is None and name not in makers and not was_done_before(outcome.value)
    ]
    found: list[Rows] = []
    for names in permutations([*makers, *idle]):
        is_possible = _is_possible(case, names, idle)
        rows = _one_after_the_other(case, names, idle) if is_possible else None
        if rows is not None and sort_rows(rows) not in found:
            found.append(sort_rows(rows))
    return found


def _one_after_the_other(case: Case, names: Sequence[str], idle: Sequence[str]) -> Rows | None:
    rows = case.scene.rows
    for name in names:
        after = case.actors[name].effect(rows, case.scene)
        if after is None or (name in idle and sort_rows(after) != sort_rows(rows)):
            return None
        rows = after
    return rows


def _is_possible(case: Case, names: Sequence[str], idle: Sequence[str]) -> bool:
    """Whether each operation comes after all operations that ended before it began.

    An operation that found no work in a late listing may come before the changes that the listing
    did not show. The store knows the order of commits.
    """
    spans = [case.span(name) for name in names]
    lags = [case.order.lag if name in idle else 0 for name in names]
    return all(
        spans[later][1] >= spans[earlier][0] - lags[earlier]
        for earlier in range(len(names))
        for later in range(earlier + 1, len(names))
    )
