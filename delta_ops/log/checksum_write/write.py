"""Version checksums written: computes `n.crc` from `(n-1).crc` and the actions of commit n.

Source: PROTOCOL.md, "Version Checksum File".

A checksum is optional, and a wrong checksum is worse than none: the reference then rejects the
table, and a reader that takes protocol and metadata from it gets wrong values. A checksum is
therefore written only if every field is known:

1. The previous state of the table comes from the snapshot if it is in memory or cheap to read. Else
   it comes from the previous checksum, if that agrees with everything the snapshot knows.
2. For each file of the commit it must be known whether the file was live. A new file was not. A
   file is new if its add changes data, if no commit since the checkpoint names it, and if it is
   younger than the checkpoint. Both ages are by the store's clock. All other adds, and all removes,
   are looked up in the checkpoint.
3. The checkpoint is read in three cases: it is small; the commit removes files, because such a
   writer has already read the checkpoint to find them; or the caller requests a recount, so that
   another writer's mistake is not carried on forever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.compute as pc

from delta_ops.errors import LogCorruptError
from delta_ops.log.checksum import VersionChecksum, differences, load_checksum
from delta_ops.log.checksum_write.file_figures import (
    NO_FILES,
    Figures,
    count_files,
    figures_after,
    is_possible,
)
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    FileAction,
    Metadata,
    OtherAction,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.file_names import (
    V2CheckpointName,
    checksum_name,
    commit_name,
    log_file_name,
)
from delta_ops.protocol.json.codec import json_body
from delta_ops.protocol.properties.known import IN_COMMIT_TIMESTAMPS
from delta_ops.protocol.properties.property import is_on
from delta_ops.protocol.stats.file_size_histogram import histogram_to_json
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage

T = TypeVar("T")

CHEAP_CHECKPOINT_BYTES = 1 << 20
"""Size of a checkpoint that may be read just for a checksum: some thousand files, in two or three
requests and a few milliseconds, about the time of a small append."""
MAX_TRANSACTIONS = 100
MAX_DOMAINS = 10
"""Longer lists are left out, as in the reference: a list in a checksum must be complete."""
_RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A checksum's content without protocol and metadata."""

    figures: Figures
    transactions: Mapping[str, SetTransaction] | None
    """None if unknown."""
    domains: Mapping[str, DomainMetadata] | None
    """None if unknown. Removed domains are left out."""


NO_SUMMARY = Summary(figures=NO_FILES, transactions={}, domains={})


def create_checksum(
    storage: Storage,
    directory: str,
    version: int,
    before: Snapshot | None,
    actions: Sequence[Action],
    *,
    recount: bool = False,
) -> bool:
    """Create the checksum of a version that was just committed.

    Args:
        before: The previous version; None for version 0.
        actions: All actions of the commit, commitInfo included.
        recount: Count all files and ignore the previous checksum, however large the table is.

    Returns:
        Whether this call created the checksum.

    Raises:
        LogCorruptError: The version has the checksum of another commit.
    """
    checksum = next_checksum(storage, directory, version, before, actions, recount=recount)
    if checksum is None:
        return False
    try:
        # Not durable: readers ignore a checksum that a power cut has truncated.
        storage.create(checksum.path, encode_checksum(checksum), is_durable=False)
    except FileExistsError:
        _validate_own(storage, directory, checksum)
        return False
    return True


def next_checksum(
    storage: Storage,
    directory: str,
    version: int,
    before: Snapshot | None,
    actions: Sequence[Action],
    *,
    recount: bool = False,
) -> VersionChecksum | None:
    """Compute the checksum for `create_checksum`; None if a field is unknown or too costly."""
    files, others = _split(actions)
    definition = _definition_after(before, others, recount=recount)
    if definition is None or _has_vectors(definition, before, files):
        return None
    removes = any(isinstance(action, RemoveFile) for action in files)
    may_read = recount or removes or stored_bytes(before) <= CHEAP_CHECKPOINT_BYTES
    known = _summary(storage, directory, before, may_read=may_read, recount=recount)
    if known is None:
        return None
    figures = figures_after(known.figures, before, files, storage.uri, may_read=may_read)
    if figures is None:
        return None
    info = _last_action(others, CommitInfo)
    is_timed = is_on(IN_COMMIT_TIMESTAMPS, definition.metadata.configuration)
    timestamp = info.values.get("inCommitTimestamp") if info and is_timed else None
    if is_timed and type(timestamp) is not int:
        return None
    expires = _transactions_expire(before, definition.metadata)
    return VersionChecksum(
        path=f"{directory}/{checksum_name(version)}",
        version=version,
        txn_id=info.txn_id if info else None,
        num_files=figures.num_files,
        table_size_bytes=figures.size_bytes,
        in_commit_timestamp=timestamp,
        # Expiry depends on the time of reading, so no fixed list would be complete.
        transactions=None if expires else _transactions_after(known.transactions, others),
        domains=_domains_after(known.domains, others),
        protocol=definition.protocol,
        metadata=definition.metadata,
        histogram=figures.histogram,
    )


