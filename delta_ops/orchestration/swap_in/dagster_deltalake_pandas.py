"""The names of the package dagster-deltalake-pandas."""

from delta_ops.orchestration.swap_in.delta_forks import DeltaLakePandasIOManager, TypesOfForks

__all__ = ["DeltaLakePandasIOManager", "DeltaLakePandasTypeHandler"]


class DeltaLakePandasTypeHandler(TypesOfForks):
    """A type handler for `type_handlers()`."""
