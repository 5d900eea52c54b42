"""DeltaArrayIOManager: stores an `xarray.Dataset` as a Zarr group in a table.

A group is an asset, and a partition is a region along one dimension. `array_settings` has the
metadata of assets, `partition_labels` says which labels of the dimension belong to a partition, and
`array_writer` how a run commits.
"""

from typing import Any

import dagster as dg

from delta_ops.errors import MissingDependencyError
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.io_manager.output_settings import (
    validate_none_is_meant,
    validate_output_names_no_table,
)
from delta_ops.orchestration.shared_tables import validate_table_is_not_shared
from delta_ops.orchestration.tags import reject_reproduction


class DeltaArrayIOManager(DeltaIOManager):
    """Stores each asset, an `xarray.Dataset`, as the arrays of the table at `<root>/<asset key>`.

    Examples:
        >>> import numpy as np
        >>> import xarray
        >>> @dg.asset
        ... def grid() -> xarray.Dataset:
        ...     return xarray.Dataset({"height": (("y", "x"), np.ones((2, 3)))})
        >>> resources = {"io_manager": DeltaArrayIOManager(root="lake")}
        >>> dg.materialize([grid], resources=resources).success
        True
        >>> from delta_ops.arrays import DeltaStore
        >>> xarray.open_zarr(DeltaStore("lake/grid"), consolidated=False)["height"].shape
        (2, 3)
    """

    @spoken_on(Surface.ASSET)
    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the dataset, and report the table's new version to Dagster."""
        if not context.has_asset_key:
            self.handle_op_output(context, obj)
            return
        if obj is None:
            validate_none_is_meant(context)
            return
        _require_xarray()
        from delta_ops.orchestration.arrays.array_report import report_arrays
        from delta_ops.orchestration.arrays.array_settings import array_settings
        from delta_ops.orchestration.arrays.array_writer import ArrayWriter

        run = compat.dagster_run(context)
        reject_reproduction({} if run is None else run.tags, "writing arrays")
        settings = array_settings(context, self.default_metadata())
        log = self.log_of_asset(context.asset_key, context.definition_metadata)
        validate_output_names_no_table(context, log)
        validate_table_is_not_shared(context, log)
        written = ArrayWriter(context=context, settings=settings, log=log).write(obj)
        report_arrays(context, log, written)

    @spoken_on(Surface.ASSET)
    def load_input(self, context: dg.InputContext) -> Any:
        """Open the upstream at the version that Dagster records as provenance, if it exists."""
        context = compat.add_asset_key(context)
        if not context.has_asset_key:
            return self.load_op_output(context)
        _require_xarray()
        from delta_ops.orchestration.arrays.array_reader import ArrayReader

        upstream = context.upstream_output
        metadata = upstream.definition_metadata if upstream is not None else {}
        run = compat.run_of_input(context)
        reject_reproduction({} if run is None else run.tags, "reading arrays")
        log = self.log_of_asset(context.asset_key, metadata)
        return ArrayReader(reader=self.input_reader(context)).read(log)


def _require_xarray() -> None:
    """Require the packages of arrays.

    Raises:
        MissingDependencyError: One is not installed.
    """
    try:
        import xarray  # noqa: F401

        from delta_ops.arrays import DeltaStore  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "DeltaArrayIOManager needs the packages xarray and zarr; install them with: "
            "pip install 'delta_ops[zarr]' xarray"
        ) from error
