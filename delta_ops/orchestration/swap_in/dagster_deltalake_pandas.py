"""The names of the package dagster-deltalake-pandas."""

from typing import Any

from delta_ops.orchestration.swap_in.delta_forks import DeltaLakePandasIOManager, TypesOfForks

__all__ = ["DeltaLakePandasIOManager", "DeltaLakePandasTypeHandler"]


class DeltaLakePandasTypeHandler(TypesOfForks[Any]):
    """A type handler for `type_handlers()`."""
