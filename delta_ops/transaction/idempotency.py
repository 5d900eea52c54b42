"""Transaction identifiers: how a rerun finds that its work is done.

Source: PROTOCOL.md, "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delta_ops.errors import InvalidRequestError, StaleRunError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.protocol.actions import SetTransaction
from delta_ops.transaction.result import CommitResult

MAINTENANCE_PREFIX = "delta_ops:"
"""Beginning of the application ids under which maintenance commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """The identity of one write: an application and how far it has come."""

    app_id: str
    version: int
    newer_is_stale: bool = False
    """What a greater stored version means: that this write is part of what is done (False), or that
    a newer run has overwritten what this one was about to write, which is an error (True)."""


def txn_of(txn: Txn | tuple[str, int]) -> Txn:
    """The identity, also from an (app_id, version) pair.

    Raises:
        InvalidRequestError: The pair is not a non-empty text and a whole number.
    """
    pair = (txn.app_id, txn.version) if isinstance(txn, Txn) else tuple(txn)
    match pair:
        # A number of another type would be in the commit as nobody can read it.
        case (str() as app_id, version) if app_id and type(version) is int and _is_long(version):
            return txn if isinstance(txn, Txn) else Txn(app_id=app_id, version=version)
    raise InvalidRequestError(
        f"txn {pair!r} is no txn; give an application id (a text) and a version (a whole number "
        "that fits 64 bits)"
    )


def result_if_done(
    log: DeltaLog, snapshot: Snapshot | None, txns: Sequence[Txn]
) -> CommitResult | None:
    """The result of a commit whose txns are all in the table; None if the work remains.

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
    """Whether the table says that a write of all these identities has been committed.

    Raises:
        StaleRunError: A newer run has written, and for that identity that is an error.
        InvalidRequestError: Some are in the table and some are not, so that writing would double
            the rows of the former, and not writing lose those of the latter. Where every identity
            is one of an overwrite, nothing is doubled, and all of it is written again.
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
    """Whether the table says that this write has been committed.

    Raises:
        StaleRunError: A newer run has written, and for this identity that is an error.
    """
    stored = transactions.get(txn.app_id)
    if stored is None or stored.version < txn.version:
        return False
    if stored.version > txn.version and txn.newer_is_stale:
        raise StaleRunError(table, txn.app_id, txn.version, stored.version)
    return True


def _is_long(number: int) -> bool:
    return -(2**63) <= number < 2**63
