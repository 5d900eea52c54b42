"""Refresh of an index: reads new data files, writes runs, and replaces old runs.

1. A run is written and then committed, so readers never see a partial run. A killed refresh leaves
   a file that a refresh after a day deletes.
2. A commit carries a txn with the version of the index that it makes. If two refreshes run
   at once, one commits. The other deletes its run and plans again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from delta_ops.clock import Clock
from delta_ops.error_texts import first_line
from delta_ops.errors import (
    CommitConflictError,
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    TableExistsError,
    TableReplacedError,
    VersionNotFoundError,
)
from delta_ops.events import OnEvent, Progress
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.scan_cache_write.state import record_index
from delta_ops.log.version.indexes.definitions import (
    IndexDefinition,
    definition_path,
    load_definition,
)
from delta_ops.log.version.indexes.run_file import normalize, run_schema
from delta_ops.log.version.indexes.run_writer import RunWriter
from delta_ops.maintenance.indexes.entries import Entries, UnreadableFile, stream_values
from delta_ops.maintenance.indexes.plan import RefreshPlan, ReplacedRun, plan_refresh
from delta_ops.maintenance.indexes.state import (
    IndexState,
    LiveFiles,
    identities,
    live_files,
    load_index,
    lost_column,
    shown_column,
)
from delta_ops.maintenance.kept_versions import KeptVersions
from delta_ops.maintenance.log_cleanup.act import clean_up_log
from delta_ops.maintenance.vacuum.act import first_look, vacuum
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema import DataType
from delta_ops.storage import Storage
from delta_ops.storage.below import StorageBelow
from delta_ops.transaction import Txn, begin
from delta_ops.transaction.changes import Add

_PROPERTIES = {
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.logRetentionDuration": "interval 1 days",
}
"""Readers open an index for one plan, so old versions are needed for a short time only."""
_ATTEMPTS = 5
"""A refresh plans so many times again after another refresh was faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRefresh:
    """The result of `create_index` and `refresh_index`."""

    name: str
    column: str | None
    """As users write it; None if the table has lost the column."""
    dry_run: bool
    num_files: int
    """Live files of the table."""
    planned_files: int
    """Files to index."""
    planned_bytes: int
    left_files: int
    """Files that wait for the next refresh, because of the byte budget."""
    indexed_files: int = 0
    added_entries: int = 0
    merged_runs: int = 0
    """Runs that were merged into one, or rewritten."""
    removed_runs: int = 0
    """Runs that were unusable, or that no version needed."""
    problems: tuple[str, ...] = ()
    """A sentence for each file or run that could not be read."""


