"""Holds: entries in the journals of tables that keep the versions of releases.

Source of truth is the journal of the release set: a hold is needed if the set has its release, or
may still get it. So a hold of a release that never came, because its maker was killed, is found and
dropped in this order:

1. A vacuum or log clean-up of the table finds a hold that is a day old, and opens the set. The age
   only decides when to look: most releases take seconds.
2. If the set does not have the release, an entry in the journal of the set ends it. The maker's own
   entry is rejected from then on, so the order of these two entries decides, and no clock does.
3. The hold is dropped from the journal of the table.

If the set cannot be opened, or is not the set that the hold names, the hold stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from msgspec.structs import replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import DAY_MS, Clock, system_clock
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Hold, Refs, refs_journal
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.versioning.releases.release_set import Releases, releases_journal

_LOOK_AFTER_MS = DAY_MS


def drop_holds(storage: Storage, release_ids: Collection[str], clock: Clock) -> None:
    """Drop the holds of releases from a table.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`.
    """

    def decide(refs: Refs) -> Change[Refs] | None:
        left = {key: hold for key, hold in refs.holds.items() if key not in release_ids}
        if len(left) == len(refs.holds):
            return None
        text = f"drop holds of {len(refs.holds) - len(left)} releases"
        return Change(state=replace(refs, holds=left), text=text)

    refs_journal(storage).append(decide, clock)


def drop_lost_holds(log: DeltaLog, clock: Clock) -> tuple[Hold, ...]:
    """Drop the holds of releases that never came or were deleted; returns these holds.

    Holds of a set that cannot be opened stay.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`, for the journal
            of the table.
    """
    holds = refs_journal(log.storage).load().state.holds
    now_ms = clock()
    old = {
        key: hold for key, hold in holds.items() if abs(now_ms - hold.created_ms) > _LOOK_AFTER_MS
    }
    lost = dict(_find_lost(log, old, clock))
    if lost:
        drop_holds(log.storage, lost, clock)
    return tuple(lost.values())


def _find_lost(log: DeltaLog, holds: dict[str, Hold], clock: Clock) -> Iterator[tuple[str, Hold]]:
    """The holds whose releases do not exist and cannot be made any more, by release id."""
    for place, set_id in sorted({(hold.release_set, hold.set_id) for hold in holds.values()}):
        of_set = {
            key: hold
            for key, hold in holds.items()
            if (hold.release_set, hold.set_id) == (place, set_id)
        }
        with suppress(DeltaOpsError):
            ended = _end(log.outside.open_place(place, log.uri), set_id, of_set, clock)
            yield from ((key, of_set[key]) for key in sorted(ended))


def _end(storage: Storage, set_id: str, ids: Collection[str], clock: Clock) -> set[str]:
    """End the releases that a set does not have; returns their ids.

    Nothing is ended if another set, or no set, is in this place.
    """

    def decide(state: Releases) -> Change[Releases] | None:
        new = _absent(state, ids) - set(state.ended)
        if state.id != set_id or not new:
            return None
        return Change(
            state=replace(state, ended=(*state.ended, *sorted(new))),
            text=f"give up {len(new)} releases that were not made",
        )

    state = releases_journal(storage).append(decide, clock).state
    return _absent(state, ids) if state.id == set_id else set()


def _absent(state: Releases, ids: Collection[str]) -> set[str]:
    return set(ids) - {each.id for each in state.releases}


def delete_holds(
    table: TableOrPlace,
    release_set: str,
    *,
    dry_run: bool = False,
    clock: Clock = system_clock,
) -> tuple[Hold, ...]:
    """Drop all holds of a release set that is gone, so that the table can be vacuumed and dropped.

    The versions of these releases can no longer be read after the next vacuum.

    Args:
        table: A table's location or handle.
        release_set: The location of the set, as `verify_refs` and errors name it.
        dry_run: Drop nothing.
        clock: Milliseconds since the Unix epoch.

    Returns:
        The holds that were dropped.

    Raises:
        InvalidRequestError: The set still exists and has releases of this table, or the table has
            no hold of the set.
        StorageError: The store of the table or of the set failed.
        LogCorruptError, UnsupportedFeatureError: As `Journal.append`.

    Examples:
        >>> import shutil
        >>> _ = create_release("lake/releases", {"orders": "lake/orders"})
        >>> place = ReleaseSet("lake/releases").uri
        >>> shutil.rmtree(place)
        >>> len(delete_holds("lake/orders", place))
        1
    """
    validate_arguments(delete_holds, locals())
    log = log_of(table)
    holds = refs_journal(log.storage).load().state.holds
    of_set = {key: hold for key, hold in holds.items() if hold.release_set == release_set}
    if not of_set:
        known = ", ".join(sorted({hold.release_set for hold in holds.values()})) or "no release set"
        raise InvalidRequestError(
            f"{log.uri}: no release of {release_set} has a version of this table; it has versions "
            f"in {known}"
        )
    state = releases_journal(log.outside.open_place(release_set, log.uri)).load().state
    numbers = [str(each.number) for each in state.releases if each.id in of_set]
    if numbers:
        raise InvalidRequestError(
            f"{log.uri}: release {', '.join(numbers)} of {release_set} has a version of this "
            f"table; delete it with {option('delete_releases')}"
        )
    if not dry_run:
        drop_holds(log.storage, of_set, clock)
    return tuple(of_set.values())
