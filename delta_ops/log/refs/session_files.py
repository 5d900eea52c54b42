"""Session files: the files of a write session, each created once.

    _delta_ops/sessions/<id>/<generation>/<step>.<attempt>.fork.json
    _delta_ops/sessions/<id>/<generation>/logs/<step>.<attempt>/<version>.json
    _delta_ops/sessions/<id>/<generation>/end.json, sealed.json, failed.json

1. A fork file reserves an attempt of a step for one writer. The commits of its log are fragments.
2. `end.json` decides how a generation ends. It is created before anything that follows from the
   decision. A writer looks for it before and after it creates a fragment.
3. `sealed.json` lists the fragments of a generation that has ended. It is made from a listing after
   `end.json`, so it has each fragment whose writer found no `end.json` afterwards.
4. `failed.json` records a conflict with main. Each committer commits the sealed fragments on the
   same base version, so each of them finds the same conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from delta_ops.errors import LogCorruptError, SessionEndedError, StorageError
from delta_ops.log.refs.refs import Time, Version
from delta_ops.log.session_place import (
    ForkPlace,
    fork_place_of,
    generation_directory,
    place_of_fork_file,
    session_directory,
)
from delta_ops.protocol.file_names import CommitName, log_file_name
from delta_ops.storage import FileInfo, Storage

Decision = Literal["commit", "abandon", "expire", "rebase"]
END, SEALED, FAILED = "end.json", "sealed.json", "failed.json"
_PAST: dict[Decision, str] = {
    "commit": "has been committed, or is being committed",
    "abandon": "was abandoned",
    "expire": "has expired",
    "rebase": "was rebased",
}
Content = TypeVar("Content")


class ForkBegin(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a fork file."""

    id: str
    """Chosen at random by the writer."""
    step: str
    attempt: int
    saw: dict[str, int]
    """The fragments that the writer sees: the last version, by the key of their fork."""
    after_version: Version
    """The version that the first fragment follows."""
    begun_ms: Time


