"""Properties: a row for each known table property, with its meaning, parser and default.

Source: PROTOCOL.md, "Table Properties"; names and defaults as in the reference implementation where
the protocol does not define them.

The rows cover all properties of the reference and some of other engines, even if delta_ops does not
use them. A property without a row is kept if a table has it, but cannot be set.
"""

from __future__ import annotations

from typing import Any

from delta_ops.protocol.properties.property import Property
from delta_ops.protocol.properties.values import (
    CheckpointPolicy,
    CompressionCodec,
    IsolationLevel,
    parse_auto_compact,
    parse_checkpoint_policy,
    parse_codec,
    parse_column_list,
    parse_count,
    parse_flag,
    parse_formats,
    parse_interval,
    parse_isolation_level,
    parse_mapping_mode,
    parse_natural_number,
    parse_positive_integer,
    parse_size_bytes,
    parse_text,
)
from delta_ops.protocol.schema import ColumnPath

APPEND_ONLY: Property[bool] = Property(
    name="delta.appendOnly",
    meaning="Rows may be added and moved to other files, but not changed or removed.",
    parse=parse_flag,
    default="false",
    acts_in="every commit",
)
CHECKPOINT_INTERVAL: Property[int] = Property(
    name="delta.checkpointInterval",
    meaning="Number of commits between checkpoints.",
    parse=parse_positive_integer,
    default="10",
    acts_in="every commit, maintenance",
)
CHECKPOINT_POLICY: Property[CheckpointPolicy] = Property(
    name="delta.checkpointPolicy",
    meaning="The kind of checkpoint: classic or v2.",
    parse=parse_checkpoint_policy,
    default="classic",
    acts_in="checkpoint",
)
WRITE_STATS_AS_JSON: Property[bool] = Property(
    name="delta.checkpoint.writeStatsAsJson",
    meaning="Checkpoints store statistics as JSON.",
    parse=parse_flag,
    default="true",
    acts_in="checkpoint",
)
WRITE_STATS_AS_STRUCT: Property[bool] = Property(
    name="delta.checkpoint.writeStatsAsStruct",
    meaning="Checkpoints store statistics and partition values in typed columns.",
    parse=parse_flag,
    default="false",
    acts_in="checkpoint",
)
LOG_RETENTION: Property[int] = Property(
    name="delta.logRetentionDuration",
    meaning="How long old versions stay readable.",
    parse=parse_interval,
    default="interval 30 days",
    acts_in="clean-up-log",
)
EXPIRED_LOG_CLEANUP: Property[bool] = Property(
    name="delta.enableExpiredLogCleanup",
    meaning="The log may be cleaned up automatically.",
    parse=parse_flag,
    default="true",
    acts_in="maintenance",
)
DELETED_FILE_RETENTION: Property[int] = Property(
    name="delta.deletedFileRetentionDuration",
    meaning="How long removed files and their tombstones are kept.",
    parse=parse_interval,
    default="interval 7 days",
    acts_in="vacuum, checkpoint",
)
SET_TRANSACTION_RETENTION: Property[int | None] = Property(
    name="delta.setTransactionRetentionDuration",
    meaning="How long txn identifiers are kept; not set: forever.",
    parse=parse_interval,
    default=None,
    acts_in="checkpoint",
)
CHECKPOINT_PROTECTION_VERSION: Property[int] = Property(
    name="delta.requireCheckpointProtectionBeforeVersion",
    meaning="Log cleanup deletes the commits before this version together or not at all.",
    parse=parse_natural_number,
    default="0",
    acts_in="clean-up-log",
)
ISOLATION_LEVEL: Property[IsolationLevel] = Property(
    name="delta.isolationLevel",
    meaning="Isolation level, which decides what is a conflict: Serializable or WriteSerializable.",
    parse=parse_isolation_level,
    default="Serializable",
    acts_in="every commit",
)
IN_COMMIT_TIMESTAMPS: Property[bool] = Property(
    name="delta.enableInCommitTimestamps",
    meaning="Each commit carries its time, later than the previous commit's.",
    parse=parse_flag,
    default="false",
    acts_in="every commit",
)
NUM_INDEXED_COLUMNS: Property[int] = Property(
    name="delta.dataSkippingNumIndexedCols",
    meaning="Number of leading columns that get statistics; -1: all.",
    parse=parse_count,
    default="32",
    acts_in="write",
)
STATS_COLUMNS: Property[tuple[ColumnPath, ...] | None] = Property(
    name="delta.dataSkippingStatsColumns",
    meaning="The columns that get statistics; overrides the number of columns.",
    parse=parse_column_list,
    default=None,
    acts_in="write",
)
STRING_PREFIX_LENGTH: Property[int] = Property(
    name="delta.dataSkippingStringPrefixLength",
    meaning="Number of characters of a string that statistics keep.",
    parse=parse_positive_integer,
    default="32",
    acts_in="write",
)
TARGET_FILE_SIZE: Property[int | None] = Property(
    name="delta.targetFileSize",
    meaning="Target size of files for writers and compaction, such as 128mb.",
    parse=parse_size_bytes,
    default=None,
    acts_in="write, optimize",
)
AUTO_COMPACT: Property[bool] = Property(
    name="delta.autoOptimize.autoCompact",
    meaning="Writers with the auto_compact hook, and the IO manager, compact after a commit.",
    parse=parse_auto_compact,
    default="false",
    acts_in="write",
)
COMPRESSION_CODEC: Property[CompressionCodec | None] = Property(
    name="delta.parquet.compression.codec",
    meaning=(
        "Compression of data files. Not set: the Arrow engine uses zstd, snappy for small "
        "files, and none for numbers that hardly compress; Spark uses the codec of its session."
    ),
    parse=parse_codec,
    default=None,
    acts_in="write",
)
COLUMN_MAPPING_MODE: Property[str] = Property(
    name="delta.columnMapping.mode",
    meaning="How columns are found in files: none, name or id.",
    parse=parse_mapping_mode,
    default="none",
    acts_in="read, write",
)
MAX_COLUMN_ID: Property[int] = Property(
    name="delta.columnMapping.maxColumnId",
    meaning="The highest column id in use.",
    parse=parse_natural_number,
    default="0",
    acts_in="write",
    is_for_users=False,
)
CHANGE_DATA_FEED: Property[bool] = Property(
    name="delta.enableChangeDataFeed",
    meaning="Commits record which rows they changed (change data feed).",
    parse=parse_flag,
    default="false",
    acts_in="read, write",
    older_name="delta.enableChangeDataCapture",
)
IN_COMMIT_TIMESTAMP_VERSION: Property[int | None] = Property(
    name="delta.inCommitTimestampEnablementVersion",
    meaning="The first version with an in-commit timestamp.",
    parse=parse_natural_number,
    default=None,
    is_for_users=False,
)
IN_COMMIT_TIMESTAMP_TIME: Property[int | None] = Property(
    name="delta.inCommitTimestampEnablementTimestamp",
    meaning="The timestamp of that version, in milliseconds.",
    parse=parse_natural_number,
    default=None,
    is_for_users=False,
)
TYPE_WIDENING: Property[bool] = Property(
    name="delta.enableTypeWidening",
    meaning="Columns may be changed to a wider type.",
    parse=parse_flag,
    default="false",
    acts_in="write, alter",
)
ROW_TRACKING: Property[bool] = Property(
    name="delta.enableRowTracking",
    meaning="Each row keeps an id and the version of its last change.",
    parse=parse_flag,
    default="false",
    acts_in="write",
)
ROW_TRACKING_SUSPENDED: Property[bool] = Property(
    name="delta.rowTrackingSuspended",
    meaning="New rows get no ids.",
    parse=parse_flag,
    default="false",
    acts_in="write",
)
ROW_ID_COLUMN: Property[str] = Property(
    name="delta.rowTracking.materializedRowIdColumnName",
    meaning="The column of data files that holds row ids.",
    parse=parse_text,
    default=None,
    is_for_users=False,
)
ROW_COMMIT_VERSION_COLUMN: Property[str] = Property(
    name="delta.rowTracking.materializedRowCommitVersionColumnName",
    meaning="The column of data files that holds row commit versions.",
    parse=parse_text,
    default=None,
    is_for_users=False,
)
DELETION_VECTORS: Property[bool] = Property(
    name="delta.enableDeletionVectors",
    meaning="Rows may be deleted by deletion vectors, without rewriting their files.",
    parse=parse_flag,
    default="false",
    acts_in="delete, update",
)
RECORD_READS: Property[bool] = Property(
    name="delta_ops.recordReads",
    meaning="Reads record their predicate under `_delta_ops/`, for layout advice.",
    parse=parse_flag,
    default="false",
    acts_in="read, advise",
)
SORT_KEY: Property[tuple[ColumnPath, ...] | None] = Property(
    name="delta_ops.sortKey",
    meaning="Columns by which writers sort the rows of each file; smallest values and nulls first.",
    parse=parse_column_list,
    default=None,
    acts_in="write, optimize",
)
BLOOM_FILTERS: Property[tuple[ColumnPath, ...] | None] = Property(
    name="delta_ops.bloomFilterColumns",
    meaning="Columns that have Parquet Bloom filters in data files, for look-ups of values.",
    parse=parse_column_list,
    default=None,
    acts_in="write",
)
SCAN_CACHE: Property[bool | None] = Property(
    name="delta_ops.scanCache",
    meaning=(
        "Commits write the scan cache, and reads use it. Not set: commits write it again where the "
        "table has one. false: neither."
    ),
    parse=parse_flag,
    default=None,
    acts_in="read, checkpoint",
)
SCAN_CACHE_INTERVAL: Property[int] = Property(
    name="delta_ops.scanCacheInterval",
    meaning="Number of commits between scan caches.",
    parse=parse_positive_integer,
    default="100",
    acts_in="checkpoint",
)
VACUUM_LOGGING: Property[bool] = Property(
    name="delta_ops.vacuum.logging",
    meaning="A vacuum commits VACUUM START and VACUUM END.",
    parse=parse_flag,
    default="true",
    acts_in="vacuum",
)
POLICY: Property[str] = Property(
    name="delta_ops.policy",
    meaning="Name of the table's maintenance policy.",
    parse=parse_text,
    default=None,
    acts_in="maintenance",
)

