"""The names of the package dagster-deltalake-pandas."""

from delta_ops.orchestration.swap_in.delta_forks import DeltaLakePandasIOManager, TypesOfForks

__all__ = ["DeltaLakePandasIOManager", "DeltaLakePandasTypeHandler"]


class DeltaLakePandasTypeHandler(TypesOfForks):
    """For `type_handlers()`."""
