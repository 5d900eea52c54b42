"""Identity of a maintenance commit: the txn by which a rerun finds that its work is done.

Source: PROTOCOL.md, "Transaction Identifiers".

Application ids are the same for the same request, so that the table keeps one txn for all runs of a
job. The id of the table is in them: a clone starts its versions anew and has taken over the txns.
"""

from __future__ import annotations

import hashlib

from delta_ops.log import Snapshot
from delta_ops.transaction import Txn
from delta_ops.transaction.idempotency import MAINTENANCE_PREFIX


def maintenance_txn(
    operation: str,
    snapshot: Snapshot,
    request: str,
    *,
    request_id: str | None = None,
    table_id: str | None = None,
) -> Txn:
    """The txn of a request: with the version planned on, or that of the request for ever.

    Args:
        operation: `optimize`, `restore`, `revert`, `repair`.
        request: What is asked for; the same text for the same work.
        request_id: The caller's own, of one request and all its reruns.
        table_id: What the commit leaves the table with, if it is to be another than the snapshot's.
    """
    text = f"{table_id or snapshot.metadata.id} {request}"
    if request_id is not None:
        text += f" {request_id}"
    app_id = f"{MAINTENANCE_PREFIX}{operation}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Txn(app_id=app_id, version=snapshot.version if request_id is None else 0)
