"""Chooses the commits of a log compaction. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log.segment import LogListing
from delta_ops.protocol.file_names import commit_name, compaction_name
from delta_ops.storage import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompactionPlan:
    """The commits to combine.

    `commits` is empty if the range has fewer than two, or if the compaction exists.
    """

    start_version: int
    end_version: int
    commits: tuple[FileInfo, ...] = ()
    """Ascending; every version from `start_version` to `end_version`, both included."""

    @property
    def has_work(self) -> bool:
        """Whether there are commits to combine."""
        return bool(self.commits)

    @property
    def file_name(self) -> str:
        """The name of the compaction in the log directory."""
        return compaction_name(self.start_version, self.end_version)


def plan_compact_log(
    listing: LogListing,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    table: str = "",
) -> LogCompactionPlan:
    """Choose the commits to combine.

    Args:
        listing: The listing of the log.
        start_version: The first version; the version after the newest checkpoint if None.
        end_version: The last version; the latest version if None.
        table: For messages.

    Raises:
        InvalidRequestError: The versions are not a valid range.
        VersionNotFoundError: The range ends after the latest version.
        LogCorruptError: A commit of the range is missing.

    Examples:
        >>> from delta_ops.log.segment import list_log
        >>> _ = da.delete("lake/orders")
        >>> log = DeltaLog("lake/orders")
        >>> plan = plan_compact_log(list_log(log.storage, log.log_directory), 0)
        >>> plan.start_version, plan.end_version
        (0, 1)
    """
    validate_arguments(plan_compact_log, locals())
    latest = -1 if listing.latest_version is None else listing.latest_version
    newest = listing.checkpoints[-1].version if listing.checkpoints else -1
    start = newest + 1 if start_version is None else start_version
    end = latest if end_version is None else end_version
    if start < 0 or (start_version is not None and end < start):
        raise InvalidRequestError(
            f"{table}: the range of versions from {start} to {end} is invalid; give a first "
            "version of 0 or more, and a last version that is not smaller"
        )
    if end > latest:
        raise VersionNotFoundError(table, f"version {end}", f"its latest version is {latest}")
    plan = LogCompactionPlan(start_version=start, end_version=end)
    if end <= start:
        return plan
    missing = next((v for v in range(start, end + 1) if v not in listing.commits), None)
    if missing is not None:
        raise LogCorruptError(
            table,
            f"_delta_log/{commit_name(missing)}",
            f"version {missing} is missing, so versions {start} to {end} cannot be compacted; "
            "give a range of versions whose commits exist",
        )
    return replace(plan, commits=tuple(listing.commits[v] for v in range(start, end + 1)))
