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
from delta_ops.transaction import Transaction, begin

TableName = str | Sequence[str] | dg.AssetKey


def table_log(root: str, storage_options: Mapping[str, Any], table: TableName) -> DeltaLog:
    """The log of a table: the parts of its name, or of the asset's key, are folders under root."""
    match table:
        case str():
            parts: Sequence[str] = [table]
        case dg.AssetKey():
            parts = table.path
        case _:
            parts = table
    return DeltaLog("/".join([root.rstrip("/"), *parts]), storage_options)


class DeltaLogResource(dg.ConfigurableResource[None]):
    """Snapshots and transactions of the tables under `root`."""

    root: str = Field(description="Folder or URI under which each asset has its table.")
    storage_options: dict[str, str] = Field(
        default={}, description="What fsspec's file system takes; use dg.EnvVar for secrets."
    )

    def log(self, table: TableName) -> DeltaLog:
        """The table's handle."""
        return table_log(self.root, self.storage_options, table)

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
