"""Set back: restores the txn versions of applications whose writes are undone.

Source: PROTOCOL.md, "Transaction Identifiers". A txn cannot be removed: an application without an
earlier txn gets -1, which is below every version that an application uses.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta_ops.protocol.actions import SetTransaction
from delta_ops.transaction.idempotency import MAINTENANCE_PREFIX

NO_VERSION = -1
_LEAST_VERSION = -(2**63)


def transactions_to_set_back(
    latest: Mapping[str, SetTransaction], wanted: Mapping[str, SetTransaction]
) -> dict[str, int]:
    """Map each application whose txn version differs to the version to restore."""
    versions = {
        app_id: _version_of(wanted.get(app_id), txn.version)
        for app_id, txn in latest.items()
        if not app_id.startswith(MAINTENANCE_PREFIX)
    }
    return {app_id: v for app_id, v in versions.items() if v != latest[app_id].version}


def _version_of(wanted: SetTransaction | None, latest: int) -> int:
    if wanted is not None:
        return wanted.version
    return NO_VERSION if latest >= NO_VERSION else _LEAST_VERSION
