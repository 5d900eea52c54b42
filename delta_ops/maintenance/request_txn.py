"""Identity of a maintenance commit: its txn shows a rerun that the work is done.

Source: PROTOCOL.md, "Transaction Identifiers".

The same request has the same application id, so the table keeps one txn for all runs of a job. The
id contains the table's id, because a clone copies the txns and restarts its versions.
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
    """The txn of a request; its version is the planned one, or 0 with a `request_id`.

    Args:
        operation: `optimize`, `restore`, `revert`, `repair`.
        request: A string that is equal for equal work.
        request_id: The caller's id of one request and all its reruns.
        table_id: The id of the table after the commit, if it differs from the snapshot's.
    """
    text = f"{table_id or snapshot.metadata.id} {request}"
    if request_id is not None:
        text += f" {request_id}"
    app_id = f"{MAINTENANCE_PREFIX}{operation}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Txn(app_id=app_id, version=snapshot.version if request_id is None else 0)
