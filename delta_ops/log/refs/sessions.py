"""Sessions: which fragments of a session count, and the rows that they add up to.

1. The newest attempt of each step counts, unless a rebase dropped it.
2. Forks are put in one order. A fork comes after the forks whose fragments it saw. Among the
   others, forks that read rows come before forks that only append, so that they need not have seen
   the appended rows.
3. The rows of a session are those of its base version, changed by the fragments in this order.
   `transaction.commit.session_conflicts` decides whether the fragments contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from delta_ops.errors import LogCorruptError, VersionNotFoundError
from delta_ops.log.commit_file import Commit, read_commits
from delta_ops.log.refs.refs import Session, refs_journal
from delta_ops.log.refs.session_files import (
    SEALED,
    ForkBegin,
    Generation,
    decode_file,
    ended_error,
    list_generations,
    read_sealed,
)
from delta_ops.log.session_place import ForkPlace, generation_directory
from delta_ops.log.snapshot import Snapshot, advance
from delta_ops.log.table_state import EMPTY_STATE
from delta_ops.log.version.reconciliation import EMPTY_TAIL
from delta_ops.option_words import option
from delta_ops.protocol.file_names import commit_name
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A writer of a session, with the fragments that it has committed."""

    place: ForkPlace
    begin: ForkBegin
    fragments: tuple[Commit, ...]
    """Ascending, with the versions of its own log."""

    @property
    def key(self) -> str:
        """The key of the fork within its session."""
        return self.place.key

    @property
    def step(self) -> str:
        """The step, as the caller named it."""
        return self.begin.step

    @property
    def last_version(self) -> int:
        """The version of the last fragment; 0 without fragments."""
        return self.fragments[-1].version if self.fragments else 0

    @property
    def only_appends(self) -> bool:
        """Whether no fragment has read or removed a row."""
        return all(_is_blind(each) for each in self.fragments)


def _is_blind(fragment: Commit) -> bool:
    info = fragment.info.values if fragment.info else {}
    return info.get("isBlindAppend") is True and not len(fragment.removes)


@dataclass(slots=True, kw_only=True)
class SessionReader:
    """Reads the fragments of a session; each file is read once.

    Args:
        storage: The storage of the table.
        session: The entry of the session in the journal.
    """

    storage: Storage
    session: Session
    _begins: dict[str, ForkBegin] = field(default_factory=dict)
    _commits: dict[str, Commit] = field(default_factory=dict)
    _files: dict[str, FileInfo] = field(default_factory=dict)
    """The files of the commits."""
    _sorted: tuple[Fork, ...] = ()
    """The forks of the last look."""

    def look(self) -> dict[int, Generation]:
        """List the files of the session, by generation."""
        return list_generations(self.storage, self.session.id, self._files)

    def load(self, listed: dict[int, Generation]) -> tuple[Fork, ...]:
        """The forks that count, in the order of the session.

        Args:
            listed: From `look`. Fragments that are not listed do not count.

        Raises:
            LogCorruptError: A file is missing or damaged.
            SessionEndedError: A clean-up has ended the session and deleted its files.
            StorageError: The store failed.
        """
        try:
            return self._load(listed)
        except FileNotFoundError as error:
            if self.session.id not in refs_journal(self.storage).load().state.sessions:
                raise ended_error(self.storage.uri, self.session.id, "expire") from error
            raise LogCorruptError(
                self.storage.uri, str(error), "it is missing; restore it from a backup"
            ) from error

    def _load(self, listed: dict[int, Generation]) -> tuple[Fork, ...]:
        places: list[ForkPlace] = []
        last: dict[str, int] = {}
        for number, generation in sorted(listed.items()):
            if number > self.session.generation:
                continue
            sealed = self._load_sealed(number, generation)
            places += [
                place for key, place in generation.forks.items() if sealed is None or key in sealed
            ]
            for key, fragments in generation.fragments.items():
                last[key] = max(fragments) if sealed is None else sealed.get(key, 0)
        counted = [each for each in newest_attempts(places) if each.key not in self.session.dropped]
        begins = self._read_begins(counted)
        files = {
            each.key: self._files_of(each, begins[each.key], listed[each.generation], last)
            for each in counted
        }
        self._read_commits([info for infos in files.values() for info in infos])
        forks = [
            Fork(
                place=each,
                begin=begins[each.key],
                fragments=tuple(self._commits[info.path] for info in files[each.key]),
            )
            for each in counted
        ]
        self._sorted = sort_forks(forks, self.storage.uri, known=self._sorted)
        return self._sorted

    def _load_sealed(self, number: int, generation: Generation) -> dict[str, int] | None:
        """The last versions of a sealed generation; None for an open generation."""
        is_over = number < self.session.generation
        if not is_over and SEALED not in generation.files:
            return None
        directory = generation_directory(self.session.id, number)
        sealed = read_sealed(self.storage, directory)
        if sealed is None:
            raise LogCorruptError(
                self.storage.uri,
                f"{directory}/{SEALED}",
                "it is missing; restore it from a backup, or abandon the session",
            )
        return sealed.forks

    def _read_begins(self, places: Iterable[ForkPlace]) -> dict[str, ForkBegin]:
        paths = {each.key: each.fork_file for each in places}
        new = [path for path in paths.values() if path not in self._begins]
        for path, data in zip(new, run_parallel(self.storage.read, new), strict=True):
            self._begins[path] = decode_file(self.storage.uri, path, data, ForkBegin)
        return {key: self._begins[path] for key, path in paths.items()}

    def _files_of(
        self, place: ForkPlace, begin: ForkBegin, listed: Generation, last: dict[str, int]
    ) -> list[FileInfo]:
        """The commit files of a fork, ascending.

        Raises:
            LogCorruptError: A file is missing.
        """
        found = listed.fragments.get(place.key, {})
        files = []
        for version in range(begin.after_version + 1, last.get(place.key, 0) + 1):
            if version not in found:
                raise LogCorruptError(
                    self.storage.uri,
                    f"{place.log_directory}/{commit_name(version)}",
                    f"this fragment of step {begin.step!r} is missing; restore the file from a "
                    "backup, or run the step again",
                )
            files.append(found[version])
        return files

    def _read_commits(self, files: Sequence[FileInfo]) -> None:
        new = [info for info in files if info.path not in self._commits]
        if new:
            commits = read_commits(self.storage, new)
            self._commits.update((info.path, c) for info, c in zip(new, commits, strict=True))
            self._files.update((info.path, info) for info in new)


