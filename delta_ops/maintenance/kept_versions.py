"""Kept versions: the versions that a caller keeps, and the versions of the table's refs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from delta_ops.errors import VersionNotFoundError
from delta_ops.log import DeltaLog
from delta_ops.log.refs.refs import Branch, Refs, Session, refs_journal
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.versioning.branches import drop_branch
from delta_ops.versioning.ended_refs import end_expired_refs
from delta_ops.versioning.lifetime import is_over
from delta_ops.versioning.releases.holds import drop_lost_holds


class Kept(NamedTuple):
    """Versions, branches and sessions that must stay readable."""

    versions: frozenset[int]
    """Versions of main: from the caller, of tags and holds, and base versions of branches and
    sessions."""
    by_commits: frozenset[int]
    """The versions that the log must keep: of the caller, branches and sessions. For the others, an
    anchor is enough."""
    branches: tuple[Branch, ...]
    sessions: tuple[Session, ...]


class DroppedRefs(NamedTuple):
    """Refs that maintenance dropped because they are over."""

    branches: tuple[str, ...] = ()
    """Names of the branches that had expired a day ago or earlier."""
    sessions: tuple[str, ...] = ()
    """Ids of the sessions that had expired a day ago or earlier."""
    lost_holds: int = 0
    """Number of holds of releases that were never made or were deleted."""

    @property
    def figures(self) -> dict[str, Any]:
        """These refs as fields of `VacuumResult`."""
        return {
            "expired_branches": self.branches,
            "expired_sessions": self.sessions,
            "lost_holds": self.lost_holds,
        }


def drop_refs(log: DeltaLog, now_ms: int) -> DroppedRefs:
    """Drop expired branches, expired sessions and lost holds.

    Args:
        now_ms: By the store's clock, because a wrong clock of this machine must not end a branch.
    """
    if refs_journal(log.storage).load().state.is_empty:
        return DroppedRefs()
    branches, sessions = end_expired_refs(log, lambda: now_ms)
    return DroppedRefs(branches, sessions, len(drop_lost_holds(log, lambda: now_ms)))


class KeptVersions(Collection[int]):
    """Versions that must stay readable; both sources are read again at each use.

    Args:
        storage: The storage of the table.
        chosen: Versions that the caller keeps; may change.
    """

    def __init__(self, storage: Storage, chosen: Collection[int]) -> None:
        self._storage = storage
        self._chosen = chosen

    def load_all(self, vacuum_at_ms: int | None = None) -> Kept:
        """The versions and branches at this moment.

        Args:
            vacuum_at_ms: Leave out the branches that a vacuum at this time deletes, in milliseconds
                since the Unix epoch.
        """
        refs = refs_journal(self._storage).load().state
        if vacuum_at_ms is not None:
            for branch in refs.branches.values():
                if is_over(branch.expires_ms, vacuum_at_ms):
                    refs = drop_branch(refs, branch)
        branches, sessions = tuple(refs.branches.values()), tuple(refs.sessions.values())
        by_commits = frozenset(self._chosen)
        by_commits |= {each.base_version for each in branches}
        by_commits |= {each.base_version for each in sessions}
        versions = by_commits | frozenset(_names_by_version(refs))
        return Kept(versions, by_commits, branches, sessions)

    def load(self) -> frozenset[int]:
        """The versions at this moment."""
        return self.load_all().versions

    def __iter__(self) -> Iterator[int]:
        return iter(self.load())

    def __len__(self) -> int:
        return len(self.load())

    def __contains__(self, version: object) -> bool:
        return version in self.load()


@contextmanager
def naming_refs(storage: Storage) -> Iterator[None]:
    """Name the ref in an error about a version that must be kept and cannot be read."""
    try:
        yield
    except VersionNotFoundError as error:
        name = ref_of_error(storage, error)
        if name is None:
            raise
        kind = name.partition(" ")[0]
        raise VersionNotFoundError(
            error.table,
            f"{error.requested} ({name})",
            f"{error.reason}; nothing was deleted. Restore the log from a backup, or {_cure(kind)}",
        ) from error


def _cure(kind: str) -> str:
    """How to delete a ref."""
    match kind:
        case "tag":
            return f"delete the tag with {option('delete_tag')}"
        case "branch":
            return f"delete the branch with {option('delete_branch')}"
        case "release":
            return f"delete the release with {option('delete_releases')}"
    return f"abandon the {kind}"


def ref_of_error(storage: Storage, error: VersionNotFoundError) -> str | None:
    """The ref whose version cannot be read, such as `tag 2026-11`; None for another version."""
    names = _names_by_version(refs_journal(storage).load().state)
    return next((n for v, n in names.items() if error.requested == f"version {v}"), None)


def _names_by_version(refs: Refs) -> dict[int, str]:
    """A ref of each version, such as `tag 2026-11`."""
    sessions = {each.base_version: f"session {each.id}" for each in refs.sessions.values()}
    held = {hold.version: f"release of {hold.release_set}" for hold in refs.holds.values()}
    bases = {each.base_version: f"branch {each.name}" for each in refs.branches.values()}
    tags = {tag.version: f"tag {tag.name}" for tag in refs.tags.values()}
    return sessions | held | bases | tags
