"""Plans the revert of one commit from three versions and the later commits. Writes nothing.

Source: PROTOCOL.md, "Action Reconciliation".

1. A file is identified by its path and its deletion vector. A file that the commit added is
   removed. A file that it removed comes back as it was. A file that it only described again is
   skipped.
2. A commit can be reverted only if no later commit has changed its files, because rows may have
   moved: into a rewritten file, where a revert would duplicate or keep them, or out of the table. A
   commit that only describes a file again does not change it.
3. A commit that changed schema, properties, protocol or domains is not reverted: later data may
   depend on the change. Rows also do not come back into a table whose schema or constraints have
   changed since the rows were validated.
4. An application whose txn the commit set gets its earlier version back, unless it has set a later
   version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, LogCorruptError
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.maintenance.set_back import transactions_to_set_back
from delta_ops.protocol.actions import AddFile, Metadata
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, add_files
from delta_ops.protocol.arrow_values import TRUE_SCALAR, array_of
from delta_ops.protocol.columns.identity import drop_marks, only_moves_marks
from delta_ops.protocol.file_paths import canonical_path, canonical_paths
from delta_ops.protocol.row_tracking import ROW_TRACKING_DOMAIN

FileKey = tuple[str, str | None]
"""A file's canonical path, and the id of its deletion vector."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertPlan:
    """The changes that undo one commit."""

    version: int
    """Version of the commit."""
    latest_version: int
    """The latest version that the plan is based on."""
    adds: tuple[AddFile, ...] = ()
    """Files that the commit removed, as the version before it describes them."""
    removes: tuple[AddFile, ...] = ()
    """Files that the commit added, as the latest version has them."""
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Txn versions to restore, by application id."""
    data_change: bool = True
    """False: the commit only rearranged rows, and so does its revert."""

    @property
    def has_work(self) -> bool:
        """Whether the commit left anything to undo."""
        return bool(self.adds or self.removes or self.transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A later commit that changed some of the files."""

    version: int
    operation: str
    data_change: bool
    """False: it only rearranged rows."""
    paths: tuple[str, ...]
    app_ids: frozenset[str]
    """Application ids of its txns."""


def plan_revert(
    commit: Commit, *, before: Snapshot, after: Snapshot, latest: Snapshot, later: Iterable[Commit]
) -> RevertPlan:
    """Plan the changes that undo a commit.

    Args:
        commit: The commit to undo.
        before: The version before the commit.
        after: The version of the commit.
        latest: The latest version.
        later: All commits after it, ascending.

    Raises:
        InvalidRequestError: It cannot be undone; names the commit that prevents it.
        LogCorruptError: A file that should be live is not.

    Examples:
        >>> _ = da.delete("lake/orders")
        >>> log = DeltaLog("lake/orders")
        >>> before, after = log.snapshot(version=0), log.snapshot(version=1)
        >>> (commit,) = log.commits(1)
        >>> len(plan_revert(commit, before=before, after=after, latest=after, later=[]).adds)
        1
    """
    validate_arguments(plan_revert, locals())
    _validate_kind(commit, before, latest)
    brought, taken = changed_files(commit, before, after)
    touches = touches_of({path for path, _ in (*brought, *taken)}, later, latest)
    if touches:
        raise _touched_error(commit, touches, latest)
    if taken:
        _validate_rules(commit, before, latest)
    live = _live_files(latest, {path for path, _ in brought})
    for key in brought.keys() - live.keys():
        raise LogCorruptError(
            latest.uri,
            f"version {latest.version}",
            f"file {key[0]} was added by version {commit.version} and never removed, but is not "
            "live",
        )
    since = latest.transactions()
    own = {txn.app_id: txn for txn in commit.transactions if since.get(txn.app_id) == txn}
    return RevertPlan(
        version=commit.version,
        latest_version=latest.version,
        adds=tuple(taken.values()),
        removes=tuple(live[key] for key in brought),
        transactions=transactions_to_set_back(own, before.transactions()),
        data_change=_changes_data(commit),
    )


def changed_files(
    commit: Commit, before: Snapshot, after: Snapshot
) -> tuple[dict[FileKey, AddFile], dict[FileKey, AddFile]]:
    """The files that a commit added to the table, and the files that it removed."""
    paths = _paths(commit.adds, after.uri) | _paths(commit.removes, after.uri)
    then, now = _live_files(before, paths), _live_files(after, paths)
    brought = {key: add for key, add in now.items() if key not in then}
    taken = {key: add for key, add in then.items() if key not in now}
    return brought, taken


