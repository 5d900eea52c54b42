"""Table: the target of a routed statement, opened with the session's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import TableNotFoundError
from delta_ops.log import DeltaLog
from delta_ops.spark.delta_format.catalog_entries import Place
from delta_ops.spark.delta_format.named_tables import Claims, CreateMode, create_named
from delta_ops.spark.session.settings import user_metadata_of
from delta_ops.spark.statements.routing import Routed
from delta_ops.tables.delta_table import DeltaTable
from delta_ops.tables.frames import frame
from delta_ops.tables.opening import open_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The target of a statement."""

    spark: SparkSession
    log: DeltaLog
    path: str
    name_parts: tuple[str, ...]
    """The target's name in a catalog, as the statement writes it; empty for a path."""
    place: Place | None
    """Entry of a table that the statement creates by name."""
    query: Callable[[str], DataFrame]
    """Runs a query in Spark."""
    storage_options: Mapping[str, Any] | None

    @property
    def name(self) -> str | None:
        """The last part of the target's name in a catalog; None for a path."""
        return self.name_parts[-1] if self.name_parts else None

    def delta_table(self, alias: str | None = None) -> DeltaTable:
        """The table with an alias; by default with its name in the catalog."""
        return DeltaTable(self.spark, self.log, alias or self.name)

    def other(self, path: str) -> DeltaLog:
        """Open the log of another table with the same settings."""
        return open_log(self.spark, path, storage_options=self.storage_options)

    @property
    def user_metadata(self) -> str | None:
        """User metadata for the commit, from the session's settings."""
        return user_metadata_of(self.spark)

    def create(self, mode: CreateMode, claims: Claims, create: Callable[[], object]) -> bool:
        """Create or replace the table, with its name if the statement has one.

        Args:
            create: Creates the table, or replaces it in the modes that replace.

        Returns:
            False if the statement has nothing to do, because the table exists.
        """
        if self.place is not None:
            return create_named(self.spark, self.place, self.log, mode, claims, create)
        if mode == "create if not exists" and self.log.exists():
            return False
        if mode == "replace" and not self.log.exists():
            raise TableNotFoundError(self.log.uri)
        create()
        return True

    def rows(self, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
        """The result of a statement, with columns in Spark SQL syntax."""
        return frame(self.spark, rows, schema)

    def nothing(self) -> DataFrame:
        """The result of a statement that returns no columns."""
        return self.spark.createDataFrame([], StructType())


def table_of(routed: Routed) -> Table:
    """Open the target of a statement; the table need not exist."""
    target = routed.statement.target
    return Table(
        spark=routed.spark,
        log=open_log(routed.spark, routed.path, storage_options=routed.storage_options),
        path=routed.path,
        name_parts=target.parts if routed.is_named else (),
        place=routed.place,
        query=routed.query,
        storage_options=routed.storage_options,
    )