PROPERTIES: tuple[Property[Any], ...] = (
    APPEND_ONLY,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    WRITE_STATS_AS_JSON,
    WRITE_STATS_AS_STRUCT,
    LOG_RETENTION,
    EXPIRED_LOG_CLEANUP,
    DELETED_FILE_RETENTION,
    SET_TRANSACTION_RETENTION,
    CHECKPOINT_PROTECTION_VERSION,
    ISOLATION_LEVEL,
    IN_COMMIT_TIMESTAMPS,
    NUM_INDEXED_COLUMNS,
    STATS_COLUMNS,
    STRING_PREFIX_LENGTH,
    TARGET_FILE_SIZE,
    COMPRESSION_CODEC,
    COLUMN_MAPPING_MODE,
    CHANGE_DATA_FEED,
    DELETION_VECTORS,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    TYPE_WIDENING,
    RECORD_READS,
    SORT_KEY,
    BLOOM_FILTERS,
    SCAN_CACHE,
    SCAN_CACHE_INTERVAL,
    VACUUM_LOGGING,
    POLICY,
    Property(
        name="delta.enableVariantShredding",
        meaning="Parts of variants are stored in their own columns (shredding).",
        parse=parse_flag,
        default="false",
    ),
    *(
        Property(
            name=f"delta.enableIcebergCompatV{version}",
            meaning=f"The table is readable as Iceberg (compatibility rules, version {version}).",
            parse=parse_flag,
            default=None,
        )
        for version in (1, 2, 3)
    ),
    Property(
        name="delta.universalFormat.enabledFormats",
        meaning="Other formats that commits also publish.",
        parse=parse_formats,
        default="",
        acts_in="vacuum",
    ),
    Property(
        name="delta.autoOptimize",
        meaning="Files are clustered while they are written.",
        parse=parse_flag,
        default=None,
    ),
    AUTO_COMPACT,
    Property(
        name="delta.autoOptimize.optimizeWrite",
        meaning="Writers shuffle rows first, so that they write fewer files.",
        parse=parse_flag,
        default=None,
        acts_in="write",
    ),
    Property(
        name="delta.tuneFileSizesForRewrites",
        meaning="Files are kept small, for tables that are rewritten often.",
        parse=parse_flag,
        default=None,
    ),
    Property(
        name="delta.randomizeFilePrefixes",
        meaning="Files are stored under random prefixes.",
        parse=parse_flag,
        default="false",
    ),
    Property(
        name="delta.randomPrefixLength",
        meaning="Length of the random prefixes.",
        parse=parse_positive_integer,
        default=None,
    ),
    Property(
        name="delta.checkpointRetentionDuration",
        meaning="How long checkpoints are kept at least.",
        parse=parse_interval,
        default=None,
    ),
    Property(
        name="delta.sampleRetentionDuration",
        meaning="How long samples are kept.",
        parse=parse_interval,
        default=None,
    ),
    Property(
        name="delta.enableFullRetentionRollback",
        meaning="The table can be rolled back to any version in its log.",
        parse=parse_flag,
        default=None,
    ),
    Property(
        name="delta.dropFeatureTruncateHistory.retentionDuration",
        meaning="How long history is kept when a feature is dropped with truncation.",
        parse=parse_interval,
        default=None,
    ),
    Property(
        name="delta.compatibility.symlinkFormatManifest.enabled",
        meaning="Commits write a manifest file of the live files.",
        parse=parse_flag,
        default="false",
    ),
    Property(
        name="delta.parquet.format.version",
        meaning="Parquet format version of data files.",
        parse=parse_text,
        default=None,
    ),
    MAX_COLUMN_ID,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMP_TIME,
    ROW_ID_COLUMN,
    ROW_COMMIT_VERSION_COLUMN,
)
"""All known properties, whether or not delta_ops uses them."""
