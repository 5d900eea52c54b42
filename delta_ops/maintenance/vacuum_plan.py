"""What vacuum deletes: decided over a listing, the reachable paths and the time. Pure.

Source: PROTOCOL.md, "Delta Table Consistency Guarantees" (unreferenced files); the rule of hidden
names is the reference's.

A file goes if nobody needs it and it is older than the horizon: a younger one may belong to a
transaction that is about to commit. At every level names that begin with "_" or "." are hidden and
none of vacuum's business, except directories of partition columns, `_change_data` and
`_delta_index*`. A directory with a `_delta_log` of its own is another table and stays whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from delta_ops.maintenance.leftovers import is_leftover, is_staged
from delta_ops.protocol.partition_values import hive_directory
from delta_ops.storage import FileInfo

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
    kept: Mapping[Reason, int] = field(default_factory=dict)
    """How many files stay for which reason."""

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
    infos = sorted(listed)
    horizon_ms = now_ms - retention_ms
    visible = visible_prefixes(partition_columns)
    other_tables = _other_tables(infos)
    on_request = frozenset(keep)

    def reason_to_stay(info: FileInfo) -> Reason | None:
        if is_staged(info):
            return None if is_leftover(info, now_ms) else "young"
        if is_hidden(info.path, visible):
            return "hidden"
        if other_tables and info.path.startswith(other_tables):
            return "of another table"
        if info.path in reachable:
            return "reachable"
        if info.path in on_request:
            return "on request"
        return "young" if info.modified_ms >= horizon_ms else None

    reasons = [reason_to_stay(info) for info in infos]
    going = [info for info, reason in zip(infos, reasons, strict=True) if reason is None]
    return VacuumPlan(
        horizon_ms=horizon_ms,
        files=tuple(info for info in going if not is_staged(info)),
        leftovers=tuple(info for info in going if is_staged(info)),
        kept=Counter(reason for reason in reasons if reason is not None),
    )


def visible_prefixes(partition_columns: Sequence[str]) -> tuple[str, ...]:
    """What a name may begin with and be visible, whatever its first character is."""
    escaped = (hive_directory([name], {name: "x"}) for name in partition_columns)
    columns = (directory.removesuffix("x") for directory in escaped)
    return ("_delta_index", *columns, *(f"{name}=" for name in partition_columns))


def is_hidden(path: str, visible: tuple[str, ...]) -> bool:
    """Whether a part of the path hides it.

    Args:
        path: Relative to the table, decoded.
        visible: The table's `visible_prefixes`.
    """
    return any(
        part[:1] in ("_", ".") and part != "_change_data" and not part.startswith(visible)
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
