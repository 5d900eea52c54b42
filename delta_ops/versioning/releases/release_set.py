"""Release set: a journal of releases; a release names one version of each of several tables.

1. The journal is in a directory that the user names, in `_delta_ops/releases`. An entry holds all
   releases, so a reader that loads one entry sees the versions of one release and of no other.
2. Numbers count from 1 and are never given again. The newest release is the current release.
3. A release names each table by its location, its version and its `metaData.id`. The tables do not
   change, so readers of their latest versions do not see releases.
4. The versions stay readable because each table has a hold in its own journal; see `holds`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.delta_log import Place
from delta_ops.log.refs.journal import Entry, Journal
from delta_ops.log.refs.refs import Hold, Time, Version
from delta_ops.log.same_table import validate_version_of_ref
from delta_ops.option_words import option
from delta_ops.storage import Lock, Storage, open_storage
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.paths import OWN_DIRECTORY

RELEASES_DIRECTORY = f"{OWN_DIRECTORY}/releases"
_MOST_CHARACTERS = 1_000


class ReleaseSet:
    """Handle of a release set; makes no request, and its repr shows no credentials.

    Args:
        uri: The directory of the set: a local path or any URI that fsspec supports. It need not
            exist, and should not be a table.
        storage_options: Options for the store of the set and for the stores of its tables.
        tables: Handles of tables by their names in releases, for tables that need other options,
            or that were moved to another location.
        lock: Lock to hold while a release is made, for stores without exclusive create.
        storage: An open storage, for callers that wrap one.

    Examples:
        >>> releases = ReleaseSet("lake/releases")
        >>> create_release(releases, {"orders": "lake/orders"}).number
        1
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, TableOrPlace] | None = None,
        lock: Lock | None = None,
        storage: Storage | None = None,
    ) -> None:
        validate_arguments(ReleaseSet.__init__, locals())
        self.storage = storage or open_storage(uri, storage_options, lock=lock)
        self._storage_options = dict(storage_options or {})
        self._logs = {
            name: log_of(table, storage_options) for name, table in (tables or {}).items()
        }

    @property
    def uri(self) -> str:
        """The directory of the set, without credentials."""
        return self.storage.uri

    def __repr__(self) -> str:
        return f"ReleaseSet({self.uri!r})"

    def exists(self) -> bool:
        """Whether a release was ever made here."""
        return releases_journal(self.storage).load().number > 0

    def log(self, name: str, table: ReleasedTable) -> DeltaLog:
        """The handle of a table of a release."""
        known = self._logs.get(name)
        return DeltaLog(table.uri, self._storage_options) if known is None else known

    def table_of(self, name: str, table: TableOrPlace) -> DeltaLog:
        """The handle of a table that a caller names."""
        return log_of(table, self._storage_options) if name not in self._logs else self._logs[name]


ReleaseSetOrPlace = ReleaseSet | Place


class ReleasedTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table in a release.

    Examples:
        >>> create_release("lake/releases", {"orders": "lake/orders"}).tables["orders"].version
        0
    """

    uri: str
    """The table's root, without credentials."""
    version: Version
    """Any engine can read the table at this version."""
    table_id: str
    """`metaData.id` of the version."""
    txn_id: str | None = None
    """`commitInfo.txnId` of the version's commit; None if unknown."""

    @property
    def place(self) -> tuple[str, int, str]:
        """Location, version and id: equal for the same table of two releases."""
        return self.uri, self.version, self.table_id


