"""Deletes releases: first from the set, then their holds from the tables.

If the deletion is killed in between, a vacuum of each table finds that the set does not have the
release, and drops its hold; see `holds`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log.refs.journal import LONG_JOURNAL, Change
from delta_ops.option_words import option
from delta_ops.versioning.releases.holds import drop_holds
from delta_ops.versioning.releases.release_set import (
    Release,
    Releases,
    ReleaseSet,
    ReleaseSetOrPlace,
    existing_releases,
    release_in,
    release_set_of,
    releases_journal,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReleasesResult:
    """The result of `delete_releases`."""

    releases: tuple[Release, ...]
    """Oldest first."""
    dry_run: bool
    tables_left: tuple[str, ...] = ()
    """Names of tables whose holds were not dropped, because their stores failed or they are gone.
    The next vacuum of such a table drops the holds."""


def delete_releases(
    release_set: ReleaseSetOrPlace,
    numbers: Collection[int] = (),
    *,
    keep_last: int | None = None,
    older_than: timedelta | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
) -> DeleteReleasesResult:
    """Delete releases; a vacuum may then delete files that only their versions need.

    The current release is never deleted. Numbers are never given again.

    Args:
        release_set: The set.
        numbers: The numbers of releases.
        keep_last: Instead of numbers: delete all but this many of the newest releases.
        older_than: Instead of numbers: delete the releases that are older than this. With
            `keep_last`, both must hold.
        dry_run: Delete nothing.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: Neither numbers nor a rule was given, or both; or the current release
            was given; or no release was ever made here.
        VersionNotFoundError: There is no release of a number.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`.

    Examples:
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> _ = da.delete("lake/orders", col("id") == 1)
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> [each.number for each in delete_releases("lake/releases", keep_last=1).releases]
        [1]
    """
    validate_arguments(delete_releases, locals())
    release_set = release_set_of(release_set)
    has_rule = keep_last is not None or older_than is not None
    if has_rule == bool(numbers):
        raise InvalidRequestError(
            f"{release_set.uri}: give the numbers of releases, or {option('keep_last')} or "
            f"{option('older_than')}, to say which releases to delete"
        )
    if keep_last is not None and keep_last < 1:
        raise InvalidRequestError(
            f"{option('keep_last')} is {keep_last}; give at least 1: the current release stays"
        )
    choice = _Choice(
        uri=release_set.uri,
        numbers=frozenset(numbers),
        keep_last=keep_last or 1,
        before_ms=None if older_than is None else clock() - older_than // timedelta(milliseconds=1),
    )
    journal = releases_journal(release_set.storage)
    if dry_run:
        state = existing_releases(journal.load(), release_set.uri)
        return DeleteReleasesResult(releases=choice.select(state), dry_run=True)
    deleted: list[Release] = []

    def decide(state: Releases) -> Change[Releases] | None:
        deleted[:] = choice.select(state)
        left = tuple(each for each in state.releases if each not in deleted)
        if not deleted:
            return None
        text = f"delete release {', '.join(str(each.number) for each in deleted)}"
        return Change(state=replace(state, releases=left), text=text)

    entry = journal.append(decide, clock)
    existing_releases(entry, release_set.uri)
    if entry.number >= LONG_JOURNAL:
        journal.delete_old()
    return DeleteReleasesResult(
        releases=tuple(deleted),
        dry_run=False,
        tables_left=_drop_holds(release_set, deleted, clock),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Which releases to delete; `delete_releases` documents the fields."""

    uri: str
    numbers: frozenset[int]
    keep_last: int
    before_ms: int | None

    def select(self, state: Releases) -> tuple[Release, ...]:
        """The releases to delete, oldest first."""
        if self.numbers:
            return self._select_named(state)
        candidates = state.releases[: -self.keep_last]
        return tuple(
            each
            for each in candidates
            if self.before_ms is None or each.created_ms < self.before_ms
        )

    def _select_named(self, state: Releases) -> tuple[Release, ...]:
        found = [release_in(state, number, self.uri) for number in sorted(self.numbers)]
        if state.current in found:
            raise InvalidRequestError(
                f"{self.uri}: release {found[-1].number} is the current release, which readers "
                "use; make another release first"
            )
        return tuple(found)


def _drop_holds(
    release_set: ReleaseSet, deleted: Collection[Release], clock: Clock
) -> tuple[str, ...]:
    """Drop the holds of deleted releases; returns the names of tables that still have them."""
    ids_by_table: dict[tuple[str, str], list[str]] = {}
    tables = {}
    for release in deleted:
        for name, table in release.tables.items():
            ids_by_table.setdefault((name, table.uri), []).append(release.id)
            tables[name, table.uri] = table
    left = []
    for (name, uri), ids in ids_by_table.items():
        try:
            drop_holds(release_set.log(name, tables[name, uri]).storage, ids, clock)
        except DeltaOpsError:
            left.append(name)
    return tuple(sorted(set(left)))
