"""Components of Dagster: Delta tables and their maintenance, configured in YAML.

`dg` finds the components by the package's entry point; see `docs/components.md`.
"""

try:
    import dagster as _dagster  # noqa: F401
except ImportError as error:
    from delta_ops.errors import MissingDependencyError

    raise MissingDependencyError(
        "delta_ops.components needs the package dagster; install it with: "
        "pip install 'delta_ops[dagster]'"
    ) from error
else:
    from delta_ops.orchestration.dagster_versions import COMPONENTS, require_dagster

    require_dagster(COMPONENTS, "delta_ops.components")

from delta_ops.components.lake import DeltaLakeComponent
from delta_ops.components.maintenance import DeltaMaintenanceComponent
from delta_ops.components.table import DeltaTableComponent

__all__ = ["DeltaLakeComponent", "DeltaMaintenanceComponent", "DeltaTableComponent"]
