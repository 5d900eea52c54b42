"""The names of the package dagster-delta."""

from __future__ import annotations

from enum import StrEnum

from delta_ops.orchestration.swap_in.absent_names import (
    NO_BACKOFF,
    TABLE_RESOURCE,
    explain_absence,
)
from delta_ops.orchestration.swap_in.delta_forks import (
    DeltaLakeIOManager,
    DeltaLakePolarsIOManager,
    DeltaLakePyarrowIOManager,
)
from delta_ops.orchestration.swap_in.merge_translations import OUR_MERGE, MergeConfig, MergeType
from delta_ops.orchestration.swap_in.storage_configs import (
    AzureConfig,
    ClientConfig,
    GcsConfig,
    LocalConfig,
    S3Config,
)

__all__ = [
    "AzureConfig",
    "BaseDeltaLakeIOManager",
    "ClientConfig",
    "DeltaLakePolarsIOManager",
    "DeltaLakePyarrowIOManager",
    "GcsConfig",
    "LocalConfig",
    "MergeConfig",
    "MergeType",
    "S3Config",
    "SchemaMode",
    "WriteMode",
]

__getattr__ = explain_absence(
    __name__,
    {
        "BackoffConfig": NO_BACKOFF,
        "DeltaTableResource": TABLE_RESOURCE,
        "MergeOperationsConfig": OUR_MERGE,
    },
)


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
