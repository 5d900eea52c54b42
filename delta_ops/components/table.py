"""DeltaTableComponent: an asset for a table of other writers."""

from __future__ import annotations

from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from delta_ops.components.attributes import (
    naming,
    validate_address,
    validate_key,
    validate_options,
)
from delta_ops.components.scaffolding import TableScaffolder
from delta_ops.components.watching import (
    WatchAttributes,
    build_watch_checks,
    build_watch_sensor,
    plain_name,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.dagster_versions import PROJECT_ROOT, component_spec
from delta_ops.orchestration.io_manager.output_settings import (
    read_expressions,
    validate_no_partitions,
)
from delta_ops.orchestration.io_manager.setting_values import first_setting, validate_keys
from delta_ops.orchestration.policies.choice import PolicyTables
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.tables import TableRef, external_table, uri_elsewhere


@dg.scaffold_with(TableScaffolder)
class DeltaTableComponent(dg.Component, WatchAttributes):
    """A Delta table that another program or code location writes, as an asset.

    A sensor reports its commits as events of the asset, and a check looks at its log. Loading the
    location reads nothing of the table.
    """

    uri: Annotated[
        str,
        Field(
            description="Location of the table: a URI, or an absolute local path.",
            examples=["s3://lake/sales/orders", f"{PROJECT_ROOT}/lake/orders"],
        ),
    ]
    asset: Annotated[dg.ResolvedAssetSpec, Field(description="The asset: its key, owners, ...")]

    def model_post_init(self, context: Any) -> None:
        """Reject invalid attributes.

        Raises:
            AttributeRefusedError: The address is relative, Dagster cannot name the key, or an
                attribute of `WatchAttributes` is invalid.
        """
        validate_address("uri", self.uri)
        validate_key("asset.key", self.asset.key.path)
        with naming("asset.metadata"):
            self._validate_metadata()
        super().model_post_init(context)

    def _validate_metadata(self) -> None:
        """Reject metadata of the asset that contradicts the component or has no effect."""
        place, metadata = "the metadata of the asset", self.asset.metadata
        validate_keys(place, metadata, ("partition_expr",), outcome="Nothing was loaded")
        read_expressions(first_setting("partition_expr", [(place, metadata)]))
        if self.asset.partitions_def is None:
            validate_no_partitions(place, metadata)
        if uri_elsewhere(self.asset.key, metadata, self.uri) is not None:
            raise InvalidRequestError(
                "dagster/uri differs from the attribute uri; leave dagster/uri out"
            )

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Describe the component for `dg list components`."""
        return component_spec(
            "A Delta table that others write: an asset, its commits, its health.",
            tags=["delta", "lakehouse", "external"],
            produces=["asset", "asset_check", "sensor", "job", "schedule"],
        )

    @property
    def table(self) -> TableRef:
        """The reference to the table, for sensors and checks."""
        options = validate_options(self.storage_options)
        return TableRef(asset_key=self.asset.key, uri=self.uri, storage_options=options)

    def get_asset_spec(self) -> dg.AssetSpec:
        """Build the asset; its own attributes override the defaults for tables."""
        external = external_table(self.table)
        metadata = {**external.metadata, **self.asset.metadata}
        return self.asset.merge_attributes(kinds=external.kinds, metadata=metadata)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002
        """Build the asset, its sensor and its check."""
        name = self.name or plain_name(self.table.name)
        checked = [PolicyTables(MaintenancePolicy(), (self.table,))]
        return dg.Definitions.merge(
            dg.Definitions(
                assets=[self.get_asset_spec()],
                sensors=[build_watch_sensor([self.table], name=name, switched_on=self.switched_on)],
            ),
            build_watch_checks(
                checked, name=name, cron=self.check_cron, switched_on=self.switched_on
            ),
        )
