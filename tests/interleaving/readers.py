"""Readers: deltalake, holders of an older snapshot, and readers of compactions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from delta_ops import DeltaLog
from delta_ops.log import Snapshot
from tests.interleaving.cases import Case
from tests.interleaving.scenes import paths_in
from tests.support.tables import rows


def deltalake_differences(case: Case, table: pa.Table) -> Iterator[str]:
    """A sentence if deltalake reads other rows from the latest version."""
    if DeltaLog(case.root).snapshot().definition.has("typeWidening"):
        return  # deltalake rejects the feature
    query = QueryBuilder().register("t", DeltaTable(str(case.root)))
    found = pa.table(query.execute(f"SELECT {', '.join(table.column_names)} FROM t"))
    if rows(found) != rows(table):
        yield f"deltalake reads {rows(found)}, and we {rows(table)}"


def held_snapshot_differences(case: Case, latest: Snapshot, log: DeltaLog) -> Iterator[str]:
    """A sentence if an older snapshot refreshes to another version than the latest."""
    if case.scene.held is None:
        return
    refreshed = replace(case.scene.held, storage=log.storage).refresh()
    found, expected = sorted(paths_in(refreshed)), sorted(paths_in(latest))
    if refreshed.version != latest.version or found != expected:
        yield (
            f"a snapshot that was held becomes version {refreshed.version} of {found} when it is "
            f"refreshed, and the latest is {latest.version} of {expected}"
        )


def commit_differences(root: Path, start: int, end: int) -> Iterator[str]:
    """A sentence if the compaction of versions differs from their commits."""
    log = root / "_delta_log"
    commits = [log / f"{version:020}.json" for version in range(start, end + 1)]
    if not all(map(Path.exists, commits)):
        return  # cleaned up
    found = _last_of_files([log / f"{start:020}.{end:020}.compacted.json"])
    if found != _last_of_files(commits):
        yield f"the compaction of {start} to {end} has {found}, not {_last_of_files(commits)}"


def _last_of_files(places: Iterable[Path]) -> dict[str, str]:
    """The last action of each file: add or remove, by path."""
    recorded: dict[str, str] = {}
    for place in places:
        for line in place.read_text().splitlines():
            action = json.loads(line)
            for kind in {"remove", "add"} & action.keys():
                recorded[action[kind]["path"]] = kind
    return recorded
