"""A creation that was lost to another: whether our commit fits the table that stands there.

Writers that find no table all try to create it. Where the winner made the table that the losers
were about to make, their files fit into it as if it had been there: the losers saw no file, so
every commit of the new table came after what they have read. A rule for rows that only the winner's
table has was not held against theirs.
"""

from __future__ import annotations

from dataclasses import replace

from delta_ops.errors import CommitConflictError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.row_rules import Identity, RowRule, rules_of_expressions
from delta_ops.protocol.schema import schema_from_json
from delta_ops.transaction.conflicts import Footprint, conflict_error, find_conflict


def is_same_table(ours: Metadata, created: Metadata) -> bool:
    """Whether files written for one fit the other."""
    return (
        schema_from_json(ours.schema_string) == schema_from_json(created.schema_string)
        and ours.partition_columns == created.partition_columns
        and _rules(created) <= _rules(ours)
        and not any(
            isinstance(rule, Identity) for rule in _rules(ours)
        )  # both count from its start
    )


def validate_joinable(log: DeltaLog, created: Snapshot, ours: Footprint) -> None:
    """Refuse a commit that one of the new table's commits invalidates.

    Raises:
        CommitConflictError: With the commit and the reason.
    """
    commits = list(log.commits(0, created.version))
    if len(commits) <= created.version:
        raise CommitConflictError(log.uri, created.version, "a commit before it was cleaned up")
    for commit in commits:
        conflict = find_conflict(_drop_definition(commit), ours, created)
        if conflict is not None:
            raise conflict_error(conflict, log.uri)


def _rules(metadata: Metadata) -> frozenset[RowRule]:
    schema = schema_from_json(metadata.schema_string)
    return frozenset(rules_of_expressions(schema, metadata.configuration))


def _drop_definition(commit: Commit) -> Commit:
    """Protocol and metadata are ours too: the table that they came to has been compared."""
    return replace(commit, protocol=None, metadata=None)
