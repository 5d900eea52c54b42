"""The names of the package dagster-delta."""

from __future__ import annotations

from enum import StrEnum

from delta_ops.orchestration.swap_in.delta_forks import (
    DeltaLakeIOManager,
    DeltaLakePolarsIOManager,
    DeltaLakePyarrowIOManager,
)
from delta_ops.orchestration.swap_in.merge_operations import (
    MergeOperationsConfig,
    OperationAllConfig,
    OperationConfig,
    OperationWithUpdatesConfig,
    WhenMatchedDelete,
    WhenMatchedUpdate,
    WhenMatchedUpdateAll,
    WhenNotMatchedBySourceDelete,
    WhenNotMatchedBySourceUpdate,
    WhenNotMatchedInsert,
    WhenNotMatchedInsertAll,
)
from delta_ops.orchestration.swap_in.merge_translations import MergeConfig, MergeType
from delta_ops.orchestration.swap_in.storage_configs import (
    AzureConfig,
    BackoffConfig,
    ClientConfig,
    GcsConfig,
    LocalConfig,
    S3Config,
)
from delta_ops.orchestration.swap_in.table_resource import DeltaTableResource

__all__ = [
    "DELTA_DATETIME_FORMAT",
    "DELTA_DATE_FORMAT",
    "AzureConfig",
    "BackoffConfig",
    "BaseDeltaLakeIOManager",
    "ClientConfig",
    "DeltaLakePolarsIOManager",
    "DeltaLakePyarrowIOManager",
    "DeltaTableResource",
    "GcsConfig",
    "LocalConfig",
    "MergeConfig",
    "MergeOperationsConfig",
    "MergeType",
    "OperationAllConfig",
    "OperationConfig",
    "OperationWithUpdatesConfig",
    "S3Config",
    "SchemaMode",
    "WhenMatchedDelete",
    "WhenMatchedUpdate",
    "WhenMatchedUpdateAll",
    "WhenNotMatchedBySourceDelete",
    "WhenNotMatchedBySourceUpdate",
    "WhenNotMatchedInsert",
    "WhenNotMatchedInsertAll",
    "WriteMode",
]

DELTA_DATETIME_FORMAT = "%Y-%m-%d %H:%M:%S"
DELTA_DATE_FORMAT = "%Y-%m-%d"

BaseDeltaLakeIOManager = DeltaLakeIOManager


class WriteMode(StrEnum):
    """How an output treats existing rows; `create_or_replace` is rejected on use."""

    error = "error"
    append = "append"
    overwrite = "overwrite"
    ignore = "ignore"
    merge = "merge"
    create_or_replace = "create_or_replace"


class SchemaMode(StrEnum):
    """How an output treats existing columns."""

    overwrite = "overwrite"
    merge = "merge"
