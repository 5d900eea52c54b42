"""The names of the package dagster-deltalake."""

from __future__ import annotations

from enum import StrEnum

from delta_ops.orchestration.swap_in.absent_names import TABLE_RESOURCE, explain_absence
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

__all__ = [
    "AzureConfig",
    "ClientConfig",
    "DeltaLakeIOManager",
    "DeltaLakePyArrowTypeHandler",
    "DeltaLakePyarrowIOManager",
    "GcsConfig",
    "LocalConfig",
    "S3Config",
    "WriteMode",
    "WriterEngine",
]

__getattr__ = explain_absence(__name__, {"DeltaTableResource": TABLE_RESOURCE})


class WriteMode(StrEnum):
    """How an output treats existing rows."""

    error = "error"
    append = "append"
    overwrite = "overwrite"
    ignore = "ignore"


class WriterEngine(StrEnum):
    """Writers of deltalake; delta_ops rejects them."""

    pyarrow = "pyarrow"
    rust = "rust"


class DeltaLakePyArrowTypeHandler(TypesOfForks):
    """A type handler for `type_handlers()`."""
