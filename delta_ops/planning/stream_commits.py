"""Stream commits: what a stream reads from a commit, or why the stream is blocked.

A commit that only rearranges rows has no rows for the stream. A commit that deletes or changes rows
blocks a stream of rows, which cannot represent it, unless an option skips such commits. A stream of
the change feed reads it. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.option_words import option
from delta_ops.planning.commit_changes import is_repair
from delta_ops.planning.stream_slices import StreamVersion
from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.arrow_schemas import ADD
from delta_ops.protocol.arrow_values import TRUE_SCALAR, empty_table, scalar
from delta_ops.protocol.columns.mapping import (
    ID,
    PHYSICAL_NAME,
    is_mapped,
    mapping_mode,
    physical_name,
)
from delta_ops.protocol.schema import StructField, StructType, map_structs, schema_from_json
from delta_ops.protocol.schema.widening import unreadable_columns
from delta_ops.protocol.table_definition import TableDefinition, validate

_NO_ADDS = empty_table(ADD)
_STATS = ADD.names.index("stats")
_MAPPING = (ID, PHYSICAL_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRules:
    """The commits that a stream skips, and what it reads from other commits."""

    ignore_deletes: bool = False
    """Whether commits that only delete rows are skipped."""
    ignore_changes: bool = False
    """Whether files with changed rows are read again completely."""
    skip_change_commits: bool = False
    """Whether commits that delete or change rows are skipped completely."""
    read_change_feed: bool = False
    """Whether the stream returns changes instead of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCommit:
    """A commit as a stream reads it."""

    seen: StreamVersion
    adds: pa.Table
    """The files to read, without their statistics, as rows of `arrow_schemas.ADD`. Empty in a
    stream of changes, whose files come from the change feed."""


def view_commit(commit: Commit, rules: StreamRules, schema_snapshot: Snapshot) -> StreamCommit:
    """Return the part of a commit that a stream reads.

    Args:
        schema_snapshot: The snapshot whose columns the stream has.
    """
    obstacle = _find_obstacle(commit, rules, schema_snapshot)
    if obstacle is not None:
        return blocked_commit(commit.version, obstacle)
    if rules.read_change_feed:
        return _view_changes(commit)
    adds = _changing(commit.adds)
    if is_repair(commit) or (rules.skip_change_commits and len(_changing(commit.removes))):
        adds = _NO_ADDS
    elif len(adds):
        adds = adds.set_column(_STATS, ADD.field(_STATS), pa.nulls(len(adds), pa.string()))
    return _commit(commit.version, adds["size"].to_pylist(), adds)


def blocked_commit(version: int, obstacle: DeltaOpsError) -> StreamCommit:
    """Return a version that blocks the stream."""
    seen = StreamVersion(version, 0, lambda _: (), obstacle=obstacle)
    return StreamCommit(seen=seen, adds=_NO_ADDS)


def find_change_of_columns(
    version: int, metadata: Metadata, schema_snapshot: Snapshot
) -> DeltaOpsError | None:
    """Return why rows of a version cannot be read with a stream's columns; None if they can.

    Args:
        version: The version's number.
        metadata: The version's metadata.
        schema_snapshot: The snapshot whose columns the stream has.
    """
    if metadata.id != schema_snapshot.metadata.id:
        reason = f"was replaced by a table with the id {metadata.id} in version {version}"
        return TableReplacedError(
            schema_snapshot.uri, reason, "The stream has read everything before that version."
        )
    if version <= schema_snapshot.version:
        return _find_unreadable(version, metadata, schema_snapshot)
    if _columns_of(metadata) != _columns_of(schema_snapshot.metadata):
        return InvalidRequestError(
            f"{schema_snapshot.uri}: version {version} changes the table's columns, but this "
            f"stream uses the columns of version {schema_snapshot.version}. It has read everything "
            "before the change: create the streaming DataFrame again and restart the query from "
            "its checkpoint to continue with the new columns"
        )
    return None


def _commit(
    version: int, sizes: list[int], adds: pa.Table, *, is_whole: bool = False
) -> StreamCommit:
    seen = StreamVersion(version, len(sizes), lambda first: sizes[first:], is_whole)
    return StreamCommit(seen=seen, adds=adds)


