"""Candidates: finds the files that a vacuum may delete.

The source is a listing of the table, the removes in the log (lite), or an inventory of the store.
Log and inventory supply only names: each name is looked up in the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

import pyarrow as pa

from delta_ops.events import OnEvent, Progress
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.vacuum.facts import TableListing, VacuumFacts, places_above
from delta_ops.maintenance.vacuum.inventory import listed_paths
from delta_ops.maintenance.vacuum.lite import commits_to_look_at, removed_paths
from delta_ops.maintenance.vacuum.pre_filter import PreFilter
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.packed_files import PackedFiles, pack_files

VacuumMode = Literal["full", "lite"]

_LISTED_AT_A_TIME = 10_000
_FOUND_AT_A_TIME = 10_000


def find_candidates(
    log: DeltaLog,
    snapshot: Snapshot,
    facts: VacuumFacts,
    *,
    mode: VacuumMode,
    inventory: pa.Table | None,
    on_event: OnEvent,
) -> TableListing:
    """Existing files without a certain reason to stay.

    Links are not searched if there are no such files.

    Args:
        facts: The facts before the listing.

    Raises:
        InvalidRequestError: The log lacks commits that a lite vacuum needs.
    """
    storage, pre_filter = snapshot.storage, PreFilter(facts)
    if inventory is None and mode == "full":
        return _listing(storage, pre_filter, on_event)
    if inventory is not None:
        paths = listed_paths(inventory, snapshot, pre_filter, horizon_ms=facts.horizon_ms)
    else:
        commits = commits_to_look_at(snapshot, facts.horizon_ms, facts.now_ms)
        removed = removed_paths(log, snapshot, commits) if commits else iter(())
        paths = filter(pre_filter.may_go, removed)
    found = pack_files(_find_files(storage, paths, pre_filter, on_event))
    return _table_listing(storage, found, links_of(storage) if found else {}, pre_filter)


def links_of(storage: Storage) -> dict[str, str | None]:
    """The links within the table. Only a disk can have links; its names are listed."""
    links: dict[str, str | None] = {}
    if storage.has_native_input:
        for _ in storage.list_tree("", lambda _: (), links.__setitem__):
            pass
    return links


def tables_among(storage: Storage, directories: Collection[str]) -> set[str]:
    """The directories that have their own log, looked up in the store."""
    logs = run_parallel(lambda each: any(storage.list_from(f"{each}/_delta_log", "")), directories)
    return {each for each, has_log in zip(directories, logs, strict=True) if has_log}


def _table_listing(
    storage: Storage,
    files: PackedFiles,
    links: Mapping[str, str | None],
    pre_filter: PreFilter,
) -> TableListing:
    return TableListing(
        files=files,
        links=links,
        tables=frozenset(pre_filter.tables),
        may_confuse_letters=storage.has_native_input,
        left_out=dict(pre_filter.left_out),
        num_directories=pre_filter.num_directories,
    )


def _listing(storage: Storage, pre_filter: PreFilter, on_event: OnEvent) -> TableListing:
    links: dict[str, str | None] = {}

    def choose(paths: Sequence[str]) -> list[str]:
        before = pre_filter.num_paths
        found = pre_filter.select_paths(paths)
        if pre_filter.num_paths // _LISTED_AT_A_TIME > before // _LISTED_AT_A_TIME:
            on_event(_progress(storage, "list files", pre_filter.num_paths))
        return found

    files = pack_files(storage.list_tree("", choose, links.__setitem__))
    return _table_listing(storage, files, links, pre_filter)


def _find_files(
    storage: Storage, paths: Iterable[str], pre_filter: PreFilter, on_event: OnEvent
) -> Iterator[FileInfo]:
    """Yield files that exist, and record other tables that contain them."""
    remaining, number = iter(paths), 0
    checked: set[str] = set()
    while group := list(islice(remaining, _FOUND_AT_A_TIME)):
        above = {directory for path in group for directory in places_above(path)}
        pre_filter.tables |= tables_among(storage, above - checked)
        checked |= above
        yield from storage.find(group)
        number += len(group)
        on_event(_progress(storage, "look up files", number))


def _progress(storage: Storage, operation: str, done: int) -> Progress:
    return Progress(table=storage.uri, operation=operation, done=done, total=None)