class End(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of `end.json`."""

    id: str
    """Chosen at random by the process that decided."""
    decision: Decision
    ended_ms: Time
    txn: tuple[str, int] | None = None
    """The txn of the commit, which each committer takes from here; None without one."""


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `sealed.json`."""

    forks: dict[str, int]
    """The version of the last fragment by the key of its fork; 0 for a fork without fragments."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `failed.json`: a commit of main that contradicts the session."""

    version: Version
    reason: str
    kind: str
    evidence: tuple[str, ...] = ()


# Made at import: two threads that decode a type for the first time crash the process.
_DECODERS: Mapping[type[Any], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (ForkBegin, End, Sealed, Failure)
}


@dataclass(slots=True, kw_only=True)
class Generation:
    """The listed files of one generation."""

    files: set[str] = field(default_factory=set)
    """Names of `end.json`, `sealed.json` and `failed.json`, as far as they exist."""
    forks: dict[str, ForkPlace] = field(default_factory=dict)
    """By key."""
    fragments: dict[str, dict[int, FileInfo]] = field(default_factory=dict)
    """Commit files by version, by the key of their fork."""


def list_generations(
    storage: Storage, session_id: str, known: Mapping[str, FileInfo] = MappingProxyType({})
) -> dict[int, Generation]:
    """List the files of a session, by generation.

    Args:
        known: Fragments of earlier listings, by path. A fragment never changes, so their sizes and
            times are not read again.

    Raises:
        StorageError: The store failed.
    """
    listing = _Listing(known=known)
    for info in storage.list_tree(session_directory(session_id), listing.choose):
        listing.add_fragment(info.path, info)
    return listing.generations


@dataclass(slots=True, kw_only=True)
class _Listing:
    known: Mapping[str, FileInfo]
    generations: dict[int, Generation] = field(default_factory=dict)

    def choose(self, paths: Sequence[str]) -> list[str]:
        """Add the files of one directory, and choose those whose size is needed: new fragments."""
        directory, _, _ = paths[0].rpartition("/")
        if fork_place_of(directory) is None:
            for path in paths:
                self._add_file(path)
            return []
        new = []
        for path in paths:
            info = self.known.get(path)
            if info is None:
                new.append(path)
            else:
                self.add_fragment(path, info)
        return new

    def add_fragment(self, path: str, info: FileInfo) -> None:
        """Add a file in the log of a fork."""
        directory, _, name = path.rpartition("/")
        place = fork_place_of(directory)
        match log_file_name(name):
            case CommitName(version=version) if place is not None:
                of_fork = self._generation(place.generation).fragments
                of_fork.setdefault(place.key, {})[version] = info

    def _add_file(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        number = directory.rpartition("/")[2]
        if not number.isdecimal():
            return
        if name in (END, SEALED, FAILED):
            self._generation(int(number)).files.add(name)
        elif (place := place_of_fork_file(path)) is not None:
            self._generation(place.generation).forks[place.key] = place

    def _generation(self, generation: int) -> Generation:
        return self.generations.setdefault(generation, Generation())


def decide_end(storage: Storage, directory: str, end: End) -> End:
    """Create `end.json`, and return the decision that counts: ours, or an earlier one.

    Args:
        directory: The `generation_directory`.

    Raises:
        StorageError: The store failed. Repeat the call to find out which decision counts.
    """
    return _create_or_read(storage, f"{directory}/{END}", end, End)


def read_end(storage: Storage, directory: str) -> End | None:
    """Read `end.json`; None if the generation has not ended."""
    return _read_if_there(storage, f"{directory}/{END}", End)


def read_failure(storage: Storage, directory: str) -> Failure | None:
    """Read `failed.json`; None if no conflict was recorded."""
    return _read_if_there(storage, f"{directory}/{FAILED}", Failure)


def record_failure(storage: Storage, directory: str, failure: Failure) -> Failure:
    """Create `failed.json`, and return the conflict that was recorded first."""
    return _create_or_read(storage, f"{directory}/{FAILED}", failure, Failure)


def read_sealed(storage: Storage, directory: str) -> Sealed | None:
    """Read `sealed.json`; None if there is none yet."""
    return _read_if_there(storage, f"{directory}/{SEALED}", Sealed)


def seal(storage: Storage, session_id: str, generation: int) -> Sealed:
    """Fix the fragments of a generation that has ended.

    Raises:
        StorageError: The store failed. Repeat the call.
    """
    directory = generation_directory(session_id, generation)
    if (known := read_sealed(storage, directory)) is not None:
        return known
    listed = list_generations(storage, session_id).get(generation, Generation())
    last = {key: max(listed.fragments.get(key, ()), default=0) for key in sorted(listed.forks)}
    return _create_or_read(storage, f"{directory}/{SEALED}", Sealed(forks=last), Sealed)


def validate_fork_open(storage: Storage, place: ForkPlace, version: int) -> None:
    """Reject a fragment of a session that has ended, or of an attempt that was repeated.

    Called before and after a fragment is created. A fragment that is in the sealed list is
    accepted: it is in the commit.

    Args:
        version: The version of the fragment.

    Raises:
        SessionEndedError: The session has ended, or a later attempt of the step has begun.
        LogCorruptError, StorageError: As `seal`.
    """
    directory = place.generation_directory
    paths = {info.path for info in storage.list_from(directory, "")}
    if place.fork_file not in paths:
        raise SessionEndedError(
            storage.uri, place.session_id, "was deleted", "Begin another session"
        )
    if f"{directory}/{END}" in paths:
        end = read_end(storage, directory)
        decision = end.decision if end else "abandon"
        if decision in ("commit", "rebase"):
            sealed = seal(storage, place.session_id, place.generation)
            if sealed.forks.get(place.key, 0) >= version:
                return
        raise ended_error(storage.uri, place.session_id, decision)
    forks = map(place_of_fork_file, paths)
    newest = max((each.attempt for each in forks if each and each.step == place.step), default=0)
    if newest > place.attempt:
        raise SessionEndedError(
            storage.uri,
            place.session_id,
            f"has a later attempt of this step ({newest}, and this is attempt {place.attempt})",
            "Let the later attempt write the rows of the step",
        )


def ended_error(table: str, session_id: str, decision: Decision) -> SessionEndedError:
    """The error for a session that takes no more fragments."""
    cure = (
        "Fork the session again, and write the rows of the step again"
        if decision == "rebase"
        else "Begin another session"
    )
    return SessionEndedError(table, session_id, _PAST[decision], cure)


def _create_or_read(storage: Storage, path: str, content: Content, kind: type[Content]) -> Content:
    """Create a file; if there is one, return its content."""
    failure: StorageError | None = None
    try:
        storage.create(path, msgspec.json.encode(content))
    except FileExistsError:
        pass
    except StorageError as error:
        failure = error
    else:
        return content
    found = _read_if_there(storage, path, kind)
    if found is not None:
        return found
    raise failure or StorageError(
        storage.locate(path),
        "created",
        "the store reported that it exists, then that it does not; repeat the call",
    )


def _read_if_there(storage: Storage, path: str, kind: type[Content]) -> Content | None:
    try:
        return decode_file(storage.uri, path, storage.read(path), kind)
    except FileNotFoundError:
        return None


def decode_file(table: str, path: str, data: bytes, kind: type[Content]) -> Content:
    """The content of a file of a session.

    Raises:
        LogCorruptError: The file was damaged.
    """
    try:
        content: Content = _DECODERS[kind].decode(data)
    except msgspec.MsgspecError as error:
        raise LogCorruptError(table, path, f"{error}; restore the file from a backup") from error
    return content
