"""Chooses the files that vacuum deletes, from a listing and the facts. Pure.

Source: PROTOCOL.md, "Delta Table Consistency Guarantees" (unreferenced files).

A file is deleted if no version needs it and it is older than the horizon: a younger file may belong
to a transaction that is about to commit. Vacuum ignores hidden names. A directory with its own
`_delta_log` is another table and is not touched. Unfinished files are deleted in any directory if
they are older than a day. An empty directory is deleted if it has been empty since the horizon: a
writer may have created a younger one for its files.

Every decision about deletable files is made here: for a full vacuum, a lite vacuum, a vacuum by
inventory, the check whether a vacuum is due, and a repair that reports orphans. A file's reason to
stay depends only on its path and the facts, not on other listed files or their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from types import MappingProxyType

from delta_ops.arguments import validate_arguments
from delta_ops.maintenance.leftovers import STAGED_LIFETIME_MS, is_staged
from delta_ops.maintenance.vacuum.facts import Reason, TableListing, VacuumFacts, vacuum_facts
from delta_ops.maintenance.vacuum.hidden_names import (
    HIDING,
    hidden_names_except,
    is_hidden_directory,
    is_hidden_name,
)
from delta_ops.storage import FileInfo
from delta_ops.storage.packed_files import Pack, order_packs, pack, pack_files
from delta_ops.storage.paths import is_hidden_staged

ReasonOf = Callable[[str], Reason | None]
"""Takes the path of a file, or of an empty directory with a slash at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """The files to delete, and the number of kept files by reason."""

    horizon_ms: int
    """Milliseconds since the Unix epoch; files removed or written since stay."""
    files: Sequence[FileInfo] = ()
    """Ordered by path."""
    leftovers: Sequence[FileInfo] = ()
    """Unfinished files that are older than a day, in any directory; ordered by path."""
    directories: tuple[str, ...] = ()
    """Empty directories, each with a slash at its end; ordered by path."""
    kept: Mapping[Reason, int] = field(default_factory=dict)
    """The number of kept files by reason."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to delete, leftovers included."""
        return sum(info.size for info in chain(self.files, self.leftovers))

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

    A file stays if a store might return it for the name of a reachable file: through a link, or
    because the names differ only in the case or the Unicode composition of letters.

    Args:
        listed: Files under the table root, also hidden files, and empty directories, whose paths
            end with a slash; any order, read once.
        reachable: Paths of live files and of unexpired tombstones, decoded.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: Younger files stay.
        partition_columns: Directories of these columns are never hidden. Mapped columns need their
            physical names, too.
        keep: More paths that stay, decoded; for a directory, all files below it.
        links: The target of each link by its path: a path without links, "" for the root, None for
            a place outside.

    Examples:
        >>> from delta_ops.storage import FileInfo
        >>> day_ms = 86_400_000
        >>> listed = [FileInfo("live.parquet", 5, 0), FileInfo("orphan.parquet", 5, 0)]
        >>> plan = plan_vacuum(listed, {"live.parquet"}, now_ms=9 * day_ms, retention_ms=7 * day_ms)
        >>> [file.path for file in plan.files]
        ['orphan.parquet']
    """
    validate_arguments(plan_vacuum, locals())
    listing = TableListing(files=pack_files(listed), links=links)
    names = hidden_names_except(partition_columns)
    facts = vacuum_facts(
        listing, names, reachable, now_ms=now_ms, retention_ms=retention_ms, keep=keep
    )
    return plan_by_facts(listing, facts)


def plan_by_facts(listing: TableListing, facts: VacuumFacts) -> VacuumPlan:
    """Choose the files to delete from a listing."""
    reason_of = _quick_reasons(facts)
    horizon_ms, staged_limit_ms = facts.horizon_ms, facts.now_ms - STAGED_LIFETIME_MS
    kept = Counter(listing.left_out)
    files: list[Pack] = []
    leftovers: list[FileInfo] = []
    directories: list[str] = []
    for group in listing.files.packs:
        chosen: list[int] = []
        for number, (path, modified_ms) in enumerate(zip(group.texts(), group.times, strict=True)):
            reason = reason_of(path)
            if path[-1] == "/":
                if reason is None and modified_ms < horizon_ms:
                    directories.append(path)
                continue
            unfinished = is_staged(path)
            if reason is None and modified_ms >= (staged_limit_ms if unfinished else horizon_ms):
                reason = "young"
            if reason is not None:
                kept[reason] += 1
            elif unfinished:
                leftovers += group.select([number])
            else:
                chosen.append(number)
        if chosen:
            # A listing has hardly any other files: then both share one copy.
            whole = len(chosen) == group.num_files
            files.append(group if whole else pack(group.select(chosen)))
    return VacuumPlan(
        horizon_ms=facts.horizon_ms,
        files=order_packs(files),
        leftovers=order_packs(pack_files(leftovers).packs),
        directories=tuple(sorted(directories)),
        kept=dict(kept),
    )


def reasons_to_stay(facts: VacuumFacts) -> ReasonOf:
    """Build a function that returns why a file stays at any age; None if its age decides."""
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
    """Speed up `reasons_to_stay` for most files of most tables.

    If no name in a path begins like a hidden name, the file stays only if it is needed.
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
    """Build a function that returns why a file stays because of its own name.

    Such a reason holds whatever the listing contains.
    """
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
    """Whether the path, or a directory above it, is in `places`."""
    while places and path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False
