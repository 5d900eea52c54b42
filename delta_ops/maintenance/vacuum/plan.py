"""What vacuum deletes: decided over a listing, the reachable paths and the time. Pure.

Source: PROTOCOL.md, "Delta Table Consistency Guarantees" (unreferenced files); the rule of hidden
names is the reference's.

A file goes if nobody needs it and it is older than the horizon: a younger one may belong to a
transaction that is about to commit. At every level names that begin with "_" or "." are hidden and
none of vacuum's business, except directories of partition columns, `_change_data` and
`_delta_index*`; so is `metadata` in a table that is kept for readers of Iceberg too. A directory
with a `_delta_log` of its own is another table and stays whole. An empty directory goes if nothing
has been in it since the horizon: a younger one may have been made by a writer for its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Literal

from delta_ops.arguments import validate_arguments
from delta_ops.maintenance.leftovers import is_leftover, is_staged
from delta_ops.protocol.column_mapping import physical_name
from delta_ops.protocol.partition_values import hive_directory
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import is_hidden_staged

_HIDING = ("_", ".")
_PATH = attrgetter("path")  # to compare paths is much quicker than to compare whole values

Reason = Literal["hidden", "of another table", "reachable", "on request", "young"]
"""Why a file stays: the first of these that holds."""


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


def is_among(path: str, places: Collection[str]) -> bool:
    """Whether a file is one of these, or lies in a directory that is."""
    while places and path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False


class PathRules:
    """Which files stay because of where they are, whatever their age; counts those it is asked of.

    Args:
        reachable: Paths of live files and of unexpired tombstones, decoded; may grow.
        keep: More paths that stay, decoded; of a directory, all below it.
        partition_columns: Their directories are not hidden, whatever their names begin with.
        hidden_names: Directories that are hidden though their names do not begin like that.
    """

    def __init__(
        self,
        reachable: Set[str],
        *,
        keep: Collection[str] = (),
        partition_columns: Sequence[str] = (),
        hidden_names: Collection[str] = (),
    ) -> None:
        self.reachable, self.keep = reachable, frozenset(keep)
        self._num_reachable = len(reachable)
        self.kept: Counter[Reason] = Counter()
        self._visible = visible_prefixes(partition_columns)
        self._hidden_names = hidden_names
        self._is_hidden: dict[str, bool] = {}  # by directory
        self._hidden_places: tuple[str, ...] = ()
        self._other_tables: tuple[str, ...] = ()

    def is_candidate(self, path: str) -> bool:
        """Whether only the age of a file, or of an empty directory, can be a reason to stay."""
        reason = self.reason_to_stay(path)
        if reason is not None and path[-1] != "/":
            self.kept[reason] += 1
        return reason is None

    def candidates(self, paths: Sequence[str]) -> list[str]:
        """Paths for which `is_candidate` holds, in any order.

        Args:
            paths: In one directory, at least one.
        """
        directory, slash, _ = paths[0].rpartition("/")
        prefix = directory + slash
        if self._is_in_hidden(directory) or prefix.startswith(self._other_tables) or self.keep:
            return [path for path in paths if self.is_candidate(path)]
        hiding = tuple(prefix + first for first in _HIDING)
        plain = [path for path in paths if not path.startswith(hiding)]
        found = [path for path in plain if path not in self.reachable]
        if len(found) < len(plain):
            self.kept["reachable"] += len(plain) - len(found)
        if len(plain) < len(paths):
            found += [path for path in paths if path.startswith(hiding) and self.is_candidate(path)]
        return found

    def still_candidates(self, passed: Collection[FileInfo]) -> list[FileInfo]:
        """Files that would pass again: needed files and other tables may have become known."""
        found = list(passed)
        if len(self.reachable) > self._num_reachable:
            found = [info for info in passed if info.path not in self.reachable]
        if len(found) < len(passed):
            self.kept["reachable"] += len(passed) - len(found)
        if self._other_tables or self._hidden_places or self.keep:
            found = [info for info in found if self.is_candidate(info.path)]
        return found

    def reason_to_stay(self, path: str) -> Reason | None:
        """Why it stays; None for what is to be judged by its age, unfinished files among them."""
        directory, _, name = path.rpartition("/")
        is_in_hidden = self._is_in_hidden(directory)
        if name.startswith(_HIDING):
            if is_hidden_staged(name):
                return None
            if is_hidden(name, self._visible):
                return "hidden"
        if is_in_hidden:
            return "hidden"
        if self._hidden_places and f"{path}/".startswith(self._hidden_places):
            return "hidden"
        if self._other_tables and path.startswith(self._other_tables):
            return "of another table"
        if path in self.reachable:
            return "reachable"
        return "on request" if is_among(path, self.keep) else None

    @property
    def num_directories(self) -> int:
        """Directories that were looked at and are not hidden, the root among them."""
        return len({"", *(path for path, hidden in self._is_hidden.items() if not hidden)})

    def note_kept(self, paths: Set[str]) -> None:
        """Let these stay too, as `keep`."""
        self.keep |= paths

    def note_table(self, directory: str) -> None:
        """Let all below this directory stay: there is a log of its own."""
        self._other_tables = tuple({*self._other_tables, f"{directory}/"})

    def note_links(self, links: Mapping[str, str | None]) -> None:
        """Let all stay that a hidden link leads to: the log itself may lie behind one. So may that
        of another table.

        Args:
            links: As for `reachable.real_paths`.
        """
        for link in links:
            directory, _, name = link.rpartition("/")
            if directory and name == "_delta_log":
                self.note_table(directory)
        hidden = (link for link in links if is_hidden(link, self._visible, self._hidden_names))
        self._hidden_places = tuple({f"{links[link]}/" for link in hidden if links[link]})

    def _is_in_hidden(self, directory: str) -> bool:
        known = self._is_hidden.get(directory)
        if known is not None:
            return known
        above, log, _ = f"{directory}/".partition("/_delta_log/")
        if log:
            self.note_table(above)
        found = bool(directory) and is_hidden(directory, self._visible, self._hidden_names)
        self._is_hidden[directory] = found
        return found


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

    Args:
        listed: Files under the table root, hidden ones included, and empty directories, whose paths
            end with a slash; any order, read once.
        reachable: As for `PathRules`; so are `partition_columns` and `keep`.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: Younger files stay.
        links: As for `PathRules.note_links`.
    """
    validate_arguments(plan_vacuum, locals())
    rules = PathRules(reachable, keep=keep, partition_columns=partition_columns)
    rules.note_links(links)
    infos = list(listed)
    for info in infos:  # the logs of other tables may come after their files
        rules.reason_to_stay(info.path)
    candidates = [info for info in infos if rules.is_candidate(info.path)]
    return plan_by_age(candidates, rules.kept, now_ms=now_ms, retention_ms=retention_ms)


