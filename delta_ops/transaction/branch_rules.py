"""Rules for branches and sessions: excluded features, and the reads that a commit records.

A commit to a branch or session records the rows that it read. When the branch is published, or the
session is committed, the commits of main since the base version are checked against these reads, as
if all recorded commits were one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import Commit, read_commits
from delta_ops.log.refs.branches import branch_id_of
from delta_ops.log.segment import list_log
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, add_files
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.columns.identity import identity_columns
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import TRUE, parse_predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.transaction.changes import Draft, Read

READS = "branchReads"
"""Field of `commitInfo` in the log of a branch: the rows that the commit read, as JSON."""


def validate_branchable(definition: TableDefinition, *, table: str) -> None:
    """Reject a table whose features a branch would break.

    Raises:
        UnsupportedFeatureError: The table uses a feature that we cannot write.
        InvalidRequestError: The table tracks rows or has identity columns.
    """
    validate(definition, "write", table=table, engine=None)
    if definition.has("rowTracking"):
        raise InvalidRequestError(
            f"{table}: a table with the feature rowTracking cannot have branches or sessions, "
            "because their rows would get ids and versions that main gives to other rows; write to "
            "a copy of the table instead"
        )
    if names := [column.name for column in identity_columns(definition.schema)]:
        raise InvalidRequestError(
            f"{table}: a table with identity columns ({', '.join(names)}) cannot have branches or "
            "sessions, because these and main would give the same values to different rows; write "
            "to a copy of the table instead"
        )


def validate_session_draft(draft: Draft, *, table: str) -> None:
    """Reject a commit to a session that does more than add and remove rows.

    Raises:
        InvalidRequestError: It changes the definition of the table, a domain, or the description of
            a file, or it restores a file.
    """
    if draft.definition is not None or draft.domains or draft.named_again:
        raise InvalidRequestError(
            f"{table}: a session takes rows only, and this operation changes columns, properties "
            "or descriptions of files, or restores files; run it on main before the session "
            "begins, or use a branch"
        )


def validate_put_back_on_branch(adds: Sequence[AddFile], snapshot: Snapshot) -> None:
    """Reject a commit to a branch that restores files from before its base version.

    Vacuum keeps the files of the base version and of later versions of the branch, and may be
    deleting older files.

    Args:
        snapshot: The version of any log; the files of other logs are accepted.

    Raises:
        InvalidRequestError: A file is neither in the base version nor from the branch.
    """
    if not adds or branch_id_of(snapshot.log_directory) is None:
        return
    wanted = {_identity(add, snapshot) for add in adds}
    paths = array_of({path for path, _ in wanted}, pa.string())
    base = snapshot.base
    for files in base.stream_live([*ADD.names, CANONICAL_PATH]) if base else ():
        named = files.filter(pc.is_in(files[CANONICAL_PATH], value_set=paths))
        wanted -= {_identity(add, snapshot) for add in add_files(named.select(ADD.names))}
    listed = list_log(snapshot.storage, snapshot.log_directory).commits
    own = [listed[version] for version in sorted(listed) if version <= snapshot.version]
    for commit in read_commits(snapshot.storage, own) if own and wanted else ():
        wanted -= {_identity(add, snapshot) for add in add_files(commit.adds.select(ADD.names))}
    if wanted:
        version = "its base version" if base is None else f"its base version, {base.version},"
        raise InvalidRequestError(
            f"{snapshot.uri}: a branch cannot restore files from before {version} because a vacuum "
            "may delete them; create a branch at the version that has them, while it can be read"
        )


def _identity(add: AddFile, snapshot: Snapshot) -> tuple[str, str | None]:
    """The key of a file in the log: its canonical path and its deletion vector."""
    vector = add.deletion_vector
    return canonical_path(add.path, snapshot.uri), vector.unique_id if vector else None


def reads_text(reads: Iterable[Read], time_zone: str) -> str:
    """The reads of a commit, as its `commitInfo` records them."""
    listed = [
        {
            "predicate": predicate_text(each.predicate),
            "changesRows": each.changes_rows,
            "isSerial": each.is_serial,
        }
        for each in reads
    ]
    return json.dumps({"reads": listed, "timeZone": time_zone}, separators=(",", ":"))


def reads_of(commit: Commit, time_zone: str = "UTC") -> list[Read]:
    """The rows that a commit to a branch read; all rows if its record cannot be used.

    Args:
        time_zone: The zone that partition timestamps are read in.
    """
    everything = [Read(predicate=TRUE, is_serial=True)]
    recorded = (commit.info.values if commit.info else {}).get(READS)
    try:
        found: Any = json.loads(recorded) if isinstance(recorded, str) else {}
        if found["timeZone"] != time_zone and found["reads"]:
            return everything
        return [
            Read(
                predicate=parse_predicate(each["predicate"]),
                changes_rows=each["changesRows"] is True,
                is_serial=each["isSerial"] is not False,
            )
            for each in found["reads"]
        ]
    except (ValueError, KeyError, TypeError, DeltaOpsError):
        return everything
