"""Versioning: tags and branches of a table, which vacuum and log clean-up keep.

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
from delta_ops.versioning.tags import create_tag, delete_tag, list_tags
from delta_ops.versioning.verify_refs import RefAtRisk, VerifiedRef, verify_refs

__all__ = [
    "Branch",
    "BranchDiff",
    "PublishResult",
    "RefAtRisk",
    "Tag",
    "VerifiedRef",
    "create_branch",
    "create_tag",
    "delete_branch",
    "delete_tag",
    "diff_branch",
    "list_branches",
    "list_tags",
    "open_branch",
    "publish",
    "rename_branch",
    "verify_refs",
]
