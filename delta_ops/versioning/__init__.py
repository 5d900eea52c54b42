"""Versioning: tags, branches and releases of tables, which vacuum and log clean-up keep.

They are stored beside the log, in `_delta_ops`; other engines neither see nor need them.
"""

from delta_ops.log.refs.refs import Branch, Tag
from delta_ops.versioning.branch_diff import BranchDiff, diff_branch
from delta_ops.versioning.branches import (
    create_branch,
    delete_branch,
    list_branches,
    open_branch,
    rename_branch,
)
from delta_ops.versioning.publish import PublishResult, publish
from delta_ops.versioning.releases.create import create_release, roll_back_release
from delta_ops.versioning.releases.delete import DeleteReleasesResult, delete_releases
from delta_ops.versioning.releases.holds import delete_holds
from delta_ops.versioning.releases.release_set import (
    Release,
    ReleasedTable,
    ReleaseSet,
    TableChange,
    diff_releases,
    find_release,
    list_releases,
    open_release,
)
from delta_ops.versioning.tags import create_tag, delete_tag, list_tags
from delta_ops.versioning.verify_refs import RefAtRisk, VerifiedRef, verify_refs

__all__ = [
    "Branch",
    "BranchDiff",
    "DeleteReleasesResult",
    "PublishResult",
    "RefAtRisk",
    "Release",
    "ReleaseSet",
    "ReleasedTable",
    "TableChange",
    "Tag",
    "VerifiedRef",
    "create_branch",
    "create_release",
    "create_tag",
    "delete_branch",
    "delete_holds",
    "delete_releases",
    "delete_tag",
    "diff_branch",
    "diff_releases",
    "find_release",
    "list_branches",
    "list_releases",
    "list_tags",
    "open_branch",
    "open_release",
    "publish",
    "rename_branch",
    "roll_back_release",
    "verify_refs",
]
