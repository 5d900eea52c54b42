"""Admission: whether maintenance may touch a table at all.

Maintenance that writes rows or checkpoints asks for all that a writer must support. Vacuum, and
clean-up and compaction of the log, write neither: of each feature they have to know which files the
table needs because of it, and what it means for the files of the log, and refuse those that they
have never heard of, whether or not the table says so by `vacuumProtocolCheck`.

Whoever deletes asks for one thing more: `_delta_ops/format.json`, where it exists, says that this
table keeps things of ours (branches, pinned versions) that only a version of delta_ops which knows
that format can see. This version knows of none.
"""

from __future__ import annotations

import json

from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.log import Snapshot
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.protocol.table_definition import validate
from delta_ops.storage import Storage

FORMAT_FILE = "_delta_ops/format.json"

_KNOWN_VERSIONS: frozenset[int] = frozenset()


def is_own_log(snapshot: Snapshot) -> bool:
    """Whether the log is the table's own, which knows all files that the table needs."""
    return snapshot.base is None and snapshot.log_directory == LOG_DIRECTORY


def validate_vacuumable(snapshot: Snapshot) -> None:
    """Refuse a table of which we cannot tell which files it needs.

    Raises:
        UnsupportedFeatureError: It uses a feature, or has a `_delta_ops` format, unknown here.
        InvalidRequestError: Its log is not the one in `_delta_log`, or goes on from another one:
            the files of the table belong to others too.
    """
    if snapshot.base is not None:
        raise InvalidRequestError(
            f"{snapshot.uri}: the log in {snapshot.log_directory} goes on from version "
            f"{snapshot.base.version} of another log of the same files, and does not know which of "
            "them that one needs since; nothing was deleted, and no vacuum of it is possible"
        )
    if snapshot.log_directory != LOG_DIRECTORY:
        raise InvalidRequestError(
            f"{snapshot.uri}: the log in {snapshot.log_directory} is not the table's own, which is "
            f"in {LOG_DIRECTORY}, and does not know which files that one needs; nothing was "
            "deleted. Vacuum the table by its own log"
        )
    validate(snapshot.definition, "vacuum", table=snapshot.uri)
    validate_format(snapshot)


def validate_log_deletable(snapshot: Snapshot) -> None:
    """Refuse a table of which we cannot tell which files of its log it needs.

    Raises:
        UnsupportedFeatureError: It uses a feature, or has a `_delta_ops` format, unknown here.
    """
    validate(snapshot.definition, "clean up", table=snapshot.uri)
    validate_format(snapshot)


def validate_format(snapshot: Snapshot) -> None:
    """Refuse a table that keeps things of ours which this version does not know, at this moment.

    Whoever deletes asks before each batch: no version of the table tells that they came to be.

    Raises:
        UnsupportedFeatureError: It has a `_delta_ops` format unknown here.
    """
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
        found = json.loads(text)["version"]
    except (ValueError, KeyError, TypeError):
        return "unknown"
    return found if found and isinstance(found, int | str) else "unknown"
