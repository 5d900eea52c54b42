"""Versioning: tags, branches, sessions and releases of tables, which vacuum and log clean-up keep.

They are stored beside the log, in `_delta_ops`; other engines neither see nor need them.
"""

from typing import TYPE_CHECKING

from delta_ops.late_imports import late_names

if TYPE_CHECKING:
    from delta_ops.log.refs.refs import Branch, Session, Tag
    from delta_ops.versioning.anchors import Anchor, create_anchor
    from delta_ops.versioning.branch_diff import BranchDiff, diff_branch
    from delta_ops.versioning.branches import (
        create_branch,
        delete_branch,
        list_branches,
        open_branch,
        rename_branch,
    )
    from delta_ops.versioning.publish import PublishResult, publish
    from delta_ops.versioning.rebase import rebase_branch
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
    from delta_ops.versioning.session_commit import SessionResult
    from delta_ops.versioning.sessions import (
        begin_session,
        join_session,
        list_sessions,
        open_session,
    )
    from delta_ops.versioning.tags import create_tag, delete_tag, list_tags
    from delta_ops.versioning.verify_refs import RefAtRisk, VerifiedRef, verify_refs
    from delta_ops.versioning.write_session import SessionStatus, SessionStep, WriteSession
else:
    late_names(
        __name__,
        {
            "delta_ops.log.refs.refs": ["Branch", "Session", "Tag"],
            "delta_ops.versioning.anchors": ["Anchor", "create_anchor"],
            "delta_ops.versioning.branch_diff": ["BranchDiff", "diff_branch"],
            "delta_ops.versioning.branches": [
                "create_branch",
                "delete_branch",
                "list_branches",
                "open_branch",
                "rename_branch",
            ],
            "delta_ops.versioning.publish": ["PublishResult", "publish"],
            "delta_ops.versioning.rebase": ["rebase_branch"],
            "delta_ops.versioning.releases.create": ["create_release", "roll_back_release"],
            "delta_ops.versioning.releases.delete": ["DeleteReleasesResult", "delete_releases"],
            "delta_ops.versioning.releases.holds": ["delete_holds"],
            "delta_ops.versioning.releases.release_set": [
                "Release",
                "ReleasedTable",
                "ReleaseSet",
                "TableChange",
                "diff_releases",
                "find_release",
                "list_releases",
                "open_release",
            ],
            "delta_ops.versioning.session_commit": ["SessionResult"],
            "delta_ops.versioning.sessions": [
                "begin_session",
                "join_session",
                "list_sessions",
                "open_session",
            ],
            "delta_ops.versioning.tags": ["create_tag", "delete_tag", "list_tags"],
            "delta_ops.versioning.verify_refs": ["RefAtRisk", "VerifiedRef", "verify_refs"],
            "delta_ops.versioning.write_session": ["SessionStatus", "SessionStep", "WriteSession"],
        },
    )

__all__ = [
    "Anchor",
    "Branch",
    "BranchDiff",
    "DeleteReleasesResult",
    "PublishResult",
    "RefAtRisk",
    "Release",
    "ReleaseSet",
    "ReleasedTable",
    "Session",
    "SessionResult",
    "SessionStatus",
    "SessionStep",
    "TableChange",
    "Tag",
    "VerifiedRef",
    "WriteSession",
    "begin_session",
    "create_anchor",
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
    "join_session",
    "list_branches",
    "list_releases",
    "list_sessions",
    "list_tags",
    "open_branch",
    "open_release",
    "open_session",
    "publish",
    "rebase_branch",
    "rename_branch",
    "roll_back_release",
    "verify_refs",
]
