"""DeltaMaintenanceComponent: jobs, sensor and schedules that maintain tables by policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from delta_ops.components.attributes import (
    AttributeRefusedError,
    PlacedAttributes,
    StorageOptions,
    naming,
    validate_address,
    validate_name,
    validate_options,
)
from delta_ops.components.lake import DeltaLakeComponent
from delta_ops.components.maintenance_policies import PolicyAttributes, policies_from
from delta_ops.components.scaffolding import MaintenanceScaffolder
from delta_ops.components.table import DeltaTableComponent
from delta_ops.orchestration.checks.check_results import HEALTH
from delta_ops.orchestration.dagster_versions import PROJECT_ROOT, build_defs_at, component_spec
from delta_ops.orchestration.definitions import (
    CheckKind,
    DeltaAsset,
    delta_ops_definitions,
    tables_of,
)
from delta_ops.orchestration.resources import DeltaLogResource
from delta_ops.orchestration.tables import TableRef

_text = dg.Resolver.default


@dg.scaffold_with(MaintenanceScaffolder)
class DeltaMaintenanceComponent(dg.Component, PlacedAttributes):
    """Maintains Delta tables: jobs, sensors, schedules and asset checks, by policies.

    This is `delta_ops_definitions` in YAML. The project defines the tables' assets elsewhere.
    """

    root: Annotated[
        str,
        Field(
            description=(
                "Root of the tables: an asset's table is at root/key. A URI, or an absolute local "
                "path."
            ),
            examples=["s3://lake", f"{PROJECT_ROOT}/lake"],
        ),
    ]
    storage_options: StorageOptions = Field(default={})
    tables: Annotated[
        list[str],
        _text(description="Keys of assets.", examples=[["sales/orders", "sales/returns"]]),
    ] = Field(default=[])
    assets_from: Annotated[
        list[str],
        _text(
            description=(
                "Folders and files below the project's definitions, whose assets are maintained."
            ),
            examples=[["sales", "assets.py"]],
        ),
    ] = Field(default=[])
    policies: Annotated[
        list[PolicyAttributes],
        _text(
            description=(
                "Maintenance of the tables; by default, the due operations run every night."
            ),
            examples=[[{"tables": "sales/*", "cron": "0 22 * * *"}]],
        ),
    ] = Field(default=[])
    name: Annotated[
        str, _text(description="Prefix of the names of jobs, sensors and schedules.")
    ] = "delta"
    with_checks: Annotated[
        bool | list[CheckKind],
        _text(
            description="Asset checks of each table: true for the check health, false for none, or "
            "a list of kinds: health, measures, columns, row_count.",
            examples=[["health", "columns"]],
        ),
    ] = True
    switched_on: Annotated[
        bool,
        _text(
            description=(
                "Whether sensors and schedules start with the code location, or only when "
                "somebody turns "
                "them on."
            )
        ),
    ] = False

    def model_post_init(self, _context: Any) -> None:
        """Reject invalid attributes, while their place in the file is known.

        Raises:
            AttributeRefusedError: The root is relative, a secret is in plain text, a name or a
                policy is invalid, or there are no tables.
        """
        validate_address("root", self.root)
        validate_options(self.storage_options)
        validate_name("name", self.name)
        policies_from(self.policies)
        if not self.tables and not self.assets_from:
            reason = (
                "there is no table to maintain; give asset keys here, or folders in assets_from"
            )
            raise AttributeRefusedError("tables", reason)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Describe the component for `dg list components`."""
        return component_spec(
            "Maintenance of Delta tables by policies: jobs, sensors, checks.",
            tags=["delta", "lakehouse", "maintenance"],
            produces=["job", "sensor", "schedule", "asset_check", "resource"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the maintenance of the tables, without the tables' assets."""
        lake = DeltaLogResource(root=self.root, storage_options=self.storage_options)
        assets: list[DeltaAsset] = list(self._assets(context))
        with naming("tables", str(context.path)):
            assets = [*tables_of(lake, assets)]
        with naming("policies", str(context.path)):
            defs = delta_ops_definitions(
                lake,
                assets,
                policies_from(self.policies),
                name=self.name,
                resource_key=f"{self.name}_log",
                with_checks=self.with_checks,
                switched_on=self.switched_on,
            )
        return self._drop_second_checks(defs, tables_of(lake, assets), context)

    def _drop_second_checks(
        self, defs: dg.Definitions, tables: Sequence[TableRef], context: dg.ComponentLoadContext
    ) -> dg.Definitions:
        """Drop the check `health` of each table that gets this check from another component.

        Raises:
            AttributeRefusedError: A check definition has `health` of such a table and other checks,
                so it cannot be dropped.
        """
        tree = context.component_tree
        watched = {each.asset.key for each in tree.get_all_components(DeltaTableComponent)}
        lakes = tree.get_all_components(DeltaLakeComponent)
        watched |= {t.asset_key for t in tables if any(lake.may_have(t.uri) for lake in lakes)}
        second = {dg.AssetCheckKey(key, HEALTH) for key in watched}
        kept = []
        for each in defs.asset_checks or ():
            keys = set(each.check_keys)
            if keys - second and keys & second:
                key = (keys & second).pop().asset_key.to_user_string()
                reason = f"{key} has the check health from another component; leave health out here"
                raise AttributeRefusedError("with_checks", reason, str(context.path))
            if keys - second:
                kept.append(each)
        return dg.Definitions(
            jobs=defs.jobs,
            schedules=defs.schedules,
            sensors=defs.sensors,
            asset_checks=kept,
            resources=defs.resources,
        )

    def _assets(self, context: dg.ComponentLoadContext) -> Iterator[DeltaAsset]:
        for key in self.tables:
            yield dg.AssetSpec(dg.AssetKey.from_user_string(key))
        for place in self.assets_from:
            for asset in self._definitions_of(place, context).assets or ():
                if isinstance(asset, DeltaAsset):
                    yield asset

    def _definitions_of(self, place: str, context: dg.ComponentLoadContext) -> dg.Definitions:
        folder = context.defs_module_path
        if ".." in Path(place).parts or not (folder / place).exists():
            raise AttributeRefusedError(
                "assets_from",
                f"there is no {place!r} below {folder}; give a folder or file of definitions",
                str(context.path),
            )
        return build_defs_at(context, place)
