"""Branches: where their logs are, and whether they take commits.

The log of a branch is in a directory of its own below `_delta_ops/branches`. It has the form of a
table's log, and its first commit follows the base version. The data files of a branch lie beside
those of main, so publishing moves no data.

1. A branch exists as soon as the journal has its entry. Its directory appears later, with its first
   commit. If the directories are listed first and the journal is read afterwards, a directory
   without an entry belongs to a deleted branch.
2. A commit looks at the journal before and after it creates its file. If the branch was deleted or
   closed in between, the committer gets an error.
3. A publication closes the branch in the journal, then looks up its next version. So each commit is
   either published, or its committer gets an error; see `versioning.publish`. A rebase does the
   same; see `versioning.rebase`.
"""

from __future__ import annotations

import re

from delta_ops.errors import TableReplacedError, VersionNotFoundError
from delta_ops.log.refs.refs import Branch, Refs, refs_journal, validate_table_exists
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.storage.paths import OWN_DIRECTORY

BRANCHES_DIRECTORY = f"{OWN_DIRECTORY}/branches"
_GONE = "is a branch that was deleted, or was rebased and must be opened again"
REBASING = "rebase "
"""Begins `Branch.publisher` during a rebase."""
_LOG = re.compile(rf"{BRANCHES_DIRECTORY}/([^/]+)/log")


def branch_log_directory(branch_id: str) -> str:
    """The log of a branch, relative to the table's root."""
    return f"{BRANCHES_DIRECTORY}/{branch_id}/log"


def branch_id_of(log_directory: str) -> str | None:
    """The id of the branch whose log is in a directory; None if the log is not a branch's."""
    found = _LOG.fullmatch(log_directory)
    return found[1] if found else None


def branch_named(refs: Refs, name: str) -> Branch | None:
    """The branch of a name; None if there is none."""
    return next((branch for branch in refs.named_branches if branch.name == name), None)


def is_rebasing(branch: Branch) -> bool:
    """Whether a rebase has closed the branch; it may have been killed."""
    return (branch.publisher or "").startswith(REBASING)


def find_branch(storage: Storage, name: str) -> Branch:
    """Find a branch by its name.

    Raises:
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such branch.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    branch = branch_named(refs_journal(storage).load().state, name)
    if branch is None:
        validate_table_exists(storage)
        raise VersionNotFoundError(
            storage.uri,
            f"branch {name}",
            f"there is no such branch; {option('list_branches')} shows the names",
        )
    return branch


def validate_exists(storage: Storage, log_directory: str) -> None:
    """Reject the log of a branch that was deleted; accept any other log.

    Raises:
        TableReplacedError: The branch was deleted.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    branch_id = branch_id_of(log_directory)
    if branch_id is not None and branch_id not in refs_journal(storage).load().state.branches:
        raise TableReplacedError(storage.uri, _GONE)


def validate_open(storage: Storage, log_directory: str, version: int) -> None:
    """Reject a commit to a branch that was deleted or closed; accept any other log.

    Args:
        version: The version of the commit.

    Raises:
        TableReplacedError: The branch was deleted, or is closed for this version.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    branch_id = branch_id_of(log_directory)
    if branch_id is None:
        return
    branch = refs_journal(storage).load().state.branches.get(branch_id)
    if branch is None:
        raise TableReplacedError(storage.uri, _GONE)
    if branch.last_version is None or version <= branch.last_version:
        return
    if is_rebasing(branch):
        reason = "is being rebased; rebase it again if that was interrupted, and open it again"
    elif branch.published_version is None:
        reason = "is being published; publish it again if that was interrupted"
    else:
        reason = f"was published as version {branch.published_version}; create another branch"
    raise TableReplacedError(
        storage.uri,
        f"is the branch {branch.name!r} at version {branch.last_version}, which {reason}",
    )