@dataclass(slots=True, eq=False)
class Refresh:
    """One refresh of one index."""

    table: DeltaLog
    definition: IndexDefinition
    max_bytes: int | None
    clock: Clock
    on_event: OnEvent
    verify: bool = False
    """Whether to read all entries, to find damaged runs."""
    problems: list[str] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    """Paths of data files that could not be read, which are not read again."""
    indexed_files: int = 0
    added_entries: int = 0
    merged_runs: int = 0
    removed_runs: int = 0

    def run(self, *, dry_run: bool) -> IndexRefresh:
        """Plan, and act unless it is a dry run."""
        snapshot = self.table.snapshot()
        state, plan = self._plan(snapshot)
        result = IndexRefresh(
            name=self.definition.name,
            column=shown_column(state),
            dry_run=dry_run,
            num_files=snapshot.num_files,
            planned_files=len(plan.to_read),
            planned_bytes=plan.to_read_bytes,
            left_files=plan.num_left,
            problems=(*state.problems, *lost_column(state)),
        )
        if dry_run:
            return result
        record_index(self.table.storage, self.table.log_directory)
        if not plan.has_work or state.data_type is None:
            return result
        try:
            self._act_until_done(snapshot, state, plan)
            self._clean_up()
        except DeltaOpsError:
            self._require_definition()
            raise
        self._require_definition()  # last, see `delete_leftovers`
        return replace(
            result,
            indexed_files=self.indexed_files,
            added_entries=self.added_entries,
            merged_runs=self.merged_runs,
            removed_runs=self.removed_runs,
            problems=(*result.problems, *self.problems),
        )

    def _act_until_done(self, snapshot: Snapshot, state: IndexState, plan: RefreshPlan) -> None:
        """Act, and plan again after each refresh that was faster."""
        for _ in range(_ATTEMPTS):
            if not plan.has_work or self._act(snapshot, state, plan):
                return
            self._require_definition()
            state, plan = self._plan(snapshot)
        self.problems.append(
            f"Other refreshes of index {self.definition.name} were faster; refresh it later."
        )

    def _require_definition(self) -> None:
        """Reject to write an index that was dropped meanwhile, and delete its files.

        Raises:
            InvalidRequestError: The index was dropped.
        """
        found = load_definition(self.table.storage, self.definition.name)
        if found is None:
            delete_leftovers(self.table.storage, self.definition.name)
        if found is None or found.id != self.definition.id:
            raise _dropped_error(self.table.uri, self.definition.name)

    def _plan(self, snapshot: Snapshot) -> tuple[IndexState, RefreshPlan]:
        state = load_index(self.definition, snapshot, verify=self.verify)
        live = live_files(snapshot)
        plan = plan_refresh(
            state,
            live,
            self._needed_paths(snapshot, state, live),
            unreadable=self.unreadable,
            max_bytes=self.max_bytes,
        )
        return state, plan

    def _needed_paths(
        self, snapshot: Snapshot, state: IndexState, live: LiveFiles
    ) -> Set[str] | None:
        """Paths of files that kept versions and refs need; None if they need not be known."""
        if all((live.has(each.covered)).all() for each in state.runs):
            return None
        try:
            return first_look(
                self.table,
                snapshot,
                now_ms=self.clock(),
                retention_ms=snapshot.properties.deleted_file_retention_ms,
                keep_versions=KeptVersions(self.table.storage, ()),
                keep_last=0,
                on_event=self.on_event,
            ).needed
        except (InvalidRequestError, VersionNotFoundError, LogCorruptError) as error:
            self.problems.append(
                f"Index {self.definition.name} keeps the entries of all removed files, because "
                f"the files that older versions need are unknown ({first_line(error)})."
            )
            return None

    def _act(self, snapshot: Snapshot, state: IndexState, plan: RefreshPlan) -> bool:
        """Write and commit runs; returns False if another refresh was faster."""
        assert state.column is not None
        assert state.data_type is not None
        index = _IndexWriter(
            table=self.table,
            definition=self.definition,
            data_type=state.data_type,
            version=state.version,
            clock=self.clock,
        )
        covered = identities(plan.to_read, snapshot.uri)
        entries, removed = Entries(), tuple(plan.removed)
        progress = partial(Progress, table=snapshot.uri, operation="index", total=len(covered))
        found = stream_values(snapshot, plan.to_read, state.column, state.data_type)
        for number, values in enumerate(found):
            if isinstance(values, UnreadableFile):
                reason = first_line(values).rstrip(".")
                self.problems.append(f"{reason}. Scans always read this file.")
                self.unreadable.add(covered["path"][number].as_py())
                continue
            entries.add(values, covered.slice(number, 1))
            if entries.is_full:
                if not self._commit(index, entries, removed):
                    return False
                entries, removed = Entries(), ()
            self.on_event(progress(done=number + 1))
        if (entries.num_files or removed) and not self._commit(index, entries, removed):
            return False
        return not plan.merged or self._merge(index, plan.merged)

    def _commit(self, index: _IndexWriter, entries: Entries, removed: Sequence[str]) -> bool:
        if not index.commit(entries, removed):
            return False
        self.indexed_files += entries.num_files
        self.added_entries += entries.num_entries
        self.removed_runs += len(removed)
        return True

    def _merge(self, index: _IndexWriter, merged: Sequence[ReplacedRun]) -> bool:
        entries = Entries()
        for each in merged:
            entries.add_run(each.run, each.keep)
        if not index.commit(entries, [each.run.path for each in merged]):
            return False
        self.merged_runs += len(merged)
        return True

    def _clean_up(self) -> None:
        """Delete old files of the index; a failure is reported, and leaves only unused files."""
        storage = StorageBelow(self.table.storage, self.definition.directory)
        log = DeltaLog(storage.uri, storage=storage)
        try:
            vacuum(log, log_commits=False)
            clean_up_log(log)
        except DeltaOpsError as error:
            self.problems.append(
                f"Old files of index {self.definition.name} were not deleted ({first_line(error)})."
            )