def newest_attempts(places: Iterable[ForkPlace]) -> list[ForkPlace]:
    """The newest attempt of each step."""
    by_step: dict[str, ForkPlace] = {}
    for place in places:
        known = by_step.get(place.step)
        if known is None or known.attempt < place.attempt:
            by_step[place.step] = place
    return list(by_step.values())


def sort_forks(
    forks: Iterable[Fork], table: str, *, known: Sequence[Fork] = ()
) -> tuple[Fork, ...]:
    """The forks in the order in which their fragments count.

    Args:
        known: Some of the forks in their order, as an earlier call returned it. They need not be
            sorted again if the others have seen all of them, as in steps that run one by one.

    Raises:
        LogCorruptError: Two forks claim to have seen each other.
    """
    by_key = {each.key: each for each in forks}
    last = {each.key: each.last_version for each in known}
    others = {key: each for key, each in by_key.items() if key not in last}
    is_unchanged = all(key in by_key and by_key[key].last_version == last[key] for key in last)
    if is_unchanged and all(each.begin.saw.keys() >= last.keys() for each in others.values()):
        return (*known, *_sort(others, table))
    return tuple(_sort(by_key, table))


def _sort(by_key: Mapping[str, Fork], table: str) -> Iterator[Fork]:
    seen = {
        key: [each for each in fork.begin.saw if each in by_key] for key, fork in by_key.items()
    }
    sorter = TopologicalSorter(seen)
    try:
        sorter.prepare()
    except CycleError as error:
        raise LogCorruptError(
            table, ", ".join(error.args[1]), "these forks have seen each other; run the steps again"
        ) from error
    ready: list[tuple[bool, int, str]] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            fork = by_key[key]
            heappush(ready, (fork.only_appends, fork.begin.begun_ms, key))
        *_, key = heappop(ready)
        yield by_key[key]
        sorter.done(key)


def fragments_in_order(before: Snapshot, forks: Iterable[Fork]) -> list[Commit]:
    """All fragments in order, with versions that follow another version."""
    fragments = (fragment for fork in forks for fragment in fork.fragments)
    return [replace(each, version=before.version + n) for n, each in enumerate(fragments, 1)]


@dataclass(slots=True, kw_only=True)
class SessionRows:
    """The rows of a session, as they grow; continues from the last rows where possible.

    Args:
        base: The base version.
        session: The entry of the session in the journal.
    """

    base: Snapshot
    session: Session
    _last: tuple[Sequence[Fork], Snapshot] | None = None

    def snapshot(self, forks: Sequence[Fork]) -> Snapshot:
        """The table with the rows of forks.

        Args:
            forks: The forks that count, in order.
        """
        if self._last is not None:
            known, snapshot = self._last
            if last_versions(forks[: len(known)]) == last_versions(known):
                new = forks[len(known) :]
                snapshot = advance(snapshot, fragments_in_order(snapshot, new))
                self._last = forks, snapshot
                return snapshot
        snapshot = snapshot_of_session(self.base, self.session, forks)
        self._last = forks, snapshot
        return snapshot


def last_versions(forks: Iterable[Fork]) -> list[tuple[str, int]]:
    """The key and the last version of each fork, which determine its rows."""
    return [(each.key, each.last_version) for each in forks]


def snapshot_of_session(base: Snapshot, session: Session, forks: Iterable[Fork]) -> Snapshot:
    """The table with the rows of a session.

    Args:
        base: The base version.
        forks: The forks that count, in order.
    """
    empty = Snapshot(
        storage=base.storage,
        log_directory=generation_directory(session.id, session.generation),
        version=base.version,
        checkpoint=None,
        commits_since_checkpoint=0,
        definition=base.definition,
        commit_state=EMPTY_STATE,
        tail=EMPTY_TAIL,
        outside=base.outside,
        base=base,
    )
    return advance(empty, fragments_in_order(base, forks))


def load_session_snapshot(base: Snapshot, session: Session) -> Snapshot:
    """Read the fragments of a session, and add them to its base version."""
    reader = SessionReader(storage=base.storage, session=session)
    return snapshot_of_session(base, session, reader.load(reader.look()))


def find_session(storage: Storage, session_id: str) -> Session:
    """Find a session by its id.

    Raises:
        VersionNotFoundError: There is no such session.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    session = refs_journal(storage).load().state.sessions.get(session_id)
    if session is None:
        raise VersionNotFoundError(
            storage.uri,
            f"session {session_id}",
            "there is no such session: it was committed, was abandoned or has expired; "
            f"{option('list_sessions')} shows the others",
        )
    return session
