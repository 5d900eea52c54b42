"""Commit files: one version's actions, read and created.

Source: PROTOCOL.md, "Delta Log Entries". A commit file is created once and never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import pyarrow as pa

from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.protocol.actions import (
    Action,
    AddCdcFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from delta_ops.protocol.file_names import CommitName, commit_name, log_file_name
from delta_ops.protocol.json.codec import (
    CommitActions,
    LineError,
    decode_commits,
    encode_commit,
)
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead

_AHEAD_BYTES = 8 << 20
"""Bytes of commits that are read and decoded ahead of the caller."""
_TOGETHER_BYTES = 1 << 20
"""Small commits on a disk are decoded together up to this size: starting a decode costs as much as
several lines."""
_FIRST_LINE_BYTES = 1 << 14
"""Bytes of a large commit that are read for its commitInfo; most writers put it first."""
_DECODERS = 2
"""Threads that read from a disk and decode. Each blocks the others for a third of its time, so
that more threads gain nothing."""


class CommitMark(NamedTuple):
    """Identifies a commit among all commits that could have this version."""

    version: int
    txn_id: str | None
    """`commitInfo.txnId`: a UUID that the writer chose to recognize its commit."""
    engine: str | None
    """`commitInfo.engineInfo`: the name of the writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The actions of one version, by kind."""

    version: int
    adds: pa.Table
    """Schema `arrow_schemas.ADD`, with a `PATH_HASH`."""
    removes: pa.Table
    """Schema `arrow_schemas.REMOVE`, with a `PATH_HASH`."""
    protocol: Protocol | None
    metadata: Metadata | None
    transactions: tuple[SetTransaction, ...]
    domains: tuple[DomainMetadata, ...]
    cdc: tuple[AddCdcFile, ...]
    info: CommitInfo | None

    @property
    def txn_id(self) -> str | None:
        """`commitInfo.txnId`: a UUID that the writer chose to recognize its commit."""
        return self.info.txn_id if self.info else None

    @property
    def mark(self) -> CommitMark:
        """Identifies this commit among all commits that could have its version."""
        return CommitMark(self.version, self.txn_id, _text(self._info_values, "engineInfo"))

    @property
    def _info_values(self) -> Mapping[str, Any]:
        return self.info.values if self.info else {}

    @property
    def operation(self) -> str | None:
        """Name of the operation, as the writer recorded it."""
        return _text(self._info_values, "operation")

    @property
    def in_commit_timestamp(self) -> int | None:
        """The in-commit timestamp in ms since the Unix epoch; None if the commit has none."""
        value = self._info_values.get("inCommitTimestamp")
        return value if type(value) is int else None


def read_commit(storage: Storage, directory: str, version: int) -> Commit:
    """Read one version's commit file.

    Raises:
        FileNotFoundError: The version has no commit file.
        LogCorruptError: The file is not a sequence of JSON actions.
    """
    name = f"{directory}/{commit_name(version)}"
    (commit,) = _read_each(storage, [name])
    return commit


def read_commits(storage: Storage, files: Sequence[FileInfo]) -> list[Commit]:
    """Read commit files, several at a time, and decode them together.

    Raises:
        FileNotFoundError: A commit file does not exist.
        LogCorruptError: A commit file is not a sequence of JSON actions.
    """
    return next(stream_commits(storage, [files]))


def stream_commits(
    storage: Storage, groups: Sequence[Sequence[FileInfo]]
) -> Generator[list[Commit], None, None]:
    """Yield the commits of each group, as `read_commits` does, and decode later groups ahead."""
    files = [info for group in groups for info in group]
    max_calls = _DECODERS if storage.has_native_input else MAX_CONCURRENCY
    with closing(run_ahead(_reads(storage, files), _AHEAD_BYTES, max_calls)) as read:
        commits = chain.from_iterable(read)
        for group in groups:
            yield list(islice(commits, len(group)))


def stream_removes(storage: Storage, files: Sequence[FileInfo]) -> Iterator[pa.Table | None]:
    """Yield the removes of each commit; None if it has no removes or is gone.

    Searching a commit for removes costs far less than decoding it, and most commits have none.

    Raises:
        LogCorruptError: A commit with removes is not a sequence of JSON actions.
    """
    for commit in _stream_found(storage, files, partial(_removing_commit, storage)):
        yield None if commit is None else commit.removes


def stream_commits_with(
    storage: Storage, files: Sequence[FileInfo], kinds: Collection[str]
) -> Iterator[Commit | None]:
    """Yield each commit that may have actions of some kinds; None for other commits.

    Args:
        kinds: Names of actions in the log, such as `remove`.

    Raises:
        FileNotFoundError: A commit file does not exist.
        LogCorruptError: A commit with such an action is not a sequence of JSON actions.
    """
    yield from _stream_found(storage, files, partial(_commit_with, storage, kinds))


def _stream_found(
    storage: Storage, files: Sequence[FileInfo], find: Callable[[str], Commit | None]
) -> Iterator[Commit | None]:
    calls = ((info.size, partial(find, info.path)) for info in files)
    max_calls = _DECODERS if storage.has_native_input else MAX_CONCURRENCY
    with closing(run_ahead(calls, _AHEAD_BYTES, max_calls)) as read:
        yield from read


def read_commit_if_there(storage: Storage, directory: str, version: int) -> Commit | None:
    """`read_commit`, or None if a clean-up has deleted the listed file."""
    try:
        return read_commit(storage, directory, version)
    except FileNotFoundError:
        return None


def read_txn_id(storage: Storage, info: FileInfo) -> str | None:
    """Read `commitInfo.txnId` of a commit, from the first line if it is there.

    None if the commit has none, or if the file is gone or unreadable.
    """
    try:
        first = json.loads(_first_line(storage, info))
        if isinstance(first, dict) and isinstance(first.get("commitInfo"), dict):
            return _text(first["commitInfo"], "txnId")
        (commit,) = _read_each(storage, [info.path])
    except (FileNotFoundError, DeltaOpsError, ValueError, RecursionError):
        return None
    return commit.txn_id


def create_commit(
    storage: Storage, directory: str, version: int, actions: Iterable[Action]
) -> None:
    """Create the commit file of a version.

    Raises:
        FileExistsError: The version exists.
    """
    storage.create(f"{directory}/{commit_name(version)}", encode_commit(actions))


def _reads(
    storage: Storage, files: Sequence[FileInfo]
) -> Iterator[tuple[int, Callable[[], list[Commit]]]]:
    together: list[str] = []
    size = 0
    for info in files:
        together.append(info.path)
        size += info.size
        if size >= _TOGETHER_BYTES or not storage.has_native_input:
            yield size, partial(_read_each, storage, together)
            together, size = [], 0
    if together:
        yield size, partial(_read_each, storage, together)


def _first_line(storage: Storage, info: FileInfo) -> bytes:
    """First line of a commit; reads no more than the start of a large file if possible."""
    if info.size > _FIRST_LINE_BYTES:
        (start,) = storage.read_ranges(info.path, [(0, _FIRST_LINE_BYTES)])
        line, newline, _ = start.partition(b"\n")
        if newline:
            return line
    return storage.read(info.path).partition(b"\n")[0]


def _removing_commit(storage: Storage, name: str) -> Commit | None:
    try:
        return _commit_with(storage, ("remove",), name)
    except FileNotFoundError:
        return None


def _commit_with(storage: Storage, kinds: Collection[str], name: str) -> Commit | None:
    data = storage.read(name)
    if not any(f'"{kind}"'.encode() in data for kind in kinds):
        return None
    (commit,) = _decode(storage, [name], [data])
    return commit


def _read_each(storage: Storage, names: Sequence[str]) -> list[Commit]:
    return _decode(storage, names, (storage.read(name) for name in names))


def _decode(storage: Storage, names: Sequence[str], contents: Iterable[bytes]) -> list[Commit]:
    try:
        decoded = decode_commits(contents)
    except LineError as error:
        raise LogCorruptError(
            storage.uri,
            f"{names[error.commit]}, line {error.line}",
            f"{error.reason}; restore the file from a backup",
        ) from error
    return [_commit(_version(name), actions) for name, actions in zip(names, decoded, strict=True)]


def _version(name: str) -> int:
    found = log_file_name(name.rpartition("/")[2])
    assert isinstance(found, CommitName)
    return found.version


def _commit(version: int, actions: CommitActions) -> Commit:
    by_kind: dict[type, list[Any]] = {}
    for action in actions.others:
        by_kind.setdefault(type(action), []).append(action)
    return Commit(
        version=version,
        adds=actions.adds,
        removes=actions.removes,
        protocol=by_kind.get(Protocol, _NONE)[-1],
        metadata=by_kind.get(Metadata, _NONE)[-1],
        transactions=tuple(by_kind.get(SetTransaction, ())),
        domains=tuple(by_kind.get(DomainMetadata, ())),
        cdc=tuple(by_kind.get(AddCdcFile, ())),
        info=by_kind.get(CommitInfo, _NONE)[-1],
    )


def _text(info: Mapping[str, Any], name: str) -> str | None:
    value = info.get(name)
    return value if isinstance(value, str) else None


_NONE = (None,)
