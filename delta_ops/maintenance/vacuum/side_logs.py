"""Side logs: finds the files that the logs of branches and sessions name.

A version of a branch or session needs these files and files of its base version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from delta_ops.errors import LogCorruptError
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import read_commits
from delta_ops.log.refs.branches import branch_log_directory
from delta_ops.log.refs.refs import Branch, Session
from delta_ops.log.refs.session_files import list_generations
from delta_ops.log.segment import list_log
from delta_ops.log.session_place import session_directory
from delta_ops.maintenance.kept_versions import Kept
from delta_ops.maintenance.vacuum.reachable import paths_named_by
from delta_ops.option_words import option
from delta_ops.protocol.file_names import commit_name
from delta_ops.storage import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLogs:
    """The files that the commits of branches and sessions name, live or not."""

    paths: set[str] = field(default_factory=set)
    """Decoded; only of the commits that this look has read."""
    last_versions: Mapping[str, int] = field(default_factory=dict)
    """The last version of each branch, by its id."""
    fragments: frozenset[str] = frozenset()
    """Paths of the fragments of sessions that this look or an earlier one has read."""


def load_side_logs(latest: Snapshot, kept: Kept, last: SideLogs | None = None) -> SideLogs:
    """Read the commits of branches and sessions.

    Args:
        latest: A version of main.
        kept: The branches and sessions.
        last: The last look; only later commits are read.

    Raises:
        LogCorruptError: A commit is missing, so the files that it needs are unknown.
    """
    known = last or SideLogs()
    paths: set[str] = set()
    last_versions = dict(known.last_versions)
    fragments: set[str] = set(known.fragments)
    for branch in kept.branches:
        files = _commits_of_branch(latest, branch, last_versions)
        _add_paths(paths, files, latest)
    for session in kept.sessions:
        files = [each for each in _fragments(latest, session) if each.path not in fragments]
        fragments.update(each.path for each in files)
        _add_paths(paths, files, latest)
    return SideLogs(paths=paths, last_versions=last_versions, fragments=frozenset(fragments))


def _add_paths(paths: set[str], files: list[FileInfo], latest: Snapshot) -> None:
    for commit in read_commits(latest.storage, files) if files else ():
        paths.update(paths_named_by(commit, latest))


def _commits_of_branch(
    latest: Snapshot, branch: Branch, last_versions: dict[str, int]
) -> list[FileInfo]:
    """The later commits of a branch.

    Args:
        last_versions: By the id of the branch; this branch gets its last version.
    """
    version = last_versions.get(branch.id, branch.base_version)
    directory = branch_log_directory(branch.id)
    commits = list_log(latest.storage, directory, from_version=version + 1).commits
    last = max(commits, default=version)
    for each in range(version + 1, last + 1):
        if each not in commits:
            raise LogCorruptError(
                latest.uri,
                f"{directory}/{commit_name(each)}",
                f"this commit of branch {branch.name} is missing, so the files that it needs "
                "are unknown; nothing was deleted. Restore the file from a backup, or delete "
                f"the branch with {option('delete_branch')}",
            )
    last_versions[branch.id] = last
    return [commits[each] for each in range(version + 1, last + 1)]


def _fragments(latest: Snapshot, session: Session) -> Iterator[FileInfo]:
    """The fragments of all writers of a session, also those that do not count."""
    for generation in list_generations(latest.storage, session.id).values():
        for key, found in generation.fragments.items():
            _validate_no_gap(found, key, session, latest)
            yield from found.values()


def _validate_no_gap(found: Collection[int], key: str, session: Session, latest: Snapshot) -> None:
    for version in range(min(found), max(found) + 1):
        if version not in found:
            raise LogCorruptError(
                latest.uri,
                f"{session_directory(session.id)}/{key}, version {version}",
                f"this fragment of session {session.id} is missing, so the files that it needs are "
                "unknown; nothing was deleted. Restore the file from a backup, or abandon the "
                "session",
            )
