"""Every table from other writers in our data, and the expected rows.

`EXPECTED` compares with the rows that Spark wrote beside the table. Without such rows,
`SECOND_OPINION` compares with the rows that deltalake reads. Entries for tables that only one
reader, or no reader, can read give the reason.
"""

from __future__ import annotations

from typing import NamedTuple

from delta_ops.errors import (
    DataFileError,
    DeltaOpsError,
    LogCorruptError,
    TableNotFoundError,
    UnsupportedFeatureError,
)


class Refused(NamedTuple):
    """No rows, but an error."""

    error: type[DeltaOpsError]
    says: str
    why: str


class Alone(NamedTuple):
    """Rows that deltalake cannot read, or reads differently."""

    why: str


EXPECTED, SECOND_OPINION = "expected", "second opinion"

TABLES: dict[str, str | Refused | Alone] = {
    "delta_rs/COVID-19_NYT": SECOND_OPINION,
    "delta_rs/cdc_ict_table": SECOND_OPINION,
    "delta_rs/cdf-table": SECOND_OPINION,
    "delta_rs/checkpoint_with_partitions": Refused(
        DataFileError, "is missing", "only its log is here"
    ),
    "delta_rs/checkpoints": Refused(
        DataFileError, "is missing", "a file was deleted that the log names"
    ),
    "delta_rs/checkpoints_vacuumed": Refused(
        DataFileError, "is missing", "a file was deleted that the log names"
    ),
    "delta_rs/delta-0.2.0": SECOND_OPINION,
    "delta_rs/delta-0.8-empty": SECOND_OPINION,
    "delta_rs/delta-0.8.0-null-partition": SECOND_OPINION,
    "delta_rs/delta-0.8.0-partitioned": SECOND_OPINION,
    "delta_rs/delta-0.8.0-special-partition": SECOND_OPINION,
    "delta_rs/delta-1.2.1-only-struct-stats": SECOND_OPINION,
    "delta_rs/delta-2.2.0-partitioned-types": SECOND_OPINION,
    "delta_rs/delta-live-table": SECOND_OPINION,
    "delta_rs/delta-stats-optional": SECOND_OPINION,
    "delta_rs/issue-2152": SECOND_OPINION,
    "delta_rs/issue_1374": SECOND_OPINION,
    "delta_rs/python-0.25.5-checkpoint": SECOND_OPINION,
    "delta_rs/simple_commit": SECOND_OPINION,
    "delta_rs/simple_table_features": Refused(
        UnsupportedFeatureError,
        "reader version 5",
        "a reader version and a feature that nobody knows",
    ),
    "delta_rs/simple_table_with_checkpoint": SECOND_OPINION,
    "delta_rs/spark-shredded-variant-preview-delta": Alone("deltalake refuses the feature"),
    "delta_rs/spark-variant-stable-feature-checkpoint": Refused(
        DataFileError, "is missing", "only its log is here"
    ),
    "delta_rs/table-with-domain-metadata": Refused(
        DataFileError, "is missing", "only its log is here"
    ),
    "delta_rs/table-with-dv-small": SECOND_OPINION,
    "delta_rs/table-without-dv-small": SECOND_OPINION,
    "delta_rs/table_failed_last_checkpoint_update": SECOND_OPINION,
    "delta_rs/table_with_deletion_logs": SECOND_OPINION,
    "delta_rs/table_with_edge_timestamps": Alone(
        "deltalake counts nanoseconds, which end before the year 9999"
    ),
    "delta_rs/table_with_liquid_clustering": SECOND_OPINION,
    "delta_rs/table_with_null_stats_in_notnull_struct": SECOND_OPINION,
    "delta_rs/with_checkpoint_no_last_checkpoint": Refused(
        DataFileError, "is missing", "only its log is here"
    ),
    "golden/124-decimal-decode-bug/delta": EXPECTED,
    "golden/125-iterator-bug/delta": EXPECTED,
    "golden/basic-decimal-table-legacy/delta": EXPECTED,
    "golden/basic-with-inserts-deletes-checkpoint/delta": EXPECTED,
    "golden/basic-with-inserts-updates/delta": EXPECTED,
    "golden/canonicalized-paths-special-b/delta": Alone(
        "its only file was removed under another spelling of its path"
    ),
    "golden/data-reader-absolute-paths-escaped-chars/delta": Refused(
        LogCorruptError, "there is no metaData", "a log without metadata"
    ),
    "golden/data-reader-array-complex-objects/delta": EXPECTED,
    "golden/data-reader-array-primitives/delta": EXPECTED,
    "golden/data-reader-date-types-America/delta": EXPECTED,
    "golden/data-reader-date-types-Iceland/delta": EXPECTED,
    "golden/data-reader-date-types-Jst/delta": EXPECTED,
    "golden/data-reader-escaped-chars/delta": EXPECTED,
    "golden/data-reader-map/delta": EXPECTED,
    "golden/data-reader-nested-struct/delta": EXPECTED,
    "golden/data-reader-timestamp_ntz-name-mode/delta": EXPECTED,
    "golden/data-skipping-basic-stats-all-types-columnmapping-id/delta": EXPECTED,
    "golden/data-skipping-basic-stats-all-types/delta": EXPECTED,
    "golden/data-skipping-partition-and-data-column/delta": EXPECTED,
    "golden/decimal-various-scale-precision/delta": EXPECTED,
    "golden/delete-re-add-same-file-different-transactions/delta": Refused(
        DataFileError, "is missing", "its files never were"
    ),
    "golden/deltalog-getChanges/delta": EXPECTED,
    "golden/dv-partitioned-with-checkpoint/delta": EXPECTED,
    "golden/hive/delta/deltatbl-column-names-case-insensitive": SECOND_OPINION,
    "golden/hive/delta/deltatbl-deleted-path": SECOND_OPINION,
    "golden/hive/delta/deltatbl-incorrect-format-config": SECOND_OPINION,
    "golden/hive/delta/deltatbl-map-types-correctly": SECOND_OPINION,
    "golden/hive/delta/deltatbl-non-partitioned": SECOND_OPINION,
    "golden/hive/delta/deltatbl-not-allow-write": SECOND_OPINION,
    "golden/hive/delta/deltatbl-partition-prune": SECOND_OPINION,
    "golden/hive/delta/deltatbl-partitioned": SECOND_OPINION,
    "golden/hive/delta/deltatbl-schema-match": SECOND_OPINION,
    "golden/hive/delta/deltatbl-special-chars-in-partition-column": SECOND_OPINION,
    "golden/hive/delta/deltatbl-touch-files-needed-for-partitioned": SECOND_OPINION,
    "golden/kernel-timestamp-int96/delta": EXPECTED,
    "golden/kernel-timestamp-pst/delta": EXPECTED,
    "golden/log-replay-dv-key-cases/delta": EXPECTED,
    "golden/log-replay-latest-metadata-protocol/delta": EXPECTED,
    "golden/log-replay-special-characters-b/delta": Refused(
        DataFileError, "is missing", "its files never were"
    ),
    "golden/log-replay-special-characters/delta": EXPECTED,
    "golden/multi-part-checkpoint/delta": EXPECTED,
    "golden/only-checkpoint-files/delta": EXPECTED,
    "golden/parquet-all-types-legacy-format/delta": EXPECTED,
    "golden/parquet-decimal-dictionaries/delta": EXPECTED,
    "golden/parquet-decimal-type/delta": EXPECTED,
    "golden/snapshot-vacuumed/delta": EXPECTED,
    "golden/time-travel-schema-changes-b/delta": EXPECTED,
    "golden/time-travel-start-start20-start40/delta": EXPECTED,
    "golden/time-travel-start/delta": EXPECTED,
    "golden/v2-checkpoint-json/delta": EXPECTED,
    "golden/v2-checkpoint-parquet/delta": EXPECTED,
    "golden/versions-not-contiguous/delta": Refused(
        LogCorruptError, "version 1 is missing", "a hole in the log"
    ),
    "kernel/cdf-column-mapping-name-mode-3-7": SECOND_OPINION,
    "kernel/cdf-table": SECOND_OPINION,
    "kernel/cdf-table-backtick-column-names": SECOND_OPINION,
    "kernel/cdf-table-delete-conditional-all-rows": SECOND_OPINION,
    "kernel/cdf-table-delete-conditional-two-rows": SECOND_OPINION,
    "kernel/cdf-table-update-ops": SECOND_OPINION,
    "kernel/cdf-table-with-cdc-and-dvs": SECOND_OPINION,
    "kernel/compacted-log-files-table": SECOND_OPINION,
    "kernel/partition_cm/id": SECOND_OPINION,
    "kernel/partition_cm/name": SECOND_OPINION,
    "kernel/partition_cm/none": SECOND_OPINION,
    "kernel/partitioned_with_materialize_feature": SECOND_OPINION,
    "kernel/stats-writing-all-types/delta": SECOND_OPINION,
    "kernel/table-with-dv-small": SECOND_OPINION,
    "kernel/table-without-dv-small": SECOND_OPINION,
    "kernel/unshredded-variant": SECOND_OPINION,
    "kernel/v1-multi-part-partitioned-struct-stats-only": SECOND_OPINION,
    "kernel/v1-multi-part-struct-stats-only": SECOND_OPINION,
    "kernel/v1-single-part-struct-stats-only": SECOND_OPINION,
    "kernel/v2-checkpoints-json-with-last-checkpoint": SECOND_OPINION,
    "kernel/v2-checkpoints-json-with-sidecars": SECOND_OPINION,
    "kernel/v2-checkpoints-json-without-sidecars": SECOND_OPINION,
    "kernel/v2-checkpoints-parquet-with-last-checkpoint": SECOND_OPINION,
    "kernel/v2-checkpoints-parquet-with-sidecars": SECOND_OPINION,
    "kernel/v2-classic-checkpoint-parquet": SECOND_OPINION,
    "kernel/void-column": SECOND_OPINION,
    "kernel/with-short-dv": SECOND_OPINION,
    "kernel/with_checkpoint_no_last_checkpoint": Refused(
        DataFileError, "is missing", "only its log is here"
    ),
    "golden/no-delta-log-folder/delta": Refused(
        TableNotFoundError, "is not a Delta table", "there is no log"
    ),
}
