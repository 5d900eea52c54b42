"""Admission: whether maintenance may touch a table at all.

Maintenance writes and deletes, so it asks for all that a writer must support. Whoever deletes asks
for one thing more: `_delta_ops/format.json`, where it exists, says that this table keeps things of
ours (branches, pinned versions) that only a version of delta_ops which knows that format can see.
This version knows of none.
"""

from __future__ import annotations

import json

from delta_ops.errors import UnsupportedFeatureError
from delta_ops.log import Snapshot
from delta_ops.protocol.features import validate_writable
from delta_ops.storage import Storage

FORMAT_FILE = "_delta_ops/format.json"

_KNOWN_VERSIONS: frozenset[int] = frozenset()


def validate_maintainable(snapshot: Snapshot) -> None:
    """Refuse a table that we cannot write.

    Raises:
        UnsupportedFeatureError: With all that is not supported.
    """
    validate_writable(snapshot.protocol, snapshot.metadata, table=snapshot.uri)


def validate_deletable(snapshot: Snapshot) -> None:
    """Refuse a table from which we must not delete, since something unknown may need the files.

    Raises:
        UnsupportedFeatureError: It cannot be written, or it has a `_delta_ops` format unknown here.
    """
    validate_maintainable(snapshot)
    version = _format_version(snapshot.storage)
    if version is not None and version not in _KNOWN_VERSIONS:
        raise UnsupportedFeatureError(
            snapshot.uri, (f"version {version} of {FORMAT_FILE}",), "cleaned up"
        )


def _format_version(storage: Storage) -> object:
    """What the file names as its version; None where there is no file."""
    try:
        text = storage.read(FORMAT_FILE)
    except FileNotFoundError:
        return None
    try:
        return json.loads(text)["version"] or "unknown"
    except (ValueError, KeyError, TypeError):
        return "unknown"
