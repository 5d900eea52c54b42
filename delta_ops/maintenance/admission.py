"""Admission: validates that maintenance may change a table.

Operations that write rows or checkpoints require every feature that a writer must support. Vacuum,
log clean-up and log compaction write neither. For each feature they must know which files the
feature requires, and how it affects the files of the log. They reject a table with an unknown
feature, with or without the feature `vacuumProtocolCheck`.

Operations that delete files also check `_delta_ops/format.json`. The file exists if the table has
tags or other data of delta_ops that only some versions of delta_ops understand.
"""

from __future__ import annotations

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.log.refs import refs
from delta_ops.log.refs.side_logs import is_side_log
from delta_ops.protocol.table_definition import validate


def is_own_log(snapshot: Snapshot) -> bool:
    """Whether the log is in `_delta_log` and has no base, so that it names all needed files."""
    return snapshot.base is None and snapshot.log_directory == LOG_DIRECTORY


def is_of_branch(snapshot: Snapshot) -> bool:
    """Whether the log belongs to a branch or session."""
    return is_side_log(snapshot.log_directory)


def validate_vacuumable(snapshot: Snapshot) -> None:
    """Reject a table if its log may not name all files that it needs.

    Raises:
        UnsupportedFeatureError: It uses a feature, or has a `_delta_ops` format, unknown here.
        InvalidRequestError: Its log is not in `_delta_log`, or continues another log, so that
            other logs need the files too.
    """
    if is_of_branch(snapshot):
        raise InvalidRequestError(
            f"{snapshot.uri}: a branch cannot be vacuumed by itself; nothing was deleted. Vacuum "
            "the table, which keeps what its branches and sessions need"
        )
    if snapshot.base is not None:
        raise InvalidRequestError(
            f"{snapshot.uri}: the log in {snapshot.log_directory} continues from version "
            f"{snapshot.base.version} of another log, and does not record which files that log "
            "has used since then; nothing was deleted. This table cannot be vacuumed"
        )
    if snapshot.log_directory != LOG_DIRECTORY:
        raise InvalidRequestError(
            f"{snapshot.uri}: the log in {snapshot.log_directory} is not the table's own, which "
            f"is in {LOG_DIRECTORY}, and does not know which files the table's own log needs; "
            "nothing was deleted. Vacuum the table through its own log"
        )
    validate(snapshot.definition, "vacuum", table=snapshot.uri)
    validate_format(snapshot)


def validate_log_deletable(snapshot: Snapshot) -> None:
    """Reject a table if we cannot know which log files it needs.

    Raises:
        UnsupportedFeatureError: It uses a feature, or has a `_delta_ops` format, unknown here.
        InvalidRequestError: The log belongs to a branch or session, which needs all its commits.
    """
    if is_of_branch(snapshot):
        raise InvalidRequestError(
            f"{snapshot.uri}: the log in {snapshot.log_directory} belongs to a branch, which needs "
            "all its commits until it is published or deleted; nothing was deleted"
        )
    validate(snapshot.definition, "clean up", table=snapshot.uri)
    validate_format(snapshot)


def validate_format(snapshot: Snapshot) -> None:
    """Reject a table whose current `_delta_ops` format is unknown here.

    Reads the format file on each call. Call it before each batch of deletions, because no version
    of the table records that the file was created.

    Raises:
        UnsupportedFeatureError: It has a `_delta_ops` format unknown here.
    """
    refs.validate_format(snapshot.storage, to="cleaned up")