def _view_changes(commit: Commit) -> StreamCommit:
    if commit.cdc:
        return _commit(commit.version, [each.size for each in commit.cdc], _NO_ADDS, is_whole=True)
    if is_repair(commit):
        return _commit(commit.version, [], _NO_ADDS)
    adds, removes = _changing(commit.adds), _changing(commit.removes)
    sizes = [*adds["size"].to_pylist(), *pc.fill_null(removes["size"], scalar(0)).to_pylist()]
    # A row before and after an update must be in one batch.
    return _commit(commit.version, sizes, _NO_ADDS, is_whole=len(removes) > 0)


def _changing(actions: pa.Table) -> pa.Table:
    """Return the actions that change data."""
    if not len(actions):
        return actions
    changes = pc.fill_null(actions["dataChange"], TRUE_SCALAR)
    return actions if pc.all(changes).as_py() else actions.filter(changes)


def _find_obstacle(
    commit: Commit, rules: StreamRules, schema_snapshot: Snapshot
) -> DeltaOpsError | None:
    version, table = commit.version, schema_snapshot.uri
    if commit.protocol is not None and version > schema_snapshot.version:
        definition = TableDefinition(
            protocol=commit.protocol, metadata=commit.metadata or schema_snapshot.metadata
        )
        try:
            validate(definition, "read", table=table, engine="spark")
        except UnsupportedFeatureError as error:
            return error
    if commit.metadata is not None:
        found = find_change_of_columns(version, commit.metadata, schema_snapshot)
        if found is not None:
            return found
    if rules.read_change_feed or is_repair(commit):
        return None
    return _find_change_of_rows(commit, rules, table)


def _find_change_of_rows(
    commit: Commit, rules: StreamRules, table: str
) -> InvalidRequestError | None:
    removes = _changing(commit.removes)
    if not len(removes) or rules.ignore_changes or rules.skip_change_commits:
        return None
    path, version = removes["path"][0].as_py(), commit.version
    done = f"{commit.operation or 'unknown operation'}; {path} is one of the files"
    if len(_changing(commit.adds)):
        return InvalidRequestError(
            f"{table}: version {version} changes rows ({done}), which a stream of rows cannot "
            f"represent; skip such versions with {option('skip_change_commits', True)}, read the "
            f"changes with {option('read_change_feed', True)}, or start again with another "
            "checkpoint"
        )
    if rules.ignore_deletes:
        return None
    return InvalidRequestError(
        f"{table}: version {version} deletes rows ({done}), which a stream of rows cannot "
        f"represent; skip such versions with {option('ignore_deletes', True)}, read the changes "
        f"with {option('read_change_feed', True)}, or start again with another checkpoint"
    )


def _find_unreadable(
    version: int, metadata: Metadata, schema_snapshot: Snapshot
) -> InvalidRequestError | None:
    """Return why files of an older version cannot be read with the stream's columns."""
    definition = schema_snapshot.definition

    def key(field: StructField) -> str:
        # If mapping was added later, physical names equal the earlier names.
        return physical_name(field) if definition.is_mapped else field.name.lower()

    def refuse(reason: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{schema_snapshot.uri}: rows of version {version} cannot be read with the columns of "
            f"version {schema_snapshot.version}: {reason}; begin after the commit that changed it, "
            f"with {option('starting_version')} and another checkpoint"
        )

    if is_mapped(metadata) and not definition.is_mapped:
        return refuse("column mapping was removed in between")
    schema = schema_from_json(metadata.schema_string)
    for path, was, becomes in unreadable_columns(schema, definition.schema, key):
        return refuse(f"column {path} was {was.name} and is {becomes.name}")
    if _partition_keys(metadata, schema, key) != _partition_keys(
        schema_snapshot.metadata, definition.schema, key
    ):
        return refuse("the partition columns changed")
    return None


def _partition_keys(
    metadata: Metadata, schema: StructType, key: Callable[[StructField], str]
) -> list[str]:
    by_name = {each.name: key(each) for each in schema.fields}
    return [by_name[name] for name in metadata.partition_columns]


def _columns_of(metadata: Metadata) -> tuple[object, ...]:
    """Return what a stream's columns depend on; excludes comments and identity high-water marks."""

    def keep_mapping(struct: StructType) -> StructType:
        return StructType(
            tuple(
                replace(each, metadata={k: v for k, v in each.metadata.items() if k in _MAPPING})
                for each in struct.fields
            )
        )

    schema = map_structs(schema_from_json(metadata.schema_string), keep_mapping)
    return mapping_mode(metadata), tuple(metadata.partition_columns), schema
