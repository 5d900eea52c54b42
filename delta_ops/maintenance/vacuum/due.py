"""Checks whether a vacuum is due: looks up a sample of files of expired tombstones.

The check is cheap for most tables, where nothing is due. It samples files that expired tombstones
name and that the log does not need by that name; after a vacuum these files are gone. If an old
file of the sample still exists, all facts are loaded as for a vacuum. They may show that the file
is needed under another name (a link, another letter case), or belongs to another table.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from functools import partial

import pyarrow as pa

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.kept_versions import KeptVersions
from delta_ops.maintenance.vacuum.candidates import links_of, tables_among
from delta_ops.maintenance.vacuum.facts import (
    NOTHING_LISTED,
    TableListing,
    VacuumFacts,
    places_above,
    vacuum_facts,
)
from delta_ops.maintenance.vacuum.hidden_names import hidden_names
from delta_ops.maintenance.vacuum.kept_files import paths_of_versions
from delta_ops.maintenance.vacuum.plan import certain_reasons, plan_by_facts
from delta_ops.maintenance.vacuum.reachable import (
    other_names,
    stream_reachable,
    unneeded_paths,
)
from delta_ops.maintenance.vacuum.side_logs import load_side_logs
from delta_ops.protocol.file_paths import is_absolute
from delta_ops.storage.packed_files import pack_files
from delta_ops.storage.paths import is_valid

TOMBSTONE_COLUMNS = ("path", "deletionTimestamp", "deletionVector")
"""Columns that `any_is_there` reads."""
_SAMPLE = 16


def any_is_there(
    snapshot: Snapshot, tombstones: pa.Table, horizon_ms: int, keep: Collection[str] = ()
) -> bool:
    """Whether vacuum would find a file that only expired tombstones name; checks a sample.

    Args:
        tombstones: The snapshot's tombstones, with `TOMBSTONE_COLUMNS`.
        horizon_ms: Milliseconds since the Unix epoch, by the table's own retention.
        keep: As for `vacuum`.
    """
    storage, retention_ms = snapshot.storage, snapshot.properties.deleted_file_retention_ms
    now_ms = horizon_ms + retention_ms
    facts_of = partial(
        vacuum_facts,
        hidden_names=hidden_names(snapshot.definition),
        now_ms=now_ms,
        retention_ms=retention_ms,
        keep=keep,
    )
    unneeded = unneeded_paths(snapshot, tombstones, horizon_ms)
    by_name = facts_of(NOTHING_LISTED, needed=frozenset())
    sample = _sample(unneeded, by_name)
    if not sample:  # true for most tables: no request to the store
        return False
    kept = KeptVersions(storage, ()).load_all(vacuum_at_ms=now_ms)
    if kept.versions:
        log = DeltaLog(snapshot.uri, storage=storage)
        unneeded -= paths_of_versions(log, snapshot, kept.versions)
        unneeded -= load_side_logs(snapshot, kept).paths
        sample = _sample(unneeded, by_name)
    # Like vacuum, ignore files that are reached by a link.
    found = plan_by_facts(TableListing(files=pack_files(storage.find(sample))), by_name)
    old = [*found.files, *found.leftovers]
    if not old:
        return False
    listing = TableListing(
        files=pack_files(old),
        links=links_of(storage),
        tables=tables_among(storage, {above for info in old for above in places_above(info.path)}),
        may_confuse_letters=storage.has_native_input,
    )
    reachable = stream_reachable(snapshot, now_ms=now_ms, retention_ms=retention_ms)
    needed = {path for some in reachable for path in _needed_paths(listing, frozenset(some))}
    return plan_by_facts(listing, facts_of(listing, needed=needed)).has_work


def _sample(unneeded: Collection[str], facts: VacuumFacts) -> list[str]:
    """Sample paths that have no certain reason to stay, evenly over the order of deletion."""
    reason_of = certain_reasons(facts)
    named = (p for p in unneeded if not is_absolute(p) and is_valid(p))
    paths = sorted(path for path in named if reason_of(path) is None)
    return paths[::-1][:: max(1, -(-len(paths) // _SAMPLE))]


def _needed_paths(listing: TableListing, reachable: Set[str]) -> Set[str]:
    """Listed paths that are reachable; saves the memory for all paths of a large table."""
    names = listing.files.paths
    others = other_names(
        reachable, names, links=listing.links, may_confuse_letters=listing.may_confuse_letters
    )
    return others | (frozenset(names) & reachable)