def encode_checksum(checksum: VersionChecksum) -> bytes:
    """The bytes of a checksum file, with the reference's field names and order."""
    assert checksum.protocol
    assert checksum.metadata
    fields: dict[str, Any] = {
        "txnId": checksum.txn_id,
        "tableSizeBytes": checksum.table_size_bytes,
        "numFiles": checksum.num_files,
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": checksum.in_commit_timestamp,
        "setTransactions": _bodies(checksum.transactions),
        "domainMetadata": _bodies(checksum.domains),
        "metadata": json_body(checksum.metadata),
        "protocol": json_body(checksum.protocol),
        "fileSizeHistogram": histogram_to_json(checksum.histogram) if checksum.histogram else None,
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return (json.dumps(present, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def stored_bytes(snapshot: Snapshot | None) -> int:
    """Bytes of the checkpoint below a snapshot; 0 if all files are in memory."""
    while snapshot is not None and snapshot.checkpoint is None:
        snapshot = snapshot.base
    if snapshot is None or snapshot.checkpoint is None:
        return 0
    parts = snapshot.checkpoint.parts
    is_v2 = isinstance(log_file_name(parts[0].path.rpartition("/")[2]), V2CheckpointName)
    try:
        opened = snapshot.opened_checkpoint if is_v2 else None
    except LogCorruptError as error:
        return stored_bytes(snapshot.equivalent(error))
    sidecars = [] if opened is None else [file for file in opened.files if file not in parts]
    return sum(file.size for file in (*parts, *sidecars))


def matches_state(checksum: VersionChecksum, snapshot: Snapshot) -> bool:
    """Whether a checksum is complete and agrees with the in-memory state of its version."""
    figures = _recorded_figures(checksum)
    if figures is None or checksum.protocol is None or checksum.metadata is None:
        return False
    rows = snapshot.tail.adds.rows
    domains = snapshot.commit_state.domains.values()
    return (
        checksum.metadata == snapshot.metadata
        and not any(differences(checksum, snapshot.protocol, snapshot.metadata))
        and checksum.txn_id in (None, snapshot.txn_id)  # else it belongs to a lost commit
        and _has(checksum.transactions, snapshot.commit_state.transactions.values())
        and _has(checksum.domains, (each for each in domains if not each.removed))
        and not {each.domain for each in domains if each.removed} & _names(checksum.domains)
        and figures.num_files >= len(rows)
        and figures.size_bytes >= pc.sum(rows["size"], min_count=0).as_py()
    )


def _validate_own(storage: Storage, directory: str, ours: VersionChecksum) -> None:
    """Reject an existing checksum that belongs to another commit of the version."""
    checksum = load_checksum(storage, directory, ours.version)
    if (
        checksum is not None
        and None not in (checksum.txn_id, ours.txn_id)
        and checksum.txn_id != ours.txn_id
    ):
        raise LogCorruptError(
            storage.uri,
            checksum.path,
            f"it names transaction {checksum.txn_id}, but the commit that was just written is "
            f"transaction {ours.txn_id}. Look up commitInfo.txnId in {commit_name(ours.version)}. "
            f"If it is not {ours.txn_id}, another writer replaced the commit: run this write "
            f"again. If it is not {checksum.txn_id}, delete this checksum file",
        )


def _has(recorded: Sequence[T] | None, known: Iterable[T]) -> bool:
    """Whether a list that should be complete contains all known values."""
    return recorded is None or all(each in recorded for each in known)


def _names(domains: Sequence[DomainMetadata] | None) -> set[str]:
    return {each.domain for each in domains or ()}


def _summary(
    storage: Storage, directory: str, before: Snapshot | None, *, may_read: bool, recount: bool
) -> Summary | None:
    """Summary of the version before the commit; None if unknown or too costly to read."""
    if before is None:
        return NO_SUMMARY
    is_in_memory = not stored_bytes(before)
    if not is_in_memory and not recount:
        checksum = before.state_checksum.checksum
        if checksum is None or checksum.version != before.version:
            checksum = load_checksum(storage, directory, before.version)
        figures = (
            _recorded_figures(checksum) if checksum and matches_state(checksum, before) else None
        )
        if checksum and figures:
            return Summary(
                figures=figures,
                transactions=_index(checksum.transactions, lambda txn: txn.app_id),
                domains=_index(checksum.domains, lambda domain: domain.domain),
            )
    if not is_in_memory and not may_read:
        return None
    return Summary(
        figures=count_files(before),
        transactions=before.transactions(),
        domains=before.domain_metadata(),
    )


def _recorded_figures(checksum: VersionChecksum) -> Figures | None:
    if checksum.num_files is None or checksum.table_size_bytes is None:
        return None
    figures = Figures(
        num_files=checksum.num_files,
        size_bytes=checksum.table_size_bytes,
        histogram=checksum.histogram,
    )
    return figures if is_possible(figures) else None


def _split(actions: Sequence[Action]) -> tuple[list[FileAction], list[OtherAction]]:
    """Split actions into file actions and all other actions."""
    files: list[FileAction] = []
    others: list[OtherAction] = []
    for action in actions:
        if isinstance(action, (RemoveFile, AddFile)):  # faster than with a union
            files.append(action)
        else:
            others.append(action)
    return files, others


def _definition_after(
    before: Snapshot | None, actions: Sequence[OtherAction], *, recount: bool
) -> TableDefinition | None:
    """Protocol and metadata after the commit; None if one of them is missing."""
    # A recount reads the checkpoint: the snapshot's own values may come from a checksum.
    known = before.state if before and recount else before
    protocol = _last_action(actions, Protocol) or (known.protocol if known else None)
    metadata = _last_action(actions, Metadata) or (known.metadata if known else None)
    if protocol is None or metadata is None:
        return None
    return TableDefinition(protocol=protocol, metadata=metadata)


def _has_vectors(
    definition: TableDefinition, before: Snapshot | None, files: Sequence[FileAction]
) -> bool:
    """Whether a file may be live twice, with two different deletion vectors."""
    return (
        definition.has("deletionVectors")
        or (before is not None and before.tail.adds.identified is not None)
        or any(action.deletion_vector for action in files)
    )


def _transactions_expire(before: Snapshot | None, metadata: Metadata) -> bool:
    """Whether transaction identifiers can expire before or after the commit."""
    known = [metadata] if before is None else [metadata, before.metadata]
    return any(_RETENTION in each.configuration for each in known)


def _transactions_after(
    known: Mapping[str, SetTransaction] | None, actions: Sequence[OtherAction]
) -> tuple[SetTransaction, ...] | None:
    if known is None:
        return None
    newer = {action.app_id: action for action in actions if isinstance(action, SetTransaction)}
    after = {**known, **newer}
    return tuple(after.values()) if len(after) <= MAX_TRANSACTIONS else None


def _domains_after(
    known: Mapping[str, DomainMetadata] | None, actions: Sequence[OtherAction]
) -> tuple[DomainMetadata, ...] | None:
    if known is None:
        return None
    newer = {action.domain: action for action in actions if isinstance(action, DomainMetadata)}
    after = tuple(domain for domain in {**known, **newer}.values() if not domain.removed)
    return after if len(after) <= MAX_DOMAINS else None


def _index(values: Sequence[T] | None, key: Callable[[T], str]) -> Mapping[str, T] | None:
    """The values by key; None if `values` is None or a key occurs twice."""
    by_key = {key(value): value for value in values or ()}
    return by_key if values is not None and len(by_key) == len(values) else None


def _bodies(actions: Sequence[OtherAction] | None) -> list[dict[str, Any]] | None:
    return None if actions is None else [json_body(action) for action in actions]


def _last_action(actions: Sequence[OtherAction], kind: type[T]) -> T | None:
    return next((action for action in reversed(actions) if isinstance(action, kind)), None)
