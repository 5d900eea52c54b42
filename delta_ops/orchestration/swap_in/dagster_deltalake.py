"""The names of the package dagster-deltalake."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from delta_ops.orchestration.swap_in.delta_forks import (
    DeltaLakeIOManager,
    DeltaLakePyarrowIOManager,
    TypesOfForks,
)
from delta_ops.orchestration.swap_in.storage_configs import (
    AzureConfig,
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
    "ClientConfig",
    "DeltaLakeIOManager",
    "DeltaLakePyArrowTypeHandler",
    "DeltaLakePyarrowIOManager",
    "DeltaTableResource",
    "DeltalakeBaseArrowTypeHandler",
    "GcsConfig",
    "LocalConfig",
    "S3Config",
    "WriteMode",
    "WriterEngine",
]

DELTA_DATETIME_FORMAT = "%Y-%m-%d %H:%M:%S"
DELTA_DATE_FORMAT = "%Y-%m-%d"


class WriteMode(StrEnum):
    """How an output treats existing rows."""

    error = "error"
    append = "append"
    overwrite = "overwrite"
    ignore = "ignore"


class WriterEngine(StrEnum):
    """Writers of deltalake. delta_ops has one writer, and accepts both names."""

    pyarrow = "pyarrow"
    rust = "rust"


DeltalakeBaseArrowTypeHandler = TypesOfForks


class DeltaLakePyArrowTypeHandler(TypesOfForks[Any]):
    """A type handler for `type_handlers()`."""
