"""Whether a vacuum is due: a sample of the files that expired tombstones name is looked up."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from delta_ops.log import Snapshot
from delta_ops.maintenance.reachable import unneeded_paths
from delta_ops.maintenance.vacuum.plan import is_among, is_hidden, visible_prefixes
from delta_ops.protocol.file_paths import is_absolute

TOMBSTONE_COLUMNS = ("path", "deletionTimestamp", "deletionVector")
"""Columns that `any_is_there` looks at."""
_SAMPLE = 16


def any_is_there(
    snapshot: Snapshot, tombstones: pa.Table, horizon_ms: int, keep: Collection[str] = ()
) -> bool:
    """Whether vacuum would find a file that only tombstones older than the horizon name, as far as
    a sample of these files tells."""
    unneeded = unneeded_paths(snapshot, tombstones, horizon_ms)
    deletable = _deletable(unneeded, snapshot, keep) if unneeded else []
    if not deletable:
        return False
    step = max(1, -(-len(deletable) // _SAMPLE))
    # As vacuum sees them: one that is reached by a link is not there.
    found = snapshot.storage.find(deletable[::-1][::step])
    return any(info.modified_ms < horizon_ms for info in found)


def _deletable(paths: Iterable[str], snapshot: Snapshot, keep: Collection[str]) -> list[str]:
    """Paths that vacuum would delete if they are there, in its order."""
    visible = visible_prefixes(snapshot.partition_columns)
    kept = frozenset(keep)
    return sorted(
        path
        for path in paths
        if not is_absolute(path) and not is_hidden(path, visible) and not is_among(path, kept)
    )
