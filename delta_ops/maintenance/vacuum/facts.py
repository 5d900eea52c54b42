"""Vacuum facts: the knowledge about a table's files that decides a vacuum. Pure.

Facts are values that combine the log, the caller's arguments and a listing. Files that become
needed later give new facts of the same listing. All names of a file count: through a link, or with
letters that a disk treats as equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from delta_ops.maintenance.vacuum.hidden_names import HiddenNames, is_hidden_directory
from delta_ops.maintenance.vacuum.reachable import other_names
from delta_ops.storage.packed_files import PackedFiles

Reason = Literal["hidden", "reachable", "on request", "of another table", "young"]
"""Why a file stays.

The first reason that holds for the file's own name; else the first that holds for its surroundings
and its other names.
"""

_LOG = "/_delta_log/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableListing:
    """The files of a table as a vacuum found them."""

    files: PackedFiles
    """In any order; empty directories have a slash at their end."""
    links: Mapping[str, str | None] = field(default_factory=dict)
    """As for `reachable.real_paths`."""
    tables: Collection[str] = ()
    """Directories that have their own log, besides directories with log files in `files`."""
    may_confuse_letters: bool = True
    """Whether the store may find a file under a name that differs in case or Unicode composition,
    as disks do."""
    left_out: Mapping[Reason, int] = field(default_factory=dict)
    """How many found files are not in `files`, by the reason why they stay."""
    num_directories: int = 0
    """Number of searched directories that are not hidden."""


NOTHING_LISTED = TableListing(files=PackedFiles())


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumFacts:
    """The knowledge about a table's files; all paths are relative to the table and decoded."""

    now_ms: int
    """Milliseconds since the Unix epoch, by the store's clock."""
    horizon_ms: int
    """Files that were written at this time or later stay."""
    hidden_names: HiddenNames
    needed: Set[str]
    """Paths that some version needs, by every name that the log may mean.

    Listed paths are never missing. It is not copied: a table may have millions.
    """
    kept: frozenset[str]
    """Files and directories that the caller keeps."""
    hidden_places: tuple[str, ...]
    """Targets of hidden links, each with a slash at its end: the log may be behind a link."""
    other_tables: tuple[str, ...]
    """Directories that have their own log, each with a slash at its end."""
    needed_otherwise: Set[str]
    """Listed names that may also find needed files."""
    kept_otherwise: Set[str]
    """Listed files and directories that a kept path may name in another spelling."""
    needed_since: Set[str] = frozenset()
    """Paths that are newly needed since `needed` was loaded, with their other names.

    It is copied when it grows: it has the files of a few commits.
    """


def vacuum_facts(
    listing: TableListing,
    hidden_names: HiddenNames,
    needed: Set[str],
    *,
    now_ms: int,
    retention_ms: int,
    keep: Collection[str] = (),
) -> VacuumFacts:
    """Build the facts from a listing.

    Args:
        hidden_names: The table's rule; see `hidden_names`.
        needed: As for `VacuumFacts`.
        now_ms: Milliseconds since the Unix epoch.
        keep: Files, and directories with all files below them.
    """
    links, kept = listing.links, frozenset(keep)
    tables = {*listing.tables, *_tables_among(listing.files.paths.having(_LOG))}
    tables.update(_tables_among(f"{link}/" for link in links))
    hidden = {links[link] for link in links if is_hidden_directory(link, hidden_names)}
    return VacuumFacts(
        now_ms=now_ms,
        horizon_ms=now_ms - retention_ms,
        hidden_names=hidden_names,
        needed=needed,
        kept=kept,
        hidden_places=tuple(sorted(f"{place}/" for place in hidden if place)),
        other_tables=tuple(sorted(f"{table}/" for table in tables)),
        needed_otherwise=_other_names(needed, listing),
        kept_otherwise=_other_places(kept, listing),
    )


def facts_since(
    facts: VacuumFacts, listing: TableListing, *, needed: Set[str], keep: Collection[str]
) -> VacuumFacts:
    """Update the facts of the same listing.

    Args:
        needed: Newly needed paths.
        keep: All paths to keep at this moment.
    """
    kept = frozenset(keep)
    if needed:
        since = facts.needed_since | needed | _other_names(needed, listing)
        facts = replace(facts, needed_since=since)
    if kept != facts.kept:
        facts = replace(facts, kept=kept, kept_otherwise=_other_places(kept, listing))
    return facts


def places_above(path: str) -> Iterable[str]:
    """The directories between the table's root and a path, nearest first; not the root."""
    above = path.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


def _tables_among(paths: Iterable[str]) -> set[str]:
    return {path.partition(_LOG)[0] for path in paths if _LOG in path}


def _other_names(paths: Set[str], listing: TableListing) -> frozenset[str]:
    if not paths or not listing.files:
        return frozenset()
    return other_names(
        paths,
        listing.files.paths,
        links=listing.links,
        may_confuse_letters=listing.may_confuse_letters,
    )


def _other_places(paths: Set[str], listing: TableListing) -> frozenset[str]:
    """Other listed names of these files and directories: through links, or in other letter case."""
    if not paths:
        return frozenset()
    names = set(listing.files.paths)
    names.update(above for path in listing.files.paths for above in places_above(path))
    return other_names(
        paths, names, links=listing.links, may_confuse_letters=listing.may_confuse_letters
    )
