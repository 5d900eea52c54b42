"""What vacuum deletes: decided over what was listed and the facts. Pure.

Source: PROTOCOL.md, "Delta Table Consistency Guarantees" (unreferenced files).

A file goes if nobody needs it and it is older than the horizon: a younger one may belong to a
transaction that is about to commit. Hidden names are none of vacuum's business. A directory with a
`_delta_log` of its own is another table and stays whole. Unfinished files go when they are older
than a day, in any directory. An empty directory goes if nothing has been in it since the horizon: a
younger one may have been made by a writer for its files.

Whoever asks which files may go asks here: a full vacuum, a lite one, one by an inventory, the
question whether one is due, and a repair that reports orphans. A file's reason to stay depends on
its path and the facts alone, whatever else is listed, in whatever order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from types import MappingProxyType

from delta_ops.arguments import validate_arguments
from delta_ops.maintenance.leftovers import is_leftover, is_staged
from delta_ops.maintenance.vacuum.facts import Reason, TableListing, VacuumFacts, vacuum_facts
from delta_ops.maintenance.vacuum.hidden_names import (
    HIDING,
    is_hidden_directory,
    is_hidden_name,
    names_hidden_but_for,
)
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import is_hidden_staged

_PATH = attrgetter("path")  # to compare paths is much quicker than to compare whole values

ReasonOf = Callable[[str], Reason | None]
"""Takes a file's path, or that of an empty directory with a slash at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """The files to delete, and how many stay for which reason."""

    horizon_ms: int
    """Milliseconds since the Unix epoch; what was removed or written since stays."""
    files: tuple[FileInfo, ...] = ()
    """Ordered by path."""
    leftovers: tuple[FileInfo, ...] = ()
    """Unfinished files that are older than a day, in any directory; ordered by path."""
    directories: tuple[str, ...] = ()
    """Empty ones, each with a slash at its end; ordered by path."""
    kept: Mapping[Reason, int] = field(default_factory=dict)
    """How many files stay for which reason."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to delete, leftovers included."""
        return sum(info.size for info in (*self.files, *self.leftovers))

    @property
    def has_work(self) -> bool:
        """Whether there is anything to delete."""
        return bool(self.files or self.leftovers or self.directories)


def plan_vacuum(
    listed: Iterable[FileInfo],
    reachable: Set[str],
    *,
    now_ms: int,
    retention_ms: int,
    partition_columns: Sequence[str] = (),
    keep: Collection[str] = (),
    links: Mapping[str, str | None] = MappingProxyType({}),
) -> VacuumPlan:
    """Choose the files to delete.

    A file that some store might find by the name of a reachable one stays: by way of a link, or
    because it differs only in the case or the composition of its letters.

    Args:
        listed: Files under the table root, hidden ones included, and empty directories, whose paths
            end with a slash; any order, read once.
        reachable: Paths of live files and of unexpired tombstones, decoded.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: Younger files stay.
        partition_columns: Their directories are not hidden, whatever their names begin with; of
            mapped columns, the physical names too.
        keep: More paths that stay, decoded; of a directory, all below it.
        links: By their path, where they lead to: a path in which there is no link, "" for the root,
            None for a place outside.
    """
    validate_arguments(plan_vacuum, locals())
    listing = TableListing(files=list(listed), links=links)
    names = names_hidden_but_for(partition_columns)
    facts = vacuum_facts(
        listing, names, reachable, now_ms=now_ms, retention_ms=retention_ms, keep=keep
    )
    return plan_by_facts(listing, facts)


def plan_by_facts(listing: TableListing, facts: VacuumFacts) -> VacuumPlan:
    """Choose the files to delete from a listing."""
    reason_of = _quick_reasons(facts)
    horizon_ms = facts.horizon_ms
    kept = Counter(listing.left_out)
    files: list[FileInfo] = []
    leftovers: list[FileInfo] = []
    directories: list[str] = []
    for info in listing.files:
        reason = reason_of(info.path)
        if info.path[-1] == "/":
            if reason is None and info.modified_ms < horizon_ms:
                directories.append(info.path)
        elif reason is not None:
            kept[reason] += 1
        elif is_staged(info):
            if is_leftover(info, facts.now_ms):
                leftovers.append(info)
            else:
                kept["young"] += 1
        elif info.modified_ms < horizon_ms:
            files.append(info)
        else:
            kept["young"] += 1
    return VacuumPlan(
        horizon_ms=facts.horizon_ms,
        files=tuple(sorted(files, key=_PATH)),
        leftovers=tuple(sorted(leftovers, key=_PATH)),
        directories=tuple(sorted(directories)),
        kept=dict(kept),
    )


def reasons_to_stay(facts: VacuumFacts) -> ReasonOf:
    """Tell why a file stays whatever its age; None for one that is to be judged by it."""
    certain = certain_reasons(facts)
    places = facts.hidden_places
    others, since, kept = facts.needed_otherwise, facts.needed_since, facts.kept_otherwise
    if not (places or facts.other_tables or others or since or kept):
        return certain

    def reason_of(path: str) -> Reason | None:
        reason = certain(path)
        if reason is not None:
            return reason
        if not is_hidden_staged(path.rpartition("/")[2]):
            if f"{path}/".startswith(places):
                return "hidden"
            if path.startswith(facts.other_tables):
                return "of another table"
        if path in others or path in since:
            return "reachable"
        return "on request" if is_among(path, kept) else None

    return reason_of


def _quick_reasons(facts: VacuumFacts) -> ReasonOf:
    """Make `reasons_to_stay` faster for most files of most tables.

    A path without a name that begins like a hidden one stays only if it is needed.
    """
    reason_of = reasons_to_stay(facts)
    elsewhere = facts.hidden_places or facts.other_tables or facts.hidden_names.directories
    by_name = facts.kept or facts.kept_otherwise or facts.needed_otherwise or facts.needed_since
    if elsewhere or by_name:
        return reason_of
    needed = facts.needed

    def quick_reason_of(path: str) -> Reason | None:
        if path[0] in HIDING or "/." in path or "/_" in path or path[-1] == "/":
            return reason_of(path)
        return "reachable" if path in needed else None

    return quick_reason_of


def certain_reasons(facts: VacuumFacts) -> ReasonOf:
    """Tell why a file stays by its own name alone, so that no listing can tell otherwise."""
    names, needed, kept = facts.hidden_names, facts.needed, facts.kept
    is_in_hidden = cache(lambda directory: is_hidden_directory(directory, names))

    def reason_of(path: str) -> Reason | None:
        directory, _, name = path.rpartition("/")
        if name.startswith(HIDING):
            hides = not is_hidden_staged(name) and (
                is_hidden_name(name, names) or is_in_hidden(directory)
            )
        else:
            hides = is_in_hidden(directory)
        if hides:
            return "hidden"
        if path in needed:
            return "reachable"
        return "on request" if kept and is_among(path, kept) else None

    return reason_of


def is_among(path: str, places: Collection[str]) -> bool:
    """Whether a file is one of these, or lies in a directory that is."""
    while places and path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False
