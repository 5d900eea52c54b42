"""DeltaTable: delta-spark's table class, without its jar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import ddl
from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.log import DeltaLog
from delta_ops.maintenance import restore, vacuum
from delta_ops.protocol.features import FEATURES
from delta_ops.spark.delta_format.store_assignment import assign_value
from delta_ops.spark.engine import SparkEngine
from delta_ops.spark.session.error_conditions import delta_condition
from delta_ops.spark.session.settings import (
    reset_txn,
    session_settings,
    txn_of,
    user_metadata_of,
)
from delta_ops.spark.versions import error_with_condition, try_cast, type_of_ddl
from delta_ops.tables.argument_checks import (
    ColumnOrText,
    check_assignments,
    check_condition,
    check_properties,
    require_type,
)
from delta_ops.tables.exceptions import translating
from delta_ops.tables.frames import detail_frame, history_frame, restore_frame
from delta_ops.tables.merge_builder import DeltaMergeBuilder, builder_of_merge
from delta_ops.tables.opening import location_of, open_log, path_in, short_name
from delta_ops.tables.optimize_builder import DeltaOptimizeBuilder, OptimizeRequest
from delta_ops.tables.table_builder import DeltaTableBuilder, Mode
from delta_ops.transaction.dml import delete_rows, update_rows
from delta_ops.transaction.requests import DeleteRequest, UpdateRequest

_MANIFEST = "symlink_format_manifest"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_RESTORE: Mapping[str, str] = {
    "DELTA_VERSION_NOT_FOUND": "DELTA_CANNOT_RESTORE_TABLE_VERSION",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
}
"""Error classes of a restore, by the error classes of a read of the same version."""


class DeltaTable:
    """A table, opened by `forPath` or `forName`; each call reads its latest version.

    Examples:
        >>> table = DeltaTable.forPath(spark, "lake/orders")
        >>> table.update("country = 'BE'", {"price": "price * 2"})
        >>> table.toDF().where("id = 2").first()["price"]
        40.0
    """

    def __init__(self, spark: SparkSession, log: DeltaLog, alias: str | None = None) -> None:
        self._spark, self._log, self._alias = spark, log, alias

    @classmethod
    @translating
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: str,
        hadoopConf: Mapping[str, str] = {},
    ) -> DeltaTable:
        """Open the table at a path.

        Args:
            hadoopConf: Settings of Hadoop's file systems, in addition to the session's.
        """
        return _open(sparkSession, path, hadoopConf)

    @classmethod
    @translating
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Open a table by its name in the session's catalog, or by a path as in delta.`/path`."""
        path = path_in(tableOrViewName, "delta")
        if path is not None:
            return _open(sparkSession, path)
        found = _open(sparkSession, location_of(sparkSession, tableOrViewName))
        return found.alias(short_name(tableOrViewName))

    @classmethod
    @translating
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | StructType | None = None,
    ) -> DeltaTable:
        """Convert a directory of Parquet files, parquet.`/path`, to a table in place.

        Args:
            partitionSchema: The partition columns in directory names, with their types.
        """
        path = path_in(identifier, "parquet")
        if path is None:
            raise InvalidRequestError(
                f"{identifier}: only directories of Parquet files are converted; name one as "
                "parquet.`/path`"
            )
        da.convert(
            open_log(sparkSession, path),
            partition_by=partition_types(partitionSchema),
            user_metadata=user_metadata_of(sparkSession),
        )
        return _open(sparkSession, path)

    @classmethod
    @translating
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether a path holds a Delta table."""
        return open_log(sparkSession, identifier).exists()

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Build a new table; an error if the table exists."""
        return _builder(sparkSession, "create")

    @classmethod
    def createIfNotExists(
        cls,
        sparkSession: SparkSession | None = None,
    ) -> DeltaTableBuilder[DeltaTable]:
        """Build a new table; an existing table stays unchanged."""
        return _builder(sparkSession, "create if not exists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Build a replacement for an existing table; an error if there is none."""
        return _builder(sparkSession, "replace")

    @classmethod
    def createOrReplace(
        cls,
        sparkSession: SparkSession | None = None,
    ) -> DeltaTableBuilder[DeltaTable]:
        """Build a new table that replaces an existing table, if any."""
        return _builder(sparkSession, "create or replace")

    @translating
    def toDF(self) -> DataFrame:
        """The rows of the latest version."""
        rows = ds.read(self._spark, self._log)
        return rows if self._alias is None else rows.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """Return the table with a name for use in conditions and values."""
        return DeltaTable(self._spark, self._log, aliasName)

    @translating
    def generate(self, mode: str) -> None:
        """Write manifests: lists of the table's files for engines that cannot read the log.

        Args:
            mode: "symlink_format_manifest".
        """
        if mode.lower() != _MANIFEST:
            raise IllegalArgumentException(f"There is no mode {mode!r}; give {_MANIFEST!r}.")
        ddl.generate_manifest(self._log)

    @translating
    def delete(self, condition: ColumnOrText | None = None) -> None:
        """Delete the rows that match a condition; without a condition, all rows."""
        checked, txn = check_condition(condition), txn_of(self._spark)
        delete_rows(
            SparkEngine(self._spark),
            DeleteRequest(
                target=self._log,
                predicate=checked,
                target_alias=self._alias,
                txn=txn,
                user_metadata=self._user_metadata,
            ),
        )
        if txn is not None:
            reset_txn(self._spark)

    @translating
    def update(
        self,
        condition: ColumnOrText | None = None,
        set: dict[str, ColumnOrText] | None = None,
    ) -> None:
        """Set columns in the rows that match a condition; without a condition, in all rows."""
        values = check_assignments(set, "'set'")
        checked, txn = check_condition(condition), txn_of(self._spark)
        update_rows(
            SparkEngine(self._spark, fit_value=assign_value),
            UpdateRequest(
                target=self._log,
                assignments=values,
                predicate=checked,
                target_alias=self._alias,
                txn=txn,
                user_metadata=self._user_metadata,
            ),
        )
        if txn is not None:
            reset_txn(self._spark)

    def merge(self, source: DataFrame, condition: ColumnOrText) -> DeltaMergeBuilder:
        """Begin a merge into the table; add clauses to it before `execute`."""
        return builder_of_merge(self._spark, self._log, self._alias, source, condition)

    @translating
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that no version within the retention needs; the result has no rows."""
        retention = None if retentionHours is None else timedelta(hours=retentionHours)
        settings = session_settings(self._spark)
        vacuum(
            self._log,
            retention=retention,
            enforce_retention=settings.enforce_retention,
            user_metadata=settings.user_metadata,
        )
        return self._spark.createDataFrame([], StructType())

    @translating
    def history(self, limit: int | None = None) -> DataFrame:
        """The operations of all versions, newest first."""
        return history_frame(self._spark, self._log.history(limit))

    @translating
    def detail(self) -> DataFrame:
        """The table's location, size, properties and protocol."""
        snapshot = self._log.snapshot()
        latest = next(self._log.history(1), None)
        return detail_frame(self._spark, snapshot, latest.timestamp_ms if latest else None)

    @translating
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the protocol to these versions; never lowers it."""
        require_type(readerVersion, int, "readerVersion", "an integer")
        require_type(writerVersion, int, "writerVersion", "an integer")
        ddl.upgrade_protocol(
            self._log, readerVersion, writerVersion, user_metadata=self._user_metadata
        )

    @translating
    def addFeatureSupport(self, featureName: str) -> None:
        """Add a feature to the protocol, and all features that it requires."""
        require_type(featureName, str, "featureName", "a string")
        known = {each.name.lower(): each.name for each in FEATURES}
        if featureName.lower() not in known:
            raise InvalidRequestError(
                f"[DELTA_UNSUPPORTED_FEATURES_IN_CONFIG] {self._log.uri}: there is no table "
                f"feature {featureName} that delta_ops knows; it knows {', '.join(known.values())}",
                "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            )
        ddl.add_feature(self._log, known[featureName.lower()], user_metadata=self._user_metadata)

    @translating
    def dropFeatureSupport(
        self,
        featureName: str,
        truncateHistory: bool | None = None,
    ) -> None:
        """Remove a feature from the protocol once the table no longer uses it."""
        require_type(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            require_type(truncateHistory, bool, "truncateHistory", "a boolean")
        ddl.drop_feature(
            self._log,
            featureName,
            bool(truncateHistory),
            user_metadata=self._user_metadata,
            engine=ds.rewrite(self._spark),
        )

    @translating
    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to a version."""
        require_type(version, int, "version", "an int")
        with _restoring():
            return self._restore(version)

    @translating
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the table to a time, in the session's time zone."""
        require_type(timestamp, str, "timestamp", "a string")
        with _restoring():
            return self._restore(self._log.snapshot(timestamp=self._time(timestamp)).version)

    def optimize(self) -> DeltaOptimizeBuilder:
        """Begin an optimize of some or all partitions."""
        return DeltaOptimizeBuilder(OptimizeRequest(spark=self._spark, log=self._log))

    @translating
    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Create a new table from this table's files, which stay in place.

        Args:
            isShallow: Must be True; files are not copied.
            replace: Whether the clone may replace an existing table.
            properties: Properties of the clone, in addition to this table's properties.
        """
        return self._clone(target, isShallow, replace, properties, None)

    @translating
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the table at a version; see `clone`."""
        require_type(version, int, "version", "an int")
        return self._clone(target, isShallow, replace, properties, version)

    @translating
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the table at a time, in the session's time zone; see `clone`."""
        require_type(timestamp, str, "timestamp", "a string")
        version = self._log.snapshot(timestamp=self._time(timestamp)).version
        return self._clone(target, isShallow, replace, properties, version)

    @property
    def _user_metadata(self) -> str | None:
        return user_metadata_of(self._spark)

    def _time(self, timestamp: str) -> Any:
        return _parse_timestamp(self._spark, timestamp)

    def _restore(self, version: int) -> DataFrame:
        result = restore(self._log, version=version, user_metadata=self._user_metadata)
        return restore_frame(self._spark, result.plan, self._log.snapshot(version))

    def _clone(
        self, target: Any, is_shallow: Any, replaces: Any, properties: Any, version: int | None
    ) -> DeltaTable:
        require_type(target, str, "target", "a string")
        require_type(is_shallow, bool, "isShallow", "a boolean")
        require_type(replaces, bool, "replace", "a boolean")
        checked = check_properties(properties)
        if not is_shallow:
            raise IllegalArgumentException(
                "A clone does not copy files; make a shallow clone (isShallow=True), or copy the "
                "rows by reading and writing them."
            )
        place = open_log(self._spark, target)
        if replaces and place.exists():
            raise InvalidRequestError(
                f"{target}: a clone cannot replace an existing table; drop that table first, or "
                "clone to another path"
            )
        ddl.shallow_clone(
            self._log,
            place,
            version=version,
            properties=checked,
            user_metadata=self._user_metadata,
        )
        return _open(self._spark, target)


@contextmanager
def _restoring() -> Iterator[None]:
    """Give the errors of a restore the reference's error classes of a restore."""
    try:
        yield
    except VersionNotFoundError as error:
        condition = _OF_RESTORE.get(delta_condition(error) or "")
        if condition is None:
            raise
        raise error_with_condition(AnalysisException, str(error), condition) from error


def _open(spark: SparkSession, path: str, settings: Mapping[str, str] | None = None) -> DeltaTable:
    log = open_log(spark, path, settings)
    if not log.exists():
        raise TableNotFoundError(log.uri)
    return DeltaTable(spark, log)


def partition_types(schema: str | StructType | None) -> dict[str, str]:
    """The types of partition columns, in Spark SQL syntax."""
    found = type_of_ddl(schema) if isinstance(schema, str) else schema or StructType()
    if not isinstance(found, StructType):
        raise InvalidRequestError(f"{schema!r} names no column; give names with types")
    return {field.name: field.dataType.simpleString() for field in found.fields}


def _builder(spark: SparkSession | None, mode: Mode) -> DeltaTableBuilder[DeltaTable]:
    session = SparkSession.getActiveSession() if spark is None else spark
    if session is None:
        raise InvalidRequestError("There is no active Spark session; give one.")
    return DeltaTableBuilder(session, mode, _open)


def _parse_timestamp(spark: SparkSession, text: str) -> datetime:
    """Parse a time, in the session's time zone.

    Raises:
        InvalidRequestError: The string is not a timestamp.
    """
    time = sf.unix_micros(try_cast(sf.lit(text), "timestamp"))
    (row,) = spark.range(1).select(time.alias("micros")).collect()
    if row["micros"] is None:
        raise InvalidRequestError(
            f"The provided timestamp ('{text}') cannot be converted to a valid timestamp; write it "
            "as 2026-01-31 or 2026-01-31 12:00:00",
            "DELTA_TIMESTAMP_INVALID",
        )
    return _EPOCH + timedelta(microseconds=row["micros"])