def plan_by_age(
    candidates: Iterable[FileInfo], kept: Mapping[Reason, int], *, now_ms: int, retention_ms: int
) -> VacuumPlan:
    """`plan_vacuum`, of the files that nothing but their age lets stay."""
    horizon_ms = now_ms - retention_ms
    files: list[FileInfo] = []
    leftovers: list[FileInfo] = []
    directories: list[str] = []
    num_young = 0
    for info in candidates:
        path, modified_ms = info.path, info.modified_ms
        if path[-1] == "/":
            if modified_ms < horizon_ms:
                directories.append(path)
        # Of most names it is seen at once that they are not those of unfinished files.
        elif (path[0] == "." or "/." in path) and is_staged(info):
            if is_leftover(info, now_ms):
                leftovers.append(info)
            else:
                num_young += 1
        elif modified_ms < horizon_ms:
            files.append(info)
        else:
            num_young += 1
    return VacuumPlan(
        horizon_ms=horizon_ms,
        files=tuple(sorted(files, key=_PATH)),
        leftovers=tuple(sorted(leftovers, key=_PATH)),
        directories=tuple(sorted(directories)),
        kept={**kept, "young": num_young} if num_young else kept,
    )


def names_of_partition_columns(definition: TableDefinition) -> tuple[str, ...]:
    """The names by which directories of partitions may be called, of mapped columns both."""
    physical = map(physical_name, definition.partition_fields)
    return tuple(dict.fromkeys([*definition.partition_columns, *physical]))


_ICEBERG = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")


def hidden_names(definition: TableDefinition) -> frozenset[str]:
    """Directories that belong to readers of another format, which shares the table's files."""
    configuration = definition.metadata.configuration
    formats = configuration.get("delta.universalFormat.enabledFormats", "")
    is_shared = formats.strip() or any(map(definition.has, _ICEBERG))
    return frozenset({"metadata"}) if is_shared else frozenset()


def visible_prefixes(partition_columns: Sequence[str]) -> tuple[str, ...]:
    """What a name may begin with and be visible, whatever its first character is."""
    escaped = (hive_directory([name], {name: "x"}) for name in partition_columns)
    columns = (directory.removesuffix("x") for directory in escaped)
    return ("_delta_index", *columns, *(f"{name}=" for name in partition_columns))


def is_hidden(path: str, visible: tuple[str, ...], hidden: Collection[str] = ()) -> bool:
    """Whether a part of the path hides it.

    Args:
        path: Relative to the table, decoded.
        visible: The table's `visible_prefixes`.
        hidden: The table's `hidden_names`.
    """
    return any(
        (part[:1] in _HIDING and part != "_change_data" and not part.startswith(visible))
        or part in hidden
        for part in path.split("/")
    )
