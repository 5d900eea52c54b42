"""Creates releases, also as a return to an older release.

1. Everything that can be wrong is checked before anything is written.
2. Each table gets a hold at its version, which vacuum and log clean-up keep. The hold names the set
   and the id of the release.
3. One entry in the journal of the set makes the release. Readers see all of its versions or none.
4. If the entry is rejected, the holds are dropped. If the store did not report whether the entry
   exists, the holds stay. If the maker was killed, maintenance finds its holds; see `holds`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    ReleaseConflictError,
    StorageError,
)
from delta_ops.log import DeltaLog, Snapshot, Source
from delta_ops.log.refs.journal import Change, Entry
from delta_ops.log.refs.refs import Hold, Refs, refs_journal, time_by, validate_ref_name
from delta_ops.option_words import option
from delta_ops.protocol.file_paths import place_of
from delta_ops.storage.concurrency import run_parallel
from delta_ops.versioning.releases.holds import drop_holds
from delta_ops.versioning.releases.release_set import (
    Release,
    ReleasedTable,
    Releases,
    ReleaseSet,
    ReleaseSetOrPlace,
    open_held,
    release_in,
    release_set_of,
    releases_journal,
    validate_message,
)
from delta_ops.versioning.version_to_keep import VersionToKeep


def create_release(
    release_set: ReleaseSetOrPlace,
    tables: Mapping[str, Source],
    *,
    versions: Mapping[str, int] | None = None,
    message: str = "",
    expected: int | None = None,
    allow_older: bool = False,
    clock: Clock = system_clock,
) -> Release:
    """Release one version of each of several tables, so that readers see all of them or none.

    Readers see the release if they open its tables with `open_release`, or read the versions that
    it names. Readers of the latest versions of the tables do not see releases. If the current
    release has the same versions and message, it is returned, so a rerun is safe.

    Args:
        release_set: The location or handle of the set, which is created if it does not exist.
        tables: Locations, handles or snapshots of the tables, by the names that readers use.
        versions: The versions to release, by name; else the version of the snapshot, or the latest.
        message: Any text, kept with the release.
        expected: The number of the current release, 0 for none; fail if there is another.
        allow_older: Accept a version that is older than in the current release.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: A name is invalid, a table is given twice, there are no tables, a
            version is older than in the current release, or a snapshot is of a branch.
        TableNotFoundError: A table is gone.
        VersionNotFoundError: A version cannot be read, or some of its files were deleted.
        TableBusyError: A vacuum or log clean-up may be deleting files of a version.
        ReleaseConflictError: Another release was made first, or maintenance has given up this
            release, which took more than a day.
        TableReplacedError: A table was deleted, or another table is in its place.
        UnsupportedFeatureError: A later version of delta_ops wrote the set or the refs of a table.
        StorageError: The store failed. The release may exist; repeat the call.

    Examples:
        >>> da.write("lake/items", pa.table({"order": [1, 2]})).version
        0
        >>> tables = {"orders": "lake/orders", "items": "lake/items"}
        >>> release = create_release("lake/releases", tables, message="November")
        >>> {name: table.version for name, table in release.tables.items()}
        {'items': 0, 'orders': 0}
    """
    validate_arguments(create_release, locals())
    release_set = release_set_of(release_set)
    validate_message(message)
    kept = _versions_to_keep(release_set, tables, versions or {})
    creation = _Creation(
        release_set=release_set,
        versions=kept,
        message=message,
        expected=expected,
        allow_older=allow_older,
        rolled_back_to=None,
        clock=clock,
        id=str(uuid.uuid4()),
    )
    return creation.run()


def roll_back_release(
    release_set: ReleaseSetOrPlace,
    to: int,
    *,
    message: str = "",
    expected: int | None = None,
    clock: Clock = system_clock,
) -> Release:
    """Release the versions of an older release again, as a new release.

    The tables do not change; `maintenance.restore` changes a table.

    Args:
        release_set: The set.
        to: The number of the older release.
        message: Any text, kept with the release.
        expected: The number of the current release; fail if there is another.
        clock: Milliseconds since the Unix epoch.

    Raises:
        VersionNotFoundError: There is no such release, or a version cannot be read.
        TableNotFoundError, TableBusyError, ReleaseConflictError: As `create_release`.
        TableReplacedError, UnsupportedFeatureError, StorageError: As `create_release`.

    Examples:
        >>> tables = {"orders": "lake/orders"}
        >>> _ = create_release("lake/releases", tables)
        >>> _ = da.delete("lake/orders")
        >>> _ = create_release("lake/releases", tables)
        >>> release = roll_back_release("lake/releases", to=1)
        >>> release.number, release.tables["orders"].version
        (3, 0)
    """
    validate_arguments(roll_back_release, locals())
    release_set = release_set_of(release_set)
    validate_message(message)
    state = releases_journal(release_set.storage).load().state
    older = release_in(state, to, release_set.uri)
    kept = {
        name: _version_to_keep(
            release_set.log(name, table),
            open_held(release_set.log(name, table), table),
        )
        for name, table in older.tables.items()
    }
    creation = _Creation(
        release_set=release_set,
        versions=kept,
        message=message,
        expected=expected,
        allow_older=True,
        rolled_back_to=to,
        clock=clock,
        id=str(uuid.uuid4()),
    )
    return creation.run()


def _versions_to_keep(
    release_set: ReleaseSet, tables: Mapping[str, Source], versions: Mapping[str, int]
) -> dict[str, VersionToKeep]:
    """Open the versions to release.

    Raises:
        InvalidRequestError, TableNotFoundError, VersionNotFoundError: As `create_release`.
    """
    if not tables:
        raise InvalidRequestError(f"{release_set.uri}: a release needs at least one table")
    for name in tables:
        validate_ref_name(name, "table")
    unknown = sorted(set(versions) - set(tables))
    if unknown:
        raise InvalidRequestError(
            f"{release_set.uri}: {option('versions')} names {', '.join(unknown)}, which "
            f"{option('tables')} does not; give the location of each table"
        )
    names = sorted(tables)

    def open_version(name: str) -> VersionToKeep:
        table, version = tables[name], versions.get(name)
        if not isinstance(table, Snapshot):
            log = release_set.table_of(name, table)
            return _version_to_keep(log, log.snapshot(version))
        if version not in (None, table.version):
            raise InvalidRequestError(
                f"{table.uri}: the snapshot has version {table.version}, and version {version} was "
                "given, too; give one of them"
            )
        return _version_to_keep(_log_of_snapshot(table), table)

    kept = dict(zip(names, run_parallel(open_version, names), strict=True))
    _validate_distinct(kept)
    for name, each in kept.items():
        if each.log.uri == release_set.uri:
            raise InvalidRequestError(
                f"{release_set.uri}: the release set has the location of table {name}; give the "
                "set a location of its own"
            )
    return kept


def _log_of_snapshot(snapshot: Snapshot) -> DeltaLog:
    log = DeltaLog(
        snapshot.uri,
        storage=snapshot.storage,
        log_directory=snapshot.log_directory,
        base=snapshot.base,
    )
    log.outside = snapshot.outside
    return log


def _version_to_keep(log: DeltaLog, snapshot: Snapshot) -> VersionToKeep:
    return VersionToKeep(log=log, snapshot=snapshot, verb="release")


def _validate_distinct(kept: Mapping[str, VersionToKeep]) -> None:
    name_by_place: dict[tuple[str, str | None], str] = {}
    for name, version in kept.items():
        uri = version.log.uri
        place = os.path.realpath(uri) if uri.startswith("/") else place_of(uri).rstrip("/")
        known = name_by_place.setdefault((place, version.log.storage.endpoint), name)
        if known != name:
            raise InvalidRequestError(
                f"{uri}: {known} and {name} are the same table; a release has one version of a "
                "table, so give it once"
            )


@dataclass(slots=True, kw_only=True)
class _Creation:
    """The creation of one release; `create_release` documents the fields."""

    release_set: ReleaseSet
    versions: Mapping[str, VersionToKeep]
    message: str
    expected: int | None
    allow_older: bool
    rolled_back_to: int | None
    clock: Clock
    id: str
    """The id of the release."""

    def run(self) -> Release:
        """Make the release, or return the current release if it is the same."""
        journal = releases_journal(self.release_set.storage)
        state = journal.load().state
        self._validate_follows(state)
        if (known := self._same_release(state)) is not None:
            return known
        for version in self.versions.values():
            version.validate_readable(refs_journal(version.log.storage).load().state)
        set_id = state.id or journal.append(self._create_set, self.clock).state.id
        try:
            for version in self.versions.values():
                self._hold(version, set_id)
        except DeltaOpsError:
            self._drop_holds()
            raise
        try:
            made = journal.append(self._decide, self.clock)
        except StorageError:
            raise  # the entry may exist
        except DeltaOpsError:
            self._drop_holds()
            raise
        return self._finish(made)

    def _finish(self, made: Entry[Releases]) -> Release:
        current = made.state.current
        assert current
        if current.id != self.id:  # another call made the same release
            self._drop_holds()
        return current

    def _create_set(self, state: Releases) -> Change[Releases] | None:
        if state.id:
            return None
        return Change(state=replace(state, id=str(uuid.uuid4())), text="create release set")

    def _hold(self, version: VersionToKeep, set_id: str) -> None:
        hold = Hold(
            release_set=self.release_set.uri,
            set_id=set_id,
            version=version.snapshot.version,
            table_id=version.snapshot.metadata.id,
            created_ms=time_by(self.clock),
            txn_id=version.snapshot.txn_id,
        )

        def decide(refs: Refs) -> Change[Refs]:
            version.validate_kept(refs)
            return Change(
                state=replace(refs, holds={**refs.holds, self.id: hold}),
                text=f"hold version {hold.version} for a release of {hold.release_set}",
            )

        refs_journal(version.log.storage).append(decide, self.clock)

    def _drop_holds(self) -> None:
        """Drop the holds, as far as the stores allow; maintenance drops those that are left."""
        for version in self.versions.values():
            with suppress(DeltaOpsError):
                drop_holds(version.log.storage, [self.id], self.clock)

    def _decide(self, state: Releases) -> Change[Releases] | None:
        """The set with the release; None if the current release is the same."""
        if self.id in state.ended:
            raise ReleaseConflictError(
                self.release_set.uri,
                "the release took more than a day, and maintenance has given it up",
                "Make the release again",
            )
        self._validate_follows(state)
        if self._same_release(state) is not None:
            return None
        number = state.last_number + 1
        release = Release(
            number=number,
            id=self.id,
            created_ms=time_by(self.clock),
            tables=self._tables(),
            message=self.message,
            rolled_back_to=self.rolled_back_to,
        )
        back = "" if self.rolled_back_to is None else f", which is release {self.rolled_back_to}"
        return Change(
            state=replace(state, releases=(*state.releases, release), last_number=number),
            text=f"create release {number}{back}",
        )

    def _tables(self) -> dict[str, ReleasedTable]:
        return {
            name: ReleasedTable(
                uri=version.log.uri,
                version=version.snapshot.version,
                table_id=version.snapshot.metadata.id,
                txn_id=version.snapshot.txn_id,
            )
            for name, version in self.versions.items()
        }

    def _same_release(self, state: Releases) -> Release | None:
        """The current release, if it is the same."""
        current = state.current
        if current is None or current.message != self.message:
            return None
        ours = {name: table.place for name, table in self._tables().items()}
        theirs = {name: table.place for name, table in current.tables.items()}
        return current if ours == theirs else None

    def _validate_follows(self, state: Releases) -> None:
        """Reject a release that does not follow the current release.

        Raises:
            ReleaseConflictError: Another release than expected is current.
            InvalidRequestError: A version is older than in the current release.
        """
        current = state.current
        number = current.number if current else 0
        if self.expected is not None and self.expected != number and not self._same_release(state):
            found = f"release {number}" if number else "no release"
            raise ReleaseConflictError(
                self.release_set.uri,
                f"the current release is {found}, and {self.expected} was expected",
                "Look at the current release, and make the release again",
            )
        if current is None or self.allow_older:
            return
        for name, table in self._tables().items():
            known = current.tables.get(name)
            if known and known.table_id == table.table_id and known.version > table.version:
                raise InvalidRequestError(
                    f"{self.release_set.uri}: release {number} has version {known.version} of "
                    f"{name}, and this release would go back to version {table.version}; release "
                    f"the latest version, go back to an older release with "
                    f"{option('roll_back_release')}, or give {option('allow_older', True)}"
                )
