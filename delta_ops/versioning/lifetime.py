"""Lifetime: how long branches and sessions live, and what is left of them afterwards.

The vacuum of another engine knows neither. It deletes their files as soon as it would delete the
files of a failed write. They therefore expire a day before that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import NamedTuple

from delta_ops.clock import DAY_MS
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.refs.refs import Refs, refs_journal
from delta_ops.log.segment import list_log
from delta_ops.option_words import has_option, option
from delta_ops.protocol.arrow_schemas import remove_files
from delta_ops.storage import Storage
from delta_ops.units import duration_text
from delta_ops.versioning.version_to_keep import paths_of_file, stored_paths

MARGIN_MS = DAY_MS
"""A ref expires this long before another engine's vacuum may delete its files, and our own
maintenance deletes it this long after it expired."""
SHORTEST_LIFE_MS = 60_000
"""A shorter life is a wrong unit or a rounded number: the ref would end before its first commit."""
_ALWAYS_MS = 2**62


class SafeLife(NamedTuple):
    """How long a ref may live."""

    longest_ms: int
    """How long vacuums of other engines keep all files of the ref, less a day; may be negative."""
    retention_ms: int
    """`delta.deletedFileRetentionDuration` of the table."""


def safe_life(
    log: DeltaLog, base: Snapshot, *, is_latest: bool, now_ms: int, wanted_ms: int | None = None
) -> SafeLife:
    """How long a ref may live.

    Files are listed only if main has commits after the base version, and the time of the first of
    them does not allow the wanted life.

    Args:
        base: The version that the ref begins with.
        is_latest: Whether that is the latest version.
        now_ms: Milliseconds since the Unix epoch.
        wanted_ms: The life that the caller wants; None for any.
    """
    latest = base if is_latest else log.snapshot()
    retention_ms = latest.properties.deleted_file_retention_ms
    lost_ms = retention_ms - MARGIN_MS - now_ms
    if is_latest or base.version == latest.version:
        return SafeLife(now_ms + lost_ms, retention_ms)
    life = SafeLife(_replaced_ms(log, base, now_ms) + lost_ms, retention_ms)
    if life.longest_ms >= (wanted_ms or 1):
        return life
    return SafeLife(_removed_ms(base, latest, now_ms) + lost_ms, retention_ms)


def validate_life(
    life_ms: int, safe: SafeLife, base: Snapshot, ref: str, *, enforce: bool = True
) -> int:
    """The lifetime of a ref, if it may live that long.

    Args:
        life_ms: The wanted lifetime.
        base: The version that the ref begins with.
        ref: For messages, such as `a session`.
        enforce: Whether a longer life than the safe one is rejected.

    Raises:
        InvalidRequestError: The life is negative, or longer than another engine's vacuum keeps the
            files of the ref.
    """
    if life_ms > 0 and (life_ms <= safe.longest_ms or not enforce):
        return life_ms
    stay = f"removed files stay for {duration_text(safe.retention_ms)}"
    source = "(delta.deletedFileRetentionDuration)"
    if safe.retention_ms <= MARGIN_MS:
        raise InvalidRequestError(
            f"{base.uri}: {ref} is not safe from vacuums of other engines: it has to end a day "
            f"before they may delete its files, and {stay} {source}. Raise that property above a "
            f"day{_or_live_longer()}"
        )
    if safe.longest_ms <= 0:
        raise InvalidRequestError(
            f"{base.uri}: {ref} at version {base.version} is not safe from vacuums of other "
            f"engines: main has removed files of this version, and {stay} {source}, less a day. "
            f"Choose a later version{_or_live_longer()}"
        )
    raise InvalidRequestError(
        f"{base.uri}: {ref} at version {base.version} is safe from vacuums of other engines for "
        f"at most {duration_text(safe.longest_ms)}: {stay} {source}, less a day. Raise that "
        f"property{_or_live_longer()}"
    )


def _or_live_longer() -> str:
    """The cure for a user who knows that no other engine vacuums, where the call has the options.

    An audited asset of Dagster begins its branch itself, so its user has no such options.
    """
    if not (has_option("expires_in") and has_option("enforce_retention")):
        return ""
    return (
        f", or if only delta_ops vacuums this table, give {option('expires_in')} and "
        f"{option('enforce_retention', False)}"
    )


def given_life_ms(expires_in: timedelta, ref: str) -> int:
    """The lifetime that a caller gave, in milliseconds.

    Raises:
        InvalidRequestError: It is less than a minute.
    """
    life_ms = expires_in // timedelta(milliseconds=1)
    if life_ms < SHORTEST_LIFE_MS:
        raise InvalidRequestError(
            f"{ref} lives for at least {duration_text(SHORTEST_LIFE_MS)}, not for {expires_in}: "
            f"give a longer {option('expires_in')}"
        )
    return life_ms


def is_over(expires_ms: int, now_ms: int) -> bool:
    """Whether the next vacuum deletes a ref, because it expired a day ago or earlier."""
    return expires_ms < now_ms - MARGIN_MS


def delete_directories_of_deleted(
    storage: Storage, directory: str, ids_of: Callable[[Refs], Collection[str]], horizon_ms: int
) -> None:
    """Delete the directories of refs that are not in the journal of refs, unless they are young.

    The journal is read after the listing: a ref has its entry before it has a directory, and no id
    is used twice.

    Args:
        directory: Has a directory for each ref, named by its id.
        ids_of: The ids of the refs of this kind.
        horizon_ms: Keep a directory that has a file of this time or later, because it may be in
            use. Milliseconds since the Unix epoch.

    Raises:
        LogCorruptError, UnsupportedFeatureError: As `Journal.load`.
        StorageError: The store failed.
    """
    directories = storage.list_directories(directory)
    if not directories:
        return
    existing = ids_of(refs_journal(storage).load().state)
    for each in directories:
        if each.rpartition("/")[2] in existing:
            continue
        files = list(storage.list_tree(each))
        if all(info.modified_ms < horizon_ms for info in files):
            storage.delete_many(info.path for info in files)
            inner = {info.path.rpartition("/")[0] for info in files}
            above = {path.rpartition("/")[0] for path in inner if path.startswith(f"{each}/")}
            storage.delete_empty([*sorted(inner | above, reverse=True), each], _ALWAYS_MS)


def _replaced_ms(log: DeltaLog, base: Snapshot, now_ms: int) -> int:
    """When the commit after the base version may have removed files; 0 if that is unknown."""
    commits = list_log(log.storage, log.log_directory, from_version=base.version + 1).commits
    follower = commits.get(base.version + 1)
    return 0 if follower is None else min(follower.modified_ms, now_ms)


def _removed_ms(base: Snapshot, latest: Snapshot, now_ms: int) -> int:
    """When main removed the first file of the base version; `now_ms` if it has all of them.

    0 if the log lists no tombstone of a removed file: it is long expired.
    """
    removed = dict.fromkeys(stored_paths(base) - stored_paths(latest), 0)
    if not removed:
        return now_ms
    for each in remove_files(latest.tombstones()):
        removed_ms = each.deletion_timestamp or 0
        for path in paths_of_file(each.path, each.deletion_vector, latest.uri) & removed.keys():
            removed[path] = max(removed[path], removed_ms)  # restored, and removed again
    return min(now_ms, *removed.values())
