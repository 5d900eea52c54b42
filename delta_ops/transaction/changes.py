"""Changes: what a commit will do, as a closed set of values.

A transaction collects changes in a `Draft`, and `Draft.apply` is the one place that says what each
of them means: which actions stand in the commit, and what it depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from delta_ops.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    DeletionVector,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.stats.file_stats import widen_stats
from delta_ops.transaction.idempotency import Txn


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """Add files whose rows an engine has written."""

    files: tuple[AddFile, ...]
    num_rows: int
    """The rows that count as output of the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove live files."""

    files: tuple[RemoveFile, ...]
    rearranged: tuple[AddFile, ...] = ()
    """The files as they were live, if their rows stand in files that are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """Add files that the log has known before and that are not live."""

    files: tuple[AddFile, ...]
    vacuum_was_killed: bool = False
    """A vacuum that has begun and not ended will delete nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Say something else of live files, whose rows stay as they are."""

    files: tuple[AddFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceVector:
    """Give a live file another deletion vector, or none.

    Source: PROTOCOL.md, "Deletion Vectors" (a file is identified by its path and its vector).
    """

    file: AddFile
    vector: DeletionVector | None
    now_ms: int
    """Milliseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddChangeFiles:
    """Tell readers of the change data feed the rows that the commit changes."""

    files: tuple[AddCdcFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDomain:
    """Set or remove a domain."""

    domain: DomainMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTxn:
    """Commit only if the table does not hold this txn, and leave it there."""

    txn: Txn


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBackTxn:
    """Leave this version of an application, whatever the table holds."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetadata:
    """Give the table other metadata, or its first."""

    metadata: Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProtocol:
    """Give the table another protocol, or its first."""

    protocol: Protocol


Change = (
    Add
    | Remove
    | PutBack
    | Describe
    | ReplaceVector
    | AddChangeFiles
    | SetDomain
    | SetTxn
    | SetBackTxn
    | SetMetadata
    | SetProtocol
)


@dataclass(slots=True, kw_only=True)
class Draft:
    """All changes of a commit so far."""

    files: list[FileAction] = field(default_factory=list)
    """In the order in which they were asked for."""
    added: list[AddFile] = field(default_factory=list)
    """Files that no version has named yet."""
    vectored: list[AddFile] = field(default_factory=list)
    """Files with a deletion vector that no version has named yet, and its time for theirs."""
    num_rows: int = 0
    rearranged: list[AddFile] = field(default_factory=list)
    """Removed files whose rows are in others, and files of which something else is said."""
    named_again: list[AddFile] = field(default_factory=list)
    """Files that the log has known before."""
    put_back: list[AddFile] = field(default_factory=list)
    heeds_vacuum: bool = True
    change_files: list[AddCdcFile] = field(default_factory=list)
    txns: dict[str, Txn] = field(default_factory=dict)
    txns_set_back: dict[str, int] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    metadata: Metadata | None = None
    protocol: Protocol | None = None

    def apply(self, change: Change) -> None:
        """Take a change in."""
        match change:
            case Add(files=files, num_rows=num_rows):
                self.files += files
                self.added += files
                self.num_rows += num_rows
            case Remove(files=files, rearranged=rearranged):
                self.files += files
                self.rearranged += rearranged
            case PutBack(files=files, vacuum_was_killed=vacuum_was_killed):
                self.files += files
                self.named_again += files
                self.put_back += files
                self.heeds_vacuum = self.heeds_vacuum and not vacuum_was_killed
            case Describe(files=files):
                self.files += files
                self.named_again += files
                self.rearranged += files
            case ReplaceVector(file=file, vector=vector, now_ms=now_ms):
                stats = file.stats if vector is None else widen_stats(file.stats)
                if vector is not None:
                    self.vectored.append(
                        replace(file, deletion_vector=vector, modification_time=now_ms)
                    )
                self.files += (
                    tombstone(file, now_ms, data_change=True),
                    replace(file, deletion_vector=vector, data_change=True, stats=stats),
                )
            case AddChangeFiles(files=files):
                self.change_files += files
            case SetDomain(domain=domain):
                self.domains[domain.domain] = domain
            case SetTxn(txn=txn):
                self.txns[txn.app_id] = txn
            case SetBackTxn(app_id=app_id, version=version):
                self.txns_set_back[app_id] = version
            case SetMetadata(metadata=metadata):
                self.metadata = metadata
            case SetProtocol(protocol=protocol):
                self.protocol = protocol

    @property
    def removed(self) -> list[RemoveFile]:
        """The files that are removed."""
        return [action for action in self.files if isinstance(action, RemoveFile)]

    @property
    def is_rearrangement(self) -> bool:
        """Whether files are replaced or described, and all rows stay; txns do not count."""
        if self.metadata or self.protocol or self.txns_set_back:
            return False
        return bool(self.files) and not any(action.data_change for action in self.files)

    def actions(self, now_ms: int) -> tuple[Action, ...]:
        """Everything but commitInfo, in the reference's order."""
        versions = {app_id: txn.version for app_id, txn in self.txns.items()}
        txns = [
            SetTransaction(app_id=app_id, version=version, last_updated=now_ms)
            for app_id, version in {**self.txns_set_back, **versions}.items()
        ]
        definition = [each for each in (self.metadata, self.protocol) if each is not None]
        domains = self.domains.values()
        return (*definition, *txns, *domains, *self.files, *self.change_files)


def tombstone(add: AddFile, now_ms: int, *, data_change: bool) -> RemoveFile:
    """The remove that cancels an add, with all that is known of the file."""
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now_ms,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )
