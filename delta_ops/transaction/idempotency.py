"""Transaction identifiers: a rerun uses them to detect committed work.

Source: PROTOCOL.md, "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from delta_ops.error_texts import whole_text
from delta_ops.errors import InvalidRequestError, StaleRunError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.protocol.actions import SetTransaction
from delta_ops.transaction.result import CommitResult

MAINTENANCE_PREFIX = "delta_ops:"
"""Prefix of the application ids of maintenance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """The identity of one write: an application id and a version."""

    app_id: str
    version: int
    newer_is_stale: bool = False
    """The meaning of a greater stored version. False: this write is already committed. True: a
    newer run has overwritten the rows of this write, which is an error."""


def txn_of(txn: Txn | tuple[str, int]) -> Txn:
    """Convert an (app_id, version) pair to a Txn, and validate it.

    Raises:
        InvalidRequestError: The pair is not a non-empty text and a whole number.
    """
    pair = (txn.app_id, txn.version) if isinstance(txn, Txn) else tuple(txn)
    match pair:
        # Another number type, such as float or bool, would make the commit unreadable.
        case (str() as app_id, version) if app_id and is_long(version):
            return txn if isinstance(txn, Txn) else Txn(app_id=app_id, version=version)
    raise InvalidRequestError(
        f"{whole_text(pair)} is not a txn; give an application id (a string) and a version (a "
        "whole number that fits 64 bits)"
    )


def result_if_done(
    log: DeltaLog, snapshot: Snapshot | None, txns: Sequence[Txn]
) -> CommitResult | None:
    """The result if the table holds all txns of a commit; None if the work remains.

    Raises:
        StaleRunError: A newer run has overwritten what this run is about to write.
        InvalidRequestError: The table holds some of the txns and lacks others.
    """
    if snapshot is None or not txns:
        return None
    stored = snapshot.transactions()
    if not all_done(txns, stored, table=log.uri):
        return None
    app_id = txns[0].app_id
    version = version_of_transaction(
        log.storage, log.log_directory, app_id, stored[app_id].version, base=log.base
    )
    return CommitResult(version=version, already_committed=True, attempts=0)


def all_done(
    txns: Sequence[Txn], transactions: Mapping[str, SetTransaction], *, table: str
) -> bool:
    """Whether the table holds all these txns.

    If all txns belong to overwrites (`newer_is_stale`), the table may hold only some of them: a
    rerun of the whole write duplicates no row.

    Raises:
        StaleRunError: A newer run has written, and `newer_is_stale` is set.
        InvalidRequestError: The table holds only some of the txns. Writing would duplicate rows,
            and not writing would lose rows.
    """
    done = [txn for txn in txns if is_done(txn, transactions, table=table)]
    if not done or all(txn.newer_is_stale for txn in txns):
        return bool(done) and len(done) == len(txns)
    if len(done) < len(txns):
        raise InvalidRequestError(
            f"{table}: part of this commit is in the table already ({done[0].app_id}); commit the "
            "parts separately"
        )
    return True


def is_done(txn: Txn, transactions: Mapping[str, SetTransaction], *, table: str) -> bool:
    """Whether the table holds this txn.

    Raises:
        StaleRunError: A newer run has written, and `newer_is_stale` is set.
    """
    stored = transactions.get(txn.app_id)
    if stored is None or stored.version < txn.version:
        return False
    if stored.version > txn.version and txn.newer_is_stale:
        raise StaleRunError(table, txn.app_id, txn.version, stored.version)
    return True


def is_long(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number that fits 64 bits."""
    return type(value) is int and -(2**63) <= value < 2**63
