"""Transaction identifiers: finds the version that committed an identifier.

Source: PROTOCOL.md, "Transaction Identifiers". `table_state` holds the current identifiers.
"""

from __future__ import annotations

from delta_ops.errors import LogCorruptError
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.log.history.logged_commits import LoggedCommit, logged_commits
from delta_ops.log.snapshot import Snapshot
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import run_parallel

_MANY_COMMITS = 32


def version_of_transaction(
    storage: Storage, directory: str, app_id: str, version: int, *, base: Snapshot | None = None
) -> int | None:
    """Find the version that committed a txn; None if its commit file cannot be found.

    A damaged commit is skipped: the txn is already known to exist, and no version may need such an
    old commit any more.

    Args:
        base: The snapshot of another log that the first commit of this log follows.
    """
    commits, _ = logged_commits(storage, directory, base)
    newest_first = [commits[number] for number in sorted(commits, reverse=True)]
    # The txn is nearly always recent. Else the number of commits read doubles each time.
    start, end = 0, 1
    while start < len(newest_first):
        group = newest_first[start:end]
        for commit in run_parallel(_read_if_possible, group):
            for txn in commit.transactions if commit else ():
                if commit and (txn.app_id, txn.version) == (app_id, version):
                    return commit.version
        start, end = end, end + min(end, _MANY_COMMITS)
    return None


def _read_if_possible(logged: LoggedCommit) -> Commit | None:
    try:
        return read_commit_if_there(logged.storage, logged.directory, logged.version)
    except LogCorruptError:
        return None
