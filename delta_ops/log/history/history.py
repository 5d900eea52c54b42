"""History: the operation of each version, newest first.

Source: PROTOCOL.md, "Commit Provenance Information" and "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from delta_ops.errors import DeltaOpsError, InvalidRequestError, TableNotFoundError
from delta_ops.lazy import lazy
from delta_ops.log.history.commit_times import raised_times
from delta_ops.log.history.in_commit_timestamps import in_commit_enablement
from delta_ops.log.history.logged_commits import logged_commits, read_in_groups
from delta_ops.log.outside_files import OutsideFiles
from delta_ops.log.segment import list_log
from delta_ops.log.snapshot import Snapshot, open_snapshot
from delta_ops.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One version and its commitInfo."""

    version: int
    timestamp_ms: int
    """The in-commit timestamp, or else the time of the commit file. File times are raised where
    needed, so that later versions have later times."""
    operation: str | None
    operation_parameters: Mapping[str, Any]
    operation_metrics: Mapping[str, Any]
    engine_info: str | None
    user_metadata: str | None
    commit_info: Mapping[str, Any]
    """The whole commitInfo, by JSON name."""


def load_history(
    storage: Storage, directory: str, limit: int | None = None, *, base: Snapshot | None = None
) -> Iterator[HistoryEntry]:
    """Yield the versions that have a commit file, newest first.

    Args:
        limit: Maximum number of versions; None for all.
        base: The snapshot of another log that the first commit of this log follows.

    Raises:
        InvalidRequestError: `limit` is negative.
        TableNotFoundError: There is no table here.
        LogCorruptError: A commit is malformed.
    """
    if limit is not None and limit < 0:
        raise InvalidRequestError(f"the limit of the history is {limit}; give 0 or more")
    commits, _ = logged_commits(storage, directory, base)
    if not commits and base is None and list_log(storage, directory).latest_version is None:
        raise TableNotFoundError(storage.uri)
    times = raised_times({version: each.info.modified_ms for version, each in commits.items()})
    own_times = _OwnTimes(storage, directory, base)
    versions = sorted(times, reverse=True)
    for version, commit in read_in_groups(commits, versions[:limit]):
        values = commit.info.values if commit.info else {}
        own_time = commit.in_commit_timestamp
        if own_time is not None and not own_times.count_at(version):
            own_time = None
        yield HistoryEntry(
            version=version,
            timestamp_ms=times[version] if own_time is None else own_time,
            operation=_text(values.get("operation")),
            operation_parameters=_mapping(values.get("operationParameters")),
            operation_metrics=_mapping(values.get("operationMetrics")),
            engine_info=_text(values.get("engineInfo")),
            user_metadata=_text(values.get("userMetadata")),
            commit_info=values,
        )


class _OwnTimes:
    """Decides which in-commit timestamps count: commits before the feature may have some, too."""

    def __init__(self, storage: Storage, directory: str, base: Snapshot | None) -> None:
        self._open = partial(
            open_snapshot, storage, directory, base=base, outside=OutsideFiles("refuse", None)
        )

    def count_at(self, version: int) -> bool:
        return self._since is not None and version >= self._since

    @lazy
    def _since(self) -> int | None:
        """First version with valid in-commit timestamps; None if the feature is off.

        0 if the table cannot be opened: all timestamps then count.
        """
        try:
            enabled = in_commit_enablement(self._open())
        except DeltaOpsError:
            return 0
        return None if enabled is None else enabled.version


def _text(value: Any) -> str | None:
    """The value if it is a string, else None; `commit_info` keeps values of other types."""
    return value if isinstance(value, str) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
