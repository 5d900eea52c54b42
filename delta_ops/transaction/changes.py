"""Changes: what a commit does, as a closed set of values.

A transaction collects changes in a `Draft`. `Draft.apply` defines each change: its actions in the
commit, and what the commit depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from delta_ops.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    DeletionVector,
    DomainMetadata,
    FileAction,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.properties.values import IsolationLevel
from delta_ops.protocol.stats.file_stats import widen_stats
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.races.conflicts import Footprint


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
    """The removed files as live, if added files hold their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """Add files that the log already knows and that are not live."""

    files: tuple[AddFile, ...]
    vacuum_was_killed: bool = False
    """An open vacuum run was killed, so it deletes nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Replace the descriptions of live files, such as statistics; their rows stay the same."""

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
    """Record the changed rows for readers of the change data feed."""

    files: tuple[AddCdcFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDomain:
    """Set or remove a domain."""

    domain: DomainMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTxn:
    """Commit only if the table does not hold this txn, and record it."""

    txn: Txn


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBackTxns:
    """Record these txn versions, even if the table holds later versions."""

    versions: Mapping[str, int]
    """Versions by application id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Define:
    """Replace the definition of the table, or create the table."""

    definition: TableDefinition
    changes_protocol: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Depend on the rows that match a predicate: a concurrent write of such a row is a conflict."""

    predicate: Predicate
    changes_rows: bool = False
    """Whether the commit deletes or replaces each row that it read.

    Then a concurrent commit may delete other rows of the same files by deletion vectors.
    """
    is_serial: bool = False
    """Whether the read is `Serializable`, whatever the table's isolation level."""


Change = (
    Add
    | Remove
    | PutBack
    | Describe
    | ReplaceVector
    | AddChangeFiles
    | SetDomain
    | SetTxn
    | SetBackTxns
    | Define
    | Read
)


@dataclass(slots=True, kw_only=True)
class Draft:
    """All changes of a commit so far."""

    files: list[FileAction] = field(default_factory=list)
    """File actions in the order of the changes."""
    added: list[AddFile] = field(default_factory=list)
    """Files that no version has named yet."""
    vectored: list[AddFile] = field(default_factory=list)
    """Files with a new deletion vector; `modification_time` is the time of the vector."""
    num_rows: int = 0
    rearranged: list[AddFile] = field(default_factory=list)
    """Removed files whose rows are in added files, and files with a new description."""
    named_again: list[AddFile] = field(default_factory=list)
    """Added files that the log already knows."""
    put_back: list[AddFile] = field(default_factory=list)
    avoids_vacuum: bool = True
    change_files: list[AddCdcFile] = field(default_factory=list)
    txns: dict[str, Txn] = field(default_factory=dict)
    txns_set_back: dict[str, int] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    definition: TableDefinition | None = None
    """The table after the commit; None: its definition stays."""
    changes_protocol: bool = False
    reads: list[Read] = field(default_factory=list)
    txn_id: str | None = None
    """`commitInfo.txnId`, if a later attempt must recognize the commit; else chosen at random."""

    def apply(self, change: Change) -> None:
        """Add a change to the commit."""
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
                self.avoids_vacuum = self.avoids_vacuum and not vacuum_was_killed
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
            case SetBackTxns(versions=versions):
                self.txns_set_back.update(versions)
            case Define(definition=definition, changes_protocol=changes_protocol):
                self.definition = definition
                self.changes_protocol |= changes_protocol
            case Read():
                self.reads.append(change)

    @property
    def removed(self) -> list[RemoveFile]:
        """The files that are removed."""
        return [action for action in self.files if isinstance(action, RemoveFile)]

    @property
    def is_empty(self) -> bool:
        """Whether the commit would change nothing and record no txn."""
        return not self.actions(now_ms=0)

    @property
    def removes_rows(self) -> bool:
        """Whether the commit removes rows, not only files."""
        return any(each.data_change for each in self.removed)

    @property
    def new_files(self) -> tuple[AddFile, ...]:
        """Files with new rows that no version names yet."""
        return tuple(each for each in self.added if each.data_change)

    @property
    def is_rearrangement(self) -> bool:
        """Whether the commit only moves rows to other files and keeps the table's definition.

        It may record txns, but must not set one back.
        """
        if self.definition or self.txns_set_back:
            return False
        return bool(self.files) and not any(action.data_change for action in self.files)

    def actions(self, now_ms: int) -> tuple[Action, ...]:
        """All actions except commitInfo, in the reference's order."""
        versions = {app_id: txn.version for app_id, txn in self.txns.items()}
        txns = [
            SetTransaction(app_id=app_id, version=version, last_updated=now_ms)
            for app_id, version in {**self.txns_set_back, **versions}.items()
        ]
        definition: list[Action] = []
        if self.definition is not None:
            definition.append(self.definition.metadata)
            if self.changes_protocol:
                definition.append(self.definition.protocol)
        domains = self.domains.values()
        return (*definition, *txns, *domains, *self.files, *self.change_files)

    def footprint(
        self, table: str, *, isolation: IsolationLevel, reads_rows: bool, partition_time_zone: str
    ) -> Footprint:
        """The rows and files that the commit depends on; concurrent commits are checked against it.

        Args:
            table: For messages.
            isolation: The table's isolation level.
            reads_rows: False if the operation depends on no row.
            partition_time_zone: Zone for partition timestamps without one.
        """
        removed = (action.path for action in self.removed)
        named_again = (each.path for each in self.named_again)
        level: IsolationLevel | Literal["SnapshotIsolation"] = isolation
        if self.is_rearrangement or not reads_rows:
            level = "SnapshotIsolation"
        elif any(each.is_serial for each in self.reads):
            level = "Serializable"
        return Footprint(
            reads=tuple(each.predicate for each in self.reads),
            removed_paths=frozenset(canonical_texts(removed, table)),
            changes_all_it_reads=bool(self.reads) and all(each.changes_rows for each in self.reads),
            puts_back=bool(self.put_back) and self.avoids_vacuum,
            named_again=frozenset(canonical_texts(named_again, table)),
            app_ids=frozenset(self.txns) | frozenset(self.txns_set_back),
            domains=frozenset(self.domains),
            changes_metadata=self.definition is not None,
            partition_time_zone=partition_time_zone,
            isolation=level,
        )


def tombstone(add: AddFile, now_ms: int, *, data_change: bool) -> RemoveFile:
    """The remove action for a live file, with all fields of its add action."""
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
