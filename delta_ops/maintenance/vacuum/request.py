"""VacuumRequest: the arguments of one vacuum, validated."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent
from delta_ops.log import Snapshot
from delta_ops.maintenance.kept_versions import KeptVersions
from delta_ops.maintenance.vacuum.candidates import VacuumMode
from delta_ops.maintenance.vacuum.inventory import validate_inventory
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.storage.paths import is_valid
from delta_ops.storage.store_clock import store_time_ms
from delta_ops.units import duration_text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumRequest:
    """The arguments of `vacuum`, which documents them.

    Raises:
        InvalidRequestError: The mode is unknown, the inventory has other columns or cannot be
            combined with the mode, or a number is too small.
    """

    retention: timedelta | None
    dry_run: bool
    enforce_retention: bool
    mode: VacuumMode
    inventory: pa.Table | None
    keep: Collection[str]
    """May change while the vacuum runs: read it through `kept_paths`."""
    keep_versions: KeptVersions
    """May change while the vacuum runs."""
    keep_last: int
    log_commits: bool | None
    batch_files: int
    user_metadata: str | None
    clock: Clock | None
    on_event: OnEvent

    def __post_init__(self) -> None:
        if self.mode not in ("full", "lite"):
            raise InvalidRequestError(
                f'there is no vacuum of mode {self.mode!r}; it is "full" or "lite"'
            )
        if self.inventory is not None:
            if self.mode == "lite":
                raise InvalidRequestError(
                    "a lite vacuum uses the log instead of an inventory; leave one of them out"
                )
            validate_inventory(self.inventory)
        if self.keep_last < 0 or self.batch_files < 1:
            raise InvalidRequestError(
                f"{option('keep_last')} is {self.keep_last} and {option('batch_files')} is "
                f"{self.batch_files}; {option('keep_last')} must be at least 0, and "
                f"{option('batch_files')} at least 1"
            )

    @property
    def covers_whole_table(self) -> bool:
        """Whether only `keep_versions` restricts which files the vacuum may delete."""
        return self.inventory is None and not (self.keep or self.keep_last)

    @property
    def commit_clock(self) -> Clock:
        """The clock for the times of commits."""
        return self.clock or system_clock

    def kept_paths(self) -> frozenset[str]:
        """The paths to keep at this moment.

        Raises:
            InvalidRequestError: A path is not within a table, so it would keep no file.
        """
        paths = frozenset(self.keep)
        for path in paths:
            if not isinstance(path, str) or not is_valid(path):
                raise InvalidRequestError(
                    f"{path!r} cannot be kept, because it is not a path within the table; give "
                    "decoded paths relative to the table, such as p=1/part-0.parquet or p=1"
                )
        return paths

    def now_ms(self, storage: Storage) -> int:
        """The time that the horizon is measured from, in milliseconds since the Unix epoch.

        Only a written file reports the store's time, and a dry run writes none.
        """
        if self.clock is not None:
            return self.clock()
        return system_clock() if self.dry_run else store_time_ms(storage)

    def retention_ms(self, snapshot: Snapshot) -> int:
        """How long removed files stay.

        Raises:
            InvalidRequestError: The retention is negative, or less than the table's and enforced.
        """
        least_ms = snapshot.properties.deleted_file_retention_ms
        if self.retention is None:
            return least_ms
        retention_ms = self.retention // timedelta(milliseconds=1)
        if retention_ms < 0:
            raise InvalidRequestError(
                f"the retention of a vacuum cannot be negative ({self.retention})",
                "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE",
            )
        if self.enforce_retention and retention_ms < least_ms:
            raise InvalidRequestError(
                f"{snapshot.uri}: a retention of {duration_text(retention_ms)} is less than the "
                f"table's delta.deletedFileRetentionDuration, {duration_text(least_ms)}, so "
                "readers of older versions and slow writers could fail; keep files for longer, "
                "change the property, or turn the check off "
                f"({option('enforce_retention', False)})",
                "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
            )
        return retention_ms
