"""Inverted indexes of a table: create, refresh, list and drop.

The definition is created first and deleted last, so only one call creates an index of a name, and a
killed call can be repeated. The table itself gets no commit.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.error_texts import first_line
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    StorageError,
    UnsupportedFeatureError,
    naming_table,
)
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.version.indexes.definitions import (
    IndexDefinition,
    definition_path,
    find_column,
    list_definitions,
    load_definition,
    validate_index_name,
)
from delta_ops.maintenance.indexes.refresh import IndexRefresh, Refresh, delete_leftovers
from delta_ops.maintenance.indexes.state import (
    LiveFiles,
    live_files,
    load_index,
    lost_column,
    shown_column,
)
from delta_ops.protocol.schema.column_names import name_of_path, split_name
from delta_ops.storage.own_files import create_own


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """An index and the live files that it covers."""

    name: str
    column: str | None
    """As users write it; None if the table has lost the column."""
    num_files: int
    """Live files of the table."""
    covered_files: int
    """Live files that the index covers. All other files are read by every scan."""
    num_runs: int
    num_entries: int
    """Pairs of a value and a file, also of files that are no longer live."""
    files_per_value: float | None
    """The mean number of files that hold a value; None without entries."""
    size_bytes: int
    problems: tuple[str, ...] = ()
    """A sentence for each part of the index that cannot be used."""

    @property
    def coverage(self) -> float:
        """The share of the live files that the index covers, from 0 to 1."""
        return self.covered_files / self.num_files if self.num_files else 1.0

    @property
    def selectivity(self) -> float | None:
        """The mean share of the live files that hold one value; None without entries."""
        if self.files_per_value is None or not self.num_files:
            return None
        return min(1.0, self.files_per_value / self.num_files)


def create_index(
    log: TableOrPlace,
    name: str,
    column: str,
    *,
    max_bytes: int | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> IndexRefresh:
    """Create an inverted index: scans for values of the column then open only files that hold them.

    An index of the same name and column is refreshed.

    Args:
        name: Letters, digits, `_` and `-`.
        column: A column, or a field of a struct such as `address.city`.
        max_bytes: Index files of at most this many bytes now, and leave the others to later
            refreshes; None: index all files. One file may have more.

    Raises:
        InvalidRequestError: The column does not exist or its values have no order, or there is an
            index of that name on another column.
        TableNotFoundError: There is no table.
        StorageError: The store failed.

    Examples:
        >>> created = create_index("lake/orders", "by_country", "country")
        >>> created.indexed_files, created.added_entries
        (1, 2)
    """
    validate_arguments(create_index, locals())
    table = log_of(log).main
    validate_index_name(name)
    snapshot = table.snapshot()
    with naming_table(table.uri):
        stored, _ = find_column(split_name(column), snapshot.schema)
    wanted = IndexDefinition(
        name=name, id=uuid.uuid4().hex, table_id=snapshot.metadata.id, column=stored
    )
    found = load_definition(table.storage, name)
    if found is None and not dry_run:
        create_own(table.storage, wanted.path, wanted.to_json())
        found = load_definition(table.storage, name)
    definition = found or wanted
    _validate_same(definition, wanted, table.uri)
    return Refresh(table, definition, max_bytes, clock, on_event).run(dry_run=dry_run)


def refresh_index(
    log: TableOrPlace,
    name: str,
    *,
    max_bytes: int | None = None,
    verify: bool = False,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> IndexRefresh:
    """Index the files that were added since the last refresh, and drop entries of deleted files.

    Args:
        name: The name of the index.
        max_bytes: As for `create_index`.
        verify: Read the whole index, and replace damaged parts.

    Raises:
        InvalidRequestError: There is no such index, or it was dropped meanwhile.
        LogCorruptError: The log of the index is damaged: drop the index and create it again.
        StorageError: The store failed.

    Examples:
        >>> _ = create_index("lake/orders", "by_country", "country")
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> refresh_index("lake/orders", "by_country").indexed_files
        1
    """
    validate_arguments(refresh_index, locals())
    table = log_of(log).main
    definition = _find_definition(table, name)
    refresh = Refresh(table, definition, max_bytes, clock, on_event, verify=verify)
    return refresh.run(dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexesRefresh:
    """The result of `refresh_indexes`."""

    indexes: tuple[IndexRefresh, ...]
    dry_run: bool
    problems: tuple[str, ...] = ()
    """A sentence for each index that cannot be refreshed."""


def refresh_indexes(
    log: TableOrPlace,
    *,
    max_bytes: int | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> IndexesRefresh:
    """Refresh the inverted indexes: index new files, and drop entries of deleted files.

    Args:
        max_bytes: As for `create_index`, for each index.

    Raises:
        TableNotFoundError: There is no table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_index("lake/orders", "by_country", "country")
        >>> [each.planned_files for each in refresh_indexes("lake/orders").indexes]
        [0]
    """
    validate_arguments(refresh_indexes, locals())
    table = log_of(log).main
    table_id = table.snapshot().metadata.id
    definitions, problems = list_definitions(table.storage)
    results: list[IndexRefresh] = []
    for each in definitions:
        if each.table_id != table_id:
            continue
        try:
            refresh = Refresh(table, each, max_bytes, clock, on_event)
            results.append(refresh.run(dry_run=dry_run))
        except (LogCorruptError, UnsupportedFeatureError) as error:
            problems.append(_unreadable_index(each, error))
        except InvalidRequestError as error:  # dropped meanwhile
            problems.append(first_line(error))
    return IndexesRefresh(indexes=tuple(results), dry_run=dry_run, problems=tuple(problems))


def _unreadable_index(definition: IndexDefinition, error: DeltaOpsError) -> str:
    return (
        f"Index {definition.name} cannot be read ({first_line(error)}); drop it and create it "
        "again."
    )


def list_indexes(log: TableOrPlace) -> list[IndexInfo]:
    """The inverted indexes of a table at its latest version, with their coverage.

    Raises:
        TableNotFoundError: There is no table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_index("lake/orders", "by_country", "country")
        >>> [(each.name, each.column, each.coverage) for each in list_indexes("lake/orders")]
        [('by_country', 'country', 1.0)]
    """
    validate_arguments(list_indexes, locals())
    return indexes_of(log_of(log).main.snapshot())


def indexes_of(snapshot: Snapshot) -> list[IndexInfo]:
    """The inverted indexes of a table; see `list_indexes`."""
    definitions, _ = list_definitions(snapshot.storage)
    definitions = [each for each in definitions if each.table_id == snapshot.metadata.id]
    live = live_files(snapshot) if definitions else None
    return [_info(each, snapshot, live) for each in definitions if live is not None]


def drop_index(log: TableOrPlace, name: str, *, dry_run: bool = False) -> int:
    """Drop an inverted index with all its files; returns the number of files.

    Raises:
        InvalidRequestError: There is no such index.
        StorageError: The store failed, or a file could not be deleted. Drop the index again.

    Examples:
        >>> _ = create_index("lake/orders", "by_country", "country")
        >>> drop_index("lake/orders", "by_country") > 0
        True
        >>> list_indexes("lake/orders")
        []
    """
    validate_arguments(drop_index, locals())
    table = log_of(log).main
    storage, path = table.storage, definition_path(validate_index_name(name))
    directory = path.removesuffix(".json")
    # The definition goes last, so that a killed call can be repeated.
    files = [each.path for each in storage.list_tree(directory)]
    if next(storage.find([path]), None) is None and not files:
        raise InvalidRequestError(f"{table.uri} has no index {name}; {_index_names(table)}")
    if dry_run:
        return len(files) + 1
    failed = storage.delete_many([*files, path]) or delete_leftovers(storage, name)
    if failed:
        reason = f"it is one of {len(failed)} files of index {name}; drop the index again"
        raise StorageError(f"{table.uri}: {failed[0]}", "deleted", reason)
    return len(files) + 1


def _find_definition(table: DeltaLog, name: str) -> IndexDefinition:
    found = load_definition(table.storage, name)
    if found is None:
        raise InvalidRequestError(f"{table.uri} has no index {name}; {_index_names(table)}")
    return found


def _index_names(table: DeltaLog) -> str:
    definitions, _ = list_definitions(table.storage)
    names = ", ".join(each.name for each in definitions)
    return f"its indexes are {names}" if names else "it has no indexes"


def _validate_same(found: IndexDefinition, wanted: IndexDefinition, table: str) -> None:
    if found.table_id != wanted.table_id:
        raise InvalidRequestError(
            f"{table}: index {found.name} belongs to a table that was here before; drop the index "
            "and create it again"
        )
    if found.column != wanted.column:
        raise InvalidRequestError(
            f"{table} has an index {found.name} on {name_of_path(found.column)} already; choose "
            "another name, or drop that index"
        )


def _info(definition: IndexDefinition, snapshot: Snapshot, live: LiveFiles) -> IndexInfo:
    try:
        state = load_index(definition, snapshot)
    except (LogCorruptError, UnsupportedFeatureError) as error:
        return IndexInfo(
            name=definition.name,
            column=None,
            num_files=len(live.adds),
            covered_files=0,
            num_runs=0,
            num_entries=0,
            files_per_value=None,
            size_bytes=0,
            problems=(_unreadable_index(definition, error),),
        )
    runs = [each.opened.run for each in state.runs]
    num_entries = sum(each.num_entries for each in runs)
    per_value = sum(each.num_entries / max(each.num_values, 1) for each in runs)
    return IndexInfo(
        name=definition.name,
        column=shown_column(state),
        num_files=len(live.adds),
        covered_files=int(state.is_covered(live).sum()),
        num_runs=len(runs),
        num_entries=num_entries,
        files_per_value=per_value if num_entries else None,
        size_bytes=sum(each.file.size for each in runs),
        problems=(*state.problems, *lost_column(state)),
    )