def touches_of(paths: set[str], later: Iterable[Commit], table: Snapshot) -> list[Touch]:
    """The later commits that removed some of these files or changed their rows, ascending."""
    found = []
    for commit in later:
        changing = commit.adds.filter(pc.fill_null(commit.adds["dataChange"], TRUE_SCALAR))
        touched = paths & (_paths(commit.removes, table.uri) | _paths(changing, table.uri))
        if touched:
            info = commit.info.values if commit.info else {}
            found.append(
                Touch(
                    version=commit.version,
                    operation=str(info.get("operation", "unknown")),
                    data_change=_changes_data(commit),
                    paths=tuple(sorted(touched)),
                    app_ids=frozenset(txn.app_id for txn in commit.transactions),
                )
            )
    return found


def _validate_kind(commit: Commit, before: Snapshot, table: Snapshot) -> None:
    # Moved marks of identity values and column ids are no change: the values are never reused.
    is_counting = commit.metadata is None or only_moves_marks(before.metadata, commit.metadata)
    # The restore of deltalake repeats the protocol.
    new_protocol, was = commit.protocol, before.protocol
    parts = {
        "the schema, partitioning or properties of the table": not is_counting,
        "the protocol of the table": new_protocol is not None
        and not new_protocol.requires_same(was),
        "domain metadata": any(each.domain != ROW_TRACKING_DOMAIN for each in commit.domains),
    }
    for part, is_changed in parts.items():
        if is_changed:
            raise InvalidRequestError(
                f"{table.uri}: version {commit.version} cannot be reverted: it changed {part}, "
                f"and later commits may depend on that; restore version {commit.version - 1} "
                "instead"
            )


def _validate_rules(commit: Commit, before: Snapshot, latest: Snapshot) -> None:
    if _rules(before.metadata) != _rules(latest.metadata):
        raise InvalidRequestError(
            f"{latest.uri}: version {commit.version} cannot be reverted: its rows would return to "
            "a table whose schema or constraints have changed since then; restore version "
            f"{commit.version - 1}, or write these rows again"
        )


def _rules(metadata: Metadata) -> tuple[object, ...]:
    """The rules that rows have to follow: schema, partition columns and constraints."""
    constraints = {
        name: text
        for name, text in metadata.configuration.items()
        if name.lower().startswith("delta.constraints.")
    }
    _, schema = drop_marks(metadata)
    return schema, metadata.partition_columns, constraints


def _touched_error(
    commit: Commit, touches: Sequence[Touch], table: Snapshot
) -> InvalidRequestError:
    first = touches[0]
    paths = {path for touch in touches for path in touch.paths}
    others = f" and {len(first.paths) - _SHOWN} more" if len(first.paths) > _SHOWN else ""
    versions = ", ".join(str(touch.version) for touch in touches[1 : 1 + _SHOWN])
    later = f"; so did {versions}" if versions else ""
    return InvalidRequestError(
        f"{table.uri}: version {commit.version} cannot be reverted: version {first.version} "
        f"({first.operation}) later changed its files "
        f"({', '.join(first.paths[:_SHOWN])}{others}{later}), {len(paths)} in all. Revert the "
        f"later commits first, newest first, or restore version {commit.version - 1}"
    )


def _live_files(snapshot: Snapshot, paths: set[str]) -> dict[FileKey, AddFile]:
    """The live files of these paths."""
    wanted = array_of(list(paths), pa.string())
    found: dict[FileKey, AddFile] = {}
    for table in snapshot.stream_live([*ADD.names, CANONICAL_PATH]):
        chosen = table.filter(pc.is_in(table[CANONICAL_PATH], value_set=wanted))
        for add in add_files(chosen.select(ADD.names)):
            vector = add.deletion_vector
            key = (canonical_path(add.path, snapshot.uri), vector.unique_id if vector else None)
            found[key] = add
    return found


def _paths(files: pa.Table, table_uri: str) -> set[str]:
    return set(canonical_paths(files["path"].combine_chunks(), table_uri).to_pylist())


def _changes_data(commit: Commit) -> bool:
    """Whether a commit may have changed data; true if it does not record it."""
    tables = (commit.adds, commit.removes)
    flags = [flag for files in tables for flag in files["dataChange"].to_pylist()]
    return not flags or any(flag is not False for flag in flags)
