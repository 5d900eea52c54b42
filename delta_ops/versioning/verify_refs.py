"""Refs at risk: tags, branches and releases whose files may be gone, and files that are gone.

Vacuum and log clean-up of delta_ops keep the files of refs. Other engines do not know refs. Their
vacuums delete a file that main removed longer ago than the retention. They also delete a file of a
branch that is older than the retention, because main never had it.

1. `load_refs_at_risk` reads the history only. A vacuum that commits nothing leaves no trace there.
2. `verify_refs` opens each ref, and looks up its files that the latest version lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from delta_ops.arguments import validate_arguments
from delta_ops.errors import LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.history.history import HistoryEntry, load_history
from delta_ops.log.refs.refs import Branch, Hold, Refs, Session, Tag, refs_journal
from delta_ops.log.segment import LogListing, list_log
from delta_ops.option_words import option
from delta_ops.transaction.commit.info import is_ours
from delta_ops.transaction.races.missing_files import missing_paths
from delta_ops.transaction.races.vacuum_runs import START
from delta_ops.versioning.releases.release_set import open_held
from delta_ops.versioning.version_to_keep import stored_paths

_MOST_COMMITS = 1_000
"""Number of newest commits that are searched for vacuums."""
_NEVER_MS = 2**62
_RETENTIONS = ("specifiedRetentionMillis", "defaultRetentionMillis")
"""Parameters of VACUUM START, the one that counts first."""

Ref = Tag | Branch | Session | Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class RefAtRisk:
    """A tag, branch or release whose files another engine may have deleted or may soon delete.

    Examples:
        >>> from delta_ops.maintenance import health
        >>> _ = create_branch("lake/orders", "audit")
        >>> health("lake/orders").figures.refs_at_risk
        ()
    """

    ref: str
    """Such as `tag:2026-11` or `branch:audit`; for releases, `release of` and their set."""
    has_expired: bool
    """Whether the expiry of the branch is over."""
    vacuums: tuple[int, ...]
    """Versions that record vacuums of other engines which may have deleted files of the ref."""

    @property
    def advice(self) -> str:
        """What to do, as a sentence."""
        if self.vacuums:
            versions = ", ".join(map(str, self.vacuums))
            return (
                f"another engine has vacuumed the table (version {versions}) and may have deleted "
                f"files of {self.ref}: list the missing files with {option('verify_refs')}, and "
                "let only delta_ops vacuum the table, or raise delta.deletedFileRetentionDuration"
            )
        verb = "commit or abandon" if self.ref.startswith("session:") else "publish or delete"
        return f"{self.ref} has expired: {verb} it"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRef:
    """A tag, branch or released version, and its files that are gone.

    Examples:
        >>> _ = create_tag("lake/orders", "first")
        >>> [(each.ref, each.missing_files) for each in verify_refs("lake/orders")]
        [('tag:first', ())]
    """

    ref: str
    """Such as `tag:2026-11` or `branch:audit`; for releases, `release of` and their set."""
    version: int
    """The version of the tag or release, or the base version of the branch."""
    missing_files: tuple[str, ...]
    """Data files and files of deletion vectors, relative to the table; ascending."""
    problem: str | None
    """Why the version cannot be opened; None if it can be."""

    @property
    def is_readable(self) -> bool:
        """Whether all rows can be read."""
        return self.problem is None and not self.missing_files


def verify_refs(table: TableOrPlace) -> list[VerifiedRef]:
    """Look up the files of all tags, branches and releases, and name the missing files.

    Files of the latest version are not looked up. The call changes nothing.

    Returns:
        The tags by name, the branches by name, then each version that releases of a set have.

    Raises:
        TableNotFoundError: There is no table here.
        LogCorruptError: The log, or the journal of refs, is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_branch("lake/orders", "audit")
        >>> all(each.is_readable for each in verify_refs("lake/orders"))
        True
    """
    validate_arguments(verify_refs, locals())
    log = log_of(table).main
    latest = log.snapshot()
    refs = refs_journal(log.storage).load().state
    live = set() if refs.is_empty else stored_paths(latest)
    return [_verify(log, latest, live, each) for each in _sort(refs)]


def _sort(refs: Refs) -> Iterator[Ref]:
    yield from sorted(refs.tags.values(), key=lambda tag: tag.name)
    yield from refs.named_branches
    yield from sorted(refs.sessions.values(), key=lambda session: session.id)
    yield from _held_versions(refs.holds.values())


def _held_versions(holds: Iterable[Hold]) -> list[Hold]:
    """The oldest hold of each version and release set."""
    oldest: dict[tuple[str, int], Hold] = {}
    for hold in sorted(holds, key=lambda each: each.created_ms):
        oldest.setdefault((hold.release_set, hold.version), hold)
    return [oldest[key] for key in sorted(oldest)]


def _name(ref: Ref) -> str:
    match ref:
        case Tag():
            return f"tag:{ref.name}"
        case Branch():
            return f"branch:{ref.name}"
        case Session():
            return f"session:{ref.id}"
        case Hold():
            return f"release of {ref.release_set}"


def _version(ref: Ref) -> int:
    return ref.base_version if isinstance(ref, Branch | Session) else ref.version


def _verify(log: DeltaLog, latest: Snapshot, live: Collection[str], ref: Ref) -> VerifiedRef:
    missing: tuple[str, ...] = ()
    problem = None
    try:
        wanted = {path for version in _versions(log, ref) for path in stored_paths(version)}
        missing = tuple(sorted(missing_paths(latest.table_files, wanted.difference(live))))
    except (VersionNotFoundError, LogCorruptError) as error:
        problem = str(error)
    return VerifiedRef(
        ref=_name(ref), version=_version(ref), missing_files=missing, problem=problem
    )


def _versions(log: DeltaLog, ref: Ref) -> Iterator[Snapshot]:
    """The versions whose files a ref needs: of a branch, its base and its latest version."""
    if isinstance(ref, Branch):
        own = log.on_branch(ref)
        assert own.base
        yield own.base
    if isinstance(ref, Session):
        yield log.open_session_base(ref)
    if isinstance(ref, Hold):
        yield open_held(log, ref)
    else:
        yield log.snapshot(ref=_name(ref))


def load_refs_at_risk(snapshot: Snapshot, *, now_ms: int) -> tuple[RefAtRisk, ...]:
    """The refs that have expired, or that another engine's vacuum may have hit.

    Args:
        snapshot: The latest version of main.
        now_ms: Milliseconds since the Unix epoch.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    refs = refs_journal(snapshot.storage).load().state
    waiting = [each for each in _sort(refs) if not _is_published(each)]
    if not waiting:
        return ()
    first = min(map(_version, waiting))
    vacuums = _foreign_vacuums(snapshot, after_version=first)
    listing = list_log(snapshot.storage, snapshot.log_directory, from_version=first)
    found = (_risk(each, snapshot, listing, vacuums, now_ms) for each in waiting)
    return tuple(each for each in found if each.has_expired or each.vacuums)


