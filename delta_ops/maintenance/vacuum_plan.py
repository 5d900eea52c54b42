"""What vacuum deletes: decided over a listing, the reachable paths and the time. Pure.

Source: PROTOCOL.md, "Delta Table Consistency Guarantees" (unreferenced files); the rule of hidden
names is the reference's.

A file goes if nobody needs it and it is older than the horizon: a younger one may belong to a
transaction that is about to commit. At every level names that begin with "_" or "." are hidden and
none of vacuum's business, except directories of partition columns, `_change_data` and
`_delta_index*`. A directory with a `_delta_log` of its own is another table and stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass

from delta_ops.clock import DAY_MS
from delta_ops.protocol.partition_values import hive_directory
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import is_hidden_staged

STAGED_LIFETIME_MS = DAY_MS
"""An unfinished file that is older was left by a process that died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """The files to delete, and how many stay for which reason."""

    horizon_ms: int
    """Milliseconds since the Unix epoch; what was removed or written since stays."""
    files: tuple[FileInfo, ...] = ()
    """Ordered by path."""
    leftovers: tuple[FileInfo, ...] = ()
    """Unfinished files that are older than a day, in any directory."""
    kept_reachable: int = 0
    kept_young: int = 0
    kept_on_request: int = 0
    kept_hidden: int = 0
    kept_of_other_tables: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to delete, leftovers included."""
        return sum(info.size for info in (*self.files, *self.leftovers))

    @property
    def has_work(self) -> bool:
        """Whether there is anything to delete."""
        return bool(self.files or self.leftovers)


def plan_vacuum(
    listed: Iterable[FileInfo],
    reachable: Set[str],
    *,
    now_ms: int,
    retention_ms: int,
    partition_columns: Sequence[str] = (),
    keep: Collection[str] = (),
) -> VacuumPlan:
    """Choose the files to delete.

    Args:
        listed: Files under the table root, hidden ones included; any order, read once.
        reachable: Paths of live files and of unexpired tombstones, decoded.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: Younger files stay.
        partition_columns: Their directories are not hidden, whatever their names begin with.
        keep: More paths that stay, decoded.
    """
    horizon_ms = now_ms - retention_ms
    hidden = HiddenRule(partition_columns)
    kept_on_request = set(keep)
    counts = dict.fromkeys(("reachable", "young", "request", "hidden", "others"), 0)
    files: list[FileInfo] = []
    leftovers: list[FileInfo] = []
    infos = list(listed)
    others = _other_tables(infos)
    for info in infos:
        if is_hidden_staged(info.path.rpartition("/")[2]):
            is_old = info.modified_ms < now_ms - STAGED_LIFETIME_MS
            (leftovers.append(info) if is_old else _count(counts, "young"))
        elif hidden(info.path):
            counts["hidden"] += 1
        elif others and any(info.path.startswith(root) for root in others):
            counts["others"] += 1
        elif info.path in reachable:
            counts["reachable"] += 1
        elif info.path in kept_on_request:
            counts["request"] += 1
        elif info.modified_ms >= horizon_ms:
            counts["young"] += 1
        else:
            files.append(info)
    return VacuumPlan(
        horizon_ms=horizon_ms,
        files=tuple(sorted(files)),
        leftovers=tuple(sorted(leftovers)),
        kept_reachable=counts["reachable"],
        kept_young=counts["young"],
        kept_on_request=counts["request"],
        kept_hidden=counts["hidden"],
        kept_of_other_tables=counts["others"],
    )


class HiddenRule:
    """Tells which paths are hidden in a table with these partition columns."""

    __slots__ = ("_visible",)

    def __init__(self, partition_columns: Sequence[str]) -> None:
        escaped = (hive_directory([name], {name: "x"}) for name in partition_columns)
        columns = (text.removesuffix("x") for text in escaped)
        raw = (f"{name}=" for name in partition_columns)
        self._visible = ("_delta_index", *columns, *raw)

    def __call__(self, path: str) -> bool:
        """Whether a part of the path hides it."""
        return any(
            part[:1] in ("_", ".") and part != "_change_data" and not part.startswith(self._visible)
            for part in path.split("/")
        )


def _other_tables(infos: Iterable[FileInfo]) -> tuple[str, ...]:
    """Directories below the root that hold a log, each with a slash at its end."""
    return tuple(
        {
            f"{before}/"
            for before, log, _ in (info.path.partition("/_delta_log/") for info in infos)
            if log
        }
    )
