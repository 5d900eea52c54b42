"""Tags of runs that delta_ops sets or reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

import dagster as dg

from delta_ops.errors import InvalidRequestError

JOB_TAG = "delta_ops/maintenance"
"""Tag of each maintenance job; the value is the kind of work."""
TABLE_TAG = "delta_ops/table"
"""Tag of a run for one table; the value is the asset key. `dagster.yaml` may limit runs by it."""
IDEMPOTENCY_TAG = "delta_ops/idempotency"
"""Tag that a user sets to make a run write again ("force") or keep earlier commits ("adopt")."""
READ_TAG = "delta_ops/read"
"""Tag that a user sets to choose the versions that the inputs of a run read."""
REPRODUCE_TAG = "delta_ops/reproduce"
"""Tag that a user sets to reproduce a run; the value is the id of that run."""
_TAGS = (REPRODUCE_TAG, IDEMPOTENCY_TAG, READ_TAG, JOB_TAG, TABLE_TAG)
_LIKE_A_TAG = re.compile(r"\s*delta[_-]ops[/.:]", re.IGNORECASE)


def validate_tags(run: dg.DagsterRun) -> None:
    """Reject a misspelled tag of delta_ops.

    Raises:
        InvalidRequestError: The run has such a tag.
    """
    for tag in run.tags:
        if tag not in _TAGS and _LIKE_A_TAG.match(tag):
            raise InvalidRequestError(
                f"run {run.run_id} has the tag {tag!r}, which has no effect; the tag "
                f"{IDEMPOTENCY_TAG!r} decides whether a run writes again, {READ_TAG!r} which "
                f"versions its inputs read, and {REPRODUCE_TAG!r} which run it reproduces. Nothing "
                "was written"
            )


def reject_reproduction(tags: Mapping[str, str], what: str) -> None:
    """Reject work that changes main, in a run that reproduces another run.

    Args:
        what: The work, as a gerund: `publishing rows`.

    Raises:
        InvalidRequestError: The run has the tag.
    """
    if REPRODUCE_TAG in tags:
        raise InvalidRequestError(
            f"this run reproduces run {tags[REPRODUCE_TAG]}, so it must not change a table; {what} "
            "is not possible in it. Leave the asset out of the selection"
        )
