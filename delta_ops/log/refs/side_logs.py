"""Side logs: the logs of branches and of the writers of sessions, beside the table's own log."""

from __future__ import annotations

from delta_ops.log.refs import branches
from delta_ops.log.refs.branches import branch_id_of
from delta_ops.log.refs.session_files import validate_fork_open
from delta_ops.log.session_place import fork_place_of, is_of_session
from delta_ops.storage import Storage


def is_side_log(log_directory: str) -> bool:
    """Whether a log belongs to a branch or to a session."""
    return branch_id_of(log_directory) is not None or is_of_session(log_directory)


def validate_open(storage: Storage, log_directory: str, version: int) -> None:
    """Reject a commit to a branch or session that takes no more; accept any other log.

    Args:
        version: The version of the commit.

    Raises:
        TableReplacedError: The branch was deleted, or is closed for this version.
        SessionEndedError: The session has ended, or a later attempt of the step has begun.
        LogCorruptError, UnsupportedFeatureError, StorageError: The place could not be read.
    """
    place = fork_place_of(log_directory)
    if place is not None:
        validate_fork_open(storage, place, version)
    else:
        branches.validate_open(storage, log_directory, version)