class Release(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Versions of several tables that readers see together.

    Examples:
        >>> release = create_release("lake/releases", {"orders": "lake/orders"})
        >>> release.number, list(release.tables)
        (1, ['orders'])
    """

    number: int
    """From 1."""
    id: str
    """Chosen at random; the holds of the tables have it."""
    created_ms: Time
    """Milliseconds since the Unix epoch."""
    tables: dict[str, ReleasedTable]
    """By name."""
    message: str = ""
    rolled_back_to: int | None = None
    """The number of the older release whose versions this release has again."""


class Releases(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All releases of a set."""

    id: str = ""
    """Chosen at random when the set is created; "" before."""
    releases: tuple[Release, ...] = ()
    """Oldest first."""
    last_number: int = 0
    """The number of the newest release, also if that was deleted."""
    ended: tuple[str, ...] = ()
    """Ids of releases that never came and cannot come any more: their holds were dropped."""

    @property
    def current(self) -> Release | None:
        """The newest release."""
        return self.releases[-1] if self.releases else None

    def release(self, number: int) -> Release | None:
        """The release of a number."""
        return next((each for each in self.releases if each.number == number), None)


class TableChange(msgspec.Struct, frozen=True, kw_only=True):
    """How a table differs between two releases.

    Examples:
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> _ = da.delete("lake/orders", col("id") == 1)
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> [(each.table, each.change) for each in diff_releases("lake/releases", 1, 2)]
        [('orders', 'moved')]
    """

    table: str
    """The name of the table in the releases."""
    change: Literal["added", "removed", "moved", "replaced", "same"]
    """`moved`: another version; `replaced`: another table, with another `metaData.id`."""
    old_version: int | None
    """None if the older release does not have the table."""
    new_version: int | None
    """None if the newer release does not have the table."""


def release_set_of(release_set: ReleaseSetOrPlace) -> ReleaseSet:
    """Return the given handle, or make a handle of the set at a location."""
    return release_set if isinstance(release_set, ReleaseSet) else ReleaseSet(release_set)


_ENTRIES = msgspec.json.Decoder(Entry[Releases])


def releases_journal(storage: Storage) -> Journal[Releases]:
    """The journal of a release set."""
    return Journal(
        storage=storage, directory=RELEASES_DIRECTORY, entries=_ENTRIES, empty=Releases()
    )


def list_releases(release_set: ReleaseSetOrPlace) -> list[Release]:
    """List the releases of a set, oldest first.

    Raises:
        InvalidRequestError: No release was ever made here; the location may be misspelt.
        LogCorruptError: The journal of the set is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the set.
        StorageError: The store failed.

    Examples:
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> [each.number for each in list_releases("lake/releases")]
        [1]
    """
    validate_arguments(list_releases, locals())
    release_set = release_set_of(release_set)
    entry = releases_journal(release_set.storage).load()
    return list(existing_releases(entry, release_set.uri).releases)


def existing_releases(entry: Entry[Releases], uri: str) -> Releases:
    """The releases of the last entry of a set.

    Raises:
        InvalidRequestError: No release was ever made here.
    """
    if entry.number == 0:
        raise InvalidRequestError(
            f"{uri} is no release set; check the location, or make the first release with "
            f"{option('create_release')}"
        )
    return entry.state


def find_release(release_set: ReleaseSetOrPlace, number: int | None = None) -> Release:
    """Find a release: the current release, or the release of a number.

    Raises:
        VersionNotFoundError: There is no such release.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `list_releases`.

    Examples:
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> table = find_release("lake/releases").tables["orders"]
        >>> table.version  # for any engine's time travel to table.uri
        0
    """
    validate_arguments(find_release, locals())
    release_set = release_set_of(release_set)
    return release_in(releases_journal(release_set.storage).load().state, number, release_set.uri)


def release_in(state: Releases, number: int | None, uri: str) -> Release:
    """The current release, or the release of a number.

    Raises:
        VersionNotFoundError: There is no such release.
    """
    found = state.current if number is None else state.release(number)
    if found is not None:
        return found
    if number is None:
        raise VersionNotFoundError(uri, "the current release", "this set has no releases")
    is_deleted = 0 < number <= state.last_number
    reason = "it was deleted" if is_deleted else f"{option('list_releases')} shows the numbers"
    raise VersionNotFoundError(uri, f"release {number}", reason)


def open_release(release_set: ReleaseSetOrPlace, number: int | None = None) -> dict[str, Snapshot]:
    """Open all tables of a release at its versions; of the current release by default.

    Returns:
        The snapshots by the names of the tables. Every read of both engines accepts a snapshot.

    Raises:
        VersionNotFoundError: There is no such release, or the version of a table cannot be read.
        TableNotFoundError: A table is gone.
        LogCorruptError: The log of a table, or the journal of the set, is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the set.
        StorageError: The store failed.

    Examples:
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> _ = da.delete("lake/orders")
        >>> da.count_rows(open_release("lake/releases")["orders"]), da.count_rows("lake/orders")
        (3, 0)
    """
    validate_arguments(open_release, locals())
    release_set = release_set_of(release_set)
    tables = find_release(release_set, number).tables

    def open_table(name: str) -> Snapshot:
        table = tables[name]
        return open_held(release_set.log(name, table), table)

    return dict(zip(tables, run_parallel(open_table, list(tables)), strict=True))


def open_held(log: DeltaLog, held: ReleasedTable | Hold) -> Snapshot:
    """Open a version that a release has.

    Raises:
        VersionNotFoundError: The version cannot be read, or is another than when it was released.
    """
    snapshot = log.main.snapshot(held.version)
    validate_version_of_ref(
        snapshot,
        table_id=held.table_id,
        txn_id=held.txn_id,
        ref=f"version {held.version} of a release",
        kind="release",
    )
    return snapshot


def diff_releases(
    release_set: ReleaseSetOrPlace, old: int, new: int | None = None
) -> list[TableChange]:
    """List the tables whose versions differ between two releases, by name.

    `arrow.diff_rows` compares the rows of two snapshots; `open_release` returns snapshots.

    Args:
        release_set: The set.
        old: The number of a release.
        new: The number of another release; the current release if None.

    Raises:
        VersionNotFoundError: There is no such release.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `list_releases`.

    Examples:
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> [each.change for each in diff_releases("lake/releases", 1)]
        ['same']
    """
    validate_arguments(diff_releases, locals())
    release_set = release_set_of(release_set)
    state = releases_journal(release_set.storage).load().state
    before = release_in(state, old, release_set.uri).tables
    after = release_in(state, new, release_set.uri).tables
    return [
        TableChange(
            table=name,
            change=_change(before.get(name), after.get(name)),
            old_version=before[name].version if name in before else None,
            new_version=after[name].version if name in after else None,
        )
        for name in sorted({*before, *after})
    ]


def _change(
    before: ReleasedTable | None, after: ReleasedTable | None
) -> Literal["added", "removed", "moved", "replaced", "same"]:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if before.table_id != after.table_id:
        return "replaced"
    return "same" if before.version == after.version else "moved"


def validate_message(message: str) -> None:
    """Reject a message that would make each entry of the journal large.

    Raises:
        InvalidRequestError: It has more than 1000 characters.
    """
    if len(message) > _MOST_CHARACTERS:
        raise InvalidRequestError(
            f"the message has {len(message):,} characters; give at most {_MOST_CHARACTERS:,}"
        )
