"""The names of the package dagster-deltalake-polars."""

from typing import Any

from delta_ops.orchestration.swap_in.delta_forks import DeltaLakePolarsIOManager, TypesOfForks

__all__ = ["DeltaLakePolarsIOManager", "DeltaLakePolarsTypeHandler"]


class DeltaLakePolarsTypeHandler(TypesOfForks[Any]):
    """A type handler for `type_handlers()`."""