def delete_leftovers(storage: Storage, name: str) -> list[str]:
    """Delete the files of an index without a definition; returns the files that remain.

    A drop calls this after it has deleted the definition, and a refresh after its last write if
    the definition is gone. So one of the two sees all files. Files are listed before the
    definition is looked for, so the files of an index that is created meanwhile are not listed.
    """
    path = definition_path(name)
    files = [each.path for each in storage.list_tree(path.removesuffix(".json"))]
    if not files or next(storage.find([path]), None) is not None:
        return []
    return storage.delete_many(files)


def _dropped_error(table: str, name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{table}: index {name} was dropped while it was refreshed; create it again if you need it"
    )


@dataclass(slots=True, kw_only=True, eq=False)
class _IndexWriter:
    """Writes runs and commits them to the table of an index."""

    table: DeltaLog
    definition: IndexDefinition
    data_type: DataType
    version: int | None
    """The version of the index that the next commit follows; None: the index has no table yet."""
    clock: Clock

    def commit(self, entries: Entries, removed: Sequence[str]) -> bool:
        """Add a run and remove others; returns False if another writer was faster."""
        storage = StorageBelow(self.table.storage, self.definition.directory)
        transaction = begin(DeltaLog(storage.uri, storage=storage), clock=self.clock)
        snapshot = transaction.snapshot
        if (None if snapshot is None else snapshot.version) != self.version:
            return False
        if snapshot is None:
            transaction.create_table(run_schema(self.data_type), configuration=_PROPERTIES)
            transaction.require_new_table()
        next_version = 0 if self.version is None else self.version + 1
        app_id = f"index:{self.definition.name}:{self.definition.table_id}"
        transaction.set_transaction(Txn(app_id=app_id, version=next_version))
        adds = []
        if entries.num_files:
            adds.append(self._write(storage, entries))
        if adds:
            num_rows = entries.num_entries + entries.num_files
            transaction.apply(Add(files=tuple(adds), num_rows=num_rows))
        if removed and snapshot is not None:
            gone = [each for each in snapshot.add_files() if each.path in {*removed}]
            transaction.remove(gone)
        try:
            result = transaction.commit(operation="WRITE")
        except (CommitConflictError, TableExistsError):
            self._discard(storage, adds)
            return False
        except TableReplacedError as error:
            self._discard(storage, adds)
            raise _dropped_error(self.table.uri, self.definition.name) from error
        if result.already_committed:
            self._discard(storage, adds)
            return False
        self.version = result.version
        return True

    def _write(self, storage: Storage, entries: Entries) -> AddFile:
        writer = RunWriter(
            definition=self.definition,
            key_type=self.data_type,
            covered=pa.concat_tables(entries.covered).combine_chunks(),
            values=pa.concat_arrays([normalize(pa.nulls(0), self.data_type), *entries.values]),
            files=pa.concat_arrays([pa.nulls(0, pa.int32()), *entries.files]),
        )
        file = storage.create_from_stream(f"run-{uuid.uuid4()}.parquet", writer.write)
        num_rows = entries.num_entries + entries.num_files
        return AddFile(
            path=file.path,
            size=file.size,
            partition_values={},
            modification_time=file.modified_ms,
            stats=json.dumps({"numRecords": num_rows}),
            tags=writer.tags,
        )

    def _discard(self, storage: Storage, adds: Sequence[AddFile]) -> None:
        for each in adds:
            storage.delete(each.path)
