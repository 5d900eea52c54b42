"""Resources: the log of the tables under one root.

Spark sessions come from dagster-pyspark's `LazyPySparkResource`: nothing starts a JVM before rows
are read or written.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg
from pydantic import Field

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.storage import Lock, RangeCache
from delta_ops.transaction import Transaction, begin

TableName = str | Sequence[str] | dg.AssetKey


def table_log(
    root: str,
    storage_options: Mapping[str, Any],
    table: TableName,
    *,
    lock: Lock | None = None,
    cache: RangeCache | None = None,
) -> DeltaLog:
    """The log of a table: the parts of its name, or of the asset's key, are folders under root."""
    match table:
        case str():
            parts: Sequence[str] = [table]
        case dg.AssetKey():
            parts = table.path
        case _:
            parts = table
    uri = "/".join([root.rstrip("/"), *parts])
    return DeltaLog(uri, storage_options, lock=lock, cache=cache)


def range_cache(directory: str | None, max_bytes: int) -> RangeCache | None:
    """The cache in a directory, if there is to be one."""
    return None if directory is None else RangeCache(directory, max_bytes)


class DeltaLogResource(dg.ConfigurableResource[None]):
    """Snapshots and transactions of the tables under `root`."""

    root: str = Field(description="Folder or URI under which each asset has its table.")
    storage_options: dict[str, str] = Field(
        default={},
        description="What fsspec's file system takes, and by it Spark; use dg.EnvVar for secrets.",
    )
    cache_directory: str | None = Field(
        default=None,
        description="Where this machine keeps what it reads of checkpoints in object stores.",
    )
    cache_max_bytes: int = Field(default=1 << 30, gt=0, description="That the cache may take.")
    lock: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="Within which commits are created, for a store that cannot do so exclusively; "
        "a function, as DeltaLog takes it.",
    )

    def log(self, table: TableName) -> DeltaLog:
        """The table's handle."""
        cache = range_cache(self.cache_directory, self.cache_max_bytes)
        return table_log(self.root, self.storage_options, table, lock=self.lock, cache=cache)

    def snapshot(
        self,
        table: TableName,
        version: int | None = None,
        timestamp: str | datetime | None = None,
    ) -> Snapshot:
        """The table at a version, at a time, or at its latest version."""
        return self.log(table).snapshot(version, timestamp)

    def begin(self, table: TableName) -> Transaction:
        """A transaction on the table's latest version."""
        return begin(self.log(table))