def _is_published(ref: Ref) -> bool:
    return isinstance(ref, Branch) and ref.published_version is not None


def _foreign_vacuums(snapshot: Snapshot, *, after_version: int) -> list[HistoryEntry]:
    """The commits by which other engines began a vacuum, newest first."""
    history = load_history(snapshot.storage, snapshot.log_directory, _MOST_COMMITS)
    newer = takewhile(lambda entry: entry.version > after_version, history)
    begun = (entry for entry in newer if entry.operation == START)
    return [entry for entry in begun if not is_ours(entry.engine_info)]


def _risk(
    ref: Ref,
    snapshot: Snapshot,
    listing: LogListing,
    vacuums: Sequence[HistoryEntry],
    now_ms: int,
) -> RefAtRisk:
    unreferenced_ms = _unreferenced_ms(ref, snapshot, listing)
    return RefAtRisk(
        ref=_name(ref),
        has_expired=isinstance(ref, Branch | Session) and ref.expires_ms < now_ms,
        vacuums=tuple(
            sorted(
                entry.version
                for entry in vacuums
                if entry.timestamp_ms >= ref.created_ms
                and entry.timestamp_ms - _retention_ms(entry, snapshot) > unreferenced_ms
            )
        ),
    )


def _unreferenced_ms(ref: Ref, snapshot: Snapshot, listing: LogListing) -> int:
    """The earliest time since which main may lack a file of the ref."""
    follower = listing.commits.get(_version(ref) + 1)
    if follower is not None:
        removed_ms = follower.modified_ms
    elif snapshot.version == _version(ref):
        removed_ms = _NEVER_MS
    else:  # the log was cleaned up
        removed_ms = 0
    return min(removed_ms, ref.created_ms) if isinstance(ref, Branch | Session) else removed_ms


def _retention_ms(entry: HistoryEntry, snapshot: Snapshot) -> int:
    """The retention of a vacuum; the retention of the table if its commit does not say it."""
    parameters = entry.operation_parameters or {}
    for name in _RETENTIONS:
        text = str(parameters.get(name, ""))
        if text.isdecimal():
            return int(text)
    return snapshot.properties.deleted_file_retention_ms
