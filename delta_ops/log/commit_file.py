"""Commit files: one version's actions, read and created.

Source: PROTOCOL.md, "Delta Log Entries". A commit file is created once and never replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from delta_ops.errors import LogCorruptError
from delta_ops.protocol.actions import (
    Action,
    AddCdcFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.json_codec import (
    CommitActions,
    LineError,
    decode_commits,
    encode_commit,
)
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import in_parallel

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The actions of one version, by kind."""

    version: int
    adds: pa.Table
    """Schema `arrow_schemas.ADD`."""
    removes: pa.Table
    """Schema `arrow_schemas.REMOVE`."""
    protocol: Protocol | None
    metadata: Metadata | None
    transactions: tuple[SetTransaction, ...]
    domains: tuple[DomainMetadata, ...]
    cdc: tuple[AddCdcFile, ...]
    info: CommitInfo | None

    @property
    def txn_id(self) -> str | None:
        """The UUID by which its writer knows it again."""
        value = self.info.values.get("txnId") if self.info else None
        return value if isinstance(value, str) else None


def read_commit(storage: Storage, directory: str, version: int) -> Commit:
    """Read one version's commit file.

    Raises:
        FileNotFoundError: There is no such version.
        LogCorruptError: The file is no sequence of JSON actions.
    """
    (commit,) = read_commits(storage, directory, [version])
    return commit


def read_commits(storage: Storage, directory: str, versions: Sequence[int]) -> list[Commit]:
    """Read commit files, several at a time, and decode them together.

    Raises:
        FileNotFoundError: One of them is not there.
        LogCorruptError: One of them is no sequence of JSON actions.
    """
    names = [f"{directory}/{commit_name(version)}" for version in versions]
    contents = in_parallel(storage.read, names)
    try:
        decoded = decode_commits(contents)
    except LineError as error:
        raise LogCorruptError(
            storage.uri,
            f"{names[error.commit]}, line {error.line}",
            f"{error.reason}; restore the file from a backup",
        ) from error
    return [_commit(version, of_one) for version, of_one in zip(versions, decoded, strict=True)]


def read_commit_if_there(storage: Storage, directory: str, version: int) -> Commit | None:
    """`read_commit`; None if a clean-up has deleted the file since it was listed."""
    try:
        return read_commit(storage, directory, version)
    except FileNotFoundError:
        return None


def create_commit(
    storage: Storage, directory: str, version: int, actions: Iterable[Action]
) -> None:
    """Create the commit file of a version.

    Raises:
        FileExistsError: That version has been committed.
    """
    storage.create(f"{directory}/{commit_name(version)}", encode_commit(actions))


def _commit(version: int, actions: CommitActions) -> Commit:
    return Commit(
        version=version,
        adds=actions.adds,
        removes=actions.removes,
        protocol=_last(actions.others, Protocol),
        metadata=_last(actions.others, Metadata),
        transactions=_all(actions.others, SetTransaction),
        domains=_all(actions.others, DomainMetadata),
        cdc=_all(actions.others, AddCdcFile),
        info=_last(actions.others, CommitInfo),
    )


def _all(actions: Iterable[object], kind: type[T]) -> tuple[T, ...]:
    return tuple(action for action in actions if isinstance(action, kind))


def _last(actions: Iterable[object], kind: type[T]) -> T | None:
    return next(iter(reversed(_all(actions, kind))), None)
