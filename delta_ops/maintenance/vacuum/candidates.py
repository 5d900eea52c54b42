"""Candidates: where a vacuum looks for files that it may delete.

A listing of the table; what the log says was removed (lite); or an inventory of the store. Of the
last two only names are believed: each is looked up in the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

import pyarrow as pa

from delta_ops.events import OnEvent, Progress
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.vacuum.inventory import listed_paths
from delta_ops.maintenance.vacuum.lite import commits_to_look_at, removed_paths
from delta_ops.maintenance.vacuum.plan import PathRules
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import in_parallel

VacuumMode = Literal["full", "lite"]

_LISTED_AT_A_TIME = 10_000
_FOUND_AT_A_TIME = 10_000


def find_candidates(
    log: DeltaLog,
    snapshot: Snapshot,
    rules: PathRules,
    *,
    mode: VacuumMode,
    inventory: pa.Table | None,
    horizon_ms: int,
    now_ms: int,
    on_event: OnEvent,
) -> tuple[list[FileInfo], Mapping[str, str | None]]:
    """Files that are there and that the rules let go, and the links among the files.

    Where there is no candidate, links are not looked for.

    Raises:
        InvalidRequestError: The log lacks commits that a lite vacuum needs.
    """
    storage = snapshot.storage
    links: dict[str, str | None] = {}
    if inventory is None and mode == "full":
        return _listing(storage, rules, links, on_event), links
    if inventory is not None:
        paths = listed_paths(inventory, snapshot, rules, horizon_ms=horizon_ms)
    else:
        commits = commits_to_look_at(snapshot, horizon_ms, now_ms)
        removed = removed_paths(log, snapshot, commits) if commits else iter(())
        paths = filter(rules.is_candidate, removed)
    found = list(_found(storage, paths, rules, on_event))
    if found:
        _note_links(storage, links)
    return found, links


def _note_links(storage: Storage, links: dict[str, str | None]) -> None:
    """Find the links of the table, where there can be any: on a disk."""
    if storage.has_native_input:
        for _ in storage.list_tree("", lambda _: (), links.__setitem__):
            pass


def _listing(
    storage: Storage, rules: PathRules, links: dict[str, str | None], on_event: OnEvent
) -> list[FileInfo]:
    """What of the table's files may go; `links` grows by what is found."""
    number = 0

    def candidates(paths: Sequence[str]) -> list[str]:
        nonlocal number
        told, number = number // _LISTED_AT_A_TIME, number + len(paths)
        if number // _LISTED_AT_A_TIME > told:
            on_event(_progress(storage, "list files", number))
        return rules.candidates(paths)

    return list(storage.list_tree("", candidates, links.__setitem__))


def _found(
    storage: Storage, paths: Iterable[str], rules: PathRules, on_event: OnEvent
) -> Iterator[FileInfo]:
    """Files that are there; the rules learn of the tables below this one that they lie in."""
    remaining, number = iter(paths), 0
    asked: set[str] = set()
    while group := list(islice(remaining, _FOUND_AT_A_TIME)):
        above = {directory for path in group for directory in _directories_above(path)}
        _note_tables(storage, above - asked, rules)
        asked |= above
        yield from storage.find(group)
        number += len(group)
        on_event(_progress(storage, "look up files", number))


def _note_tables(storage: Storage, directories: Collection[str], rules: PathRules) -> None:
    """Ask which of the directories are tables."""
    logs = in_parallel(lambda each: any(storage.list_from(f"{each}/_delta_log", "")), directories)
    for directory, has_log in zip(directories, logs, strict=True):
        if has_log:
            rules.note_table(directory)


def _directories_above(path: str) -> Iterator[str]:
    above = path.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


def _progress(storage: Storage, operation: str, done: int) -> Progress:
    return Progress(table=storage.uri, operation=operation, done=done, total=None)
