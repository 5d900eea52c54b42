"""DeltaLakeComponent: the tables below a prefix, as assets.

The list of tables is state that `dg utils refresh-defs-state` refreshes. `dg dev` refreshes it
whenever it loads the location. Loading from state reads no store.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import Field

from delta_ops.components.asset_keys import asset_keys
from delta_ops.components.attributes import (
    AttributeRefusedError,
    naming,
    validate_address,
    validate_key,
    validate_options,
    validate_pattern,
)
from delta_ops.components.lake_state import (
    LakeTable,
    PathFilter,
    find_lake_tables,
    read_lake_state,
    table_address,
    write_lake_state,
)
from delta_ops.components.maintenance_policies import PolicyAttributes, policies_from
from delta_ops.components.scaffolding import LakeScaffolder
from delta_ops.components.watching import (
    WatchAttributes,
    build_watch_checks,
    build_watch_sensor,
    plain_name,
)
from delta_ops.orchestration.dagster_versions import PROJECT_ROOT, component_spec
from delta_ops.orchestration.definitions import delta_ops_definitions, maintenance_job_name
from delta_ops.orchestration.markdown import plain_text
from delta_ops.orchestration.policies.choice import assign_policies, drop_absent_tables
from delta_ops.orchestration.policies.policy import MaintenancePolicy
from delta_ops.orchestration.resources import DeltaLogResource
from delta_ops.orchestration.storage_options import resolve_options
from delta_ops.orchestration.tables import TableRef, external_table

logger = logging.getLogger(__name__)

_text = dg.Resolver.default


@dg.scaffold_with(LakeScaffolder)
class DeltaLakeComponent(dg.StateBackedComponent, WatchAttributes):
    """The Delta tables below a prefix, each as an asset.

    A sensor reports other writers' commits as events of the assets, and checks look at their logs.
    """

    root: Annotated[
        str,
        Field(
            description="Location of the tables: a URI, or an absolute local path.",
            examples=["s3://lake/silver", f"{PROJECT_ROOT}/lake"],
        ),
    ]
    include: Annotated[
        list[str],
        _text(
            description=(
                "Patterns of table paths below the root. * matches any text, including slashes."
            ),
            examples=[["sales/*", "*/customers"]],
        ),
    ] = Field(default=["*"])
    exclude: Annotated[
        list[str],
        _text(description="Patterns of table paths to leave out.", examples=[["scratch/*"]]),
    ] = Field(default=[])
    key_prefix: Annotated[
        str | None,
        _text(
            description=(
                "Prefix of the asset keys, with / between its parts; the table's path below "
                "the root "
                "follows."
            ),
            examples=["silver"],
        ),
    ] = None
    policies: Annotated[
        list[PolicyAttributes],
        _text(
            description="Maintenance of the tables; none: this component has no maintenance jobs.",
            examples=[[{"tables": "*", "operations": ["checkpoint", "vacuum"]}]],
        ),
    ] = Field(default=[])
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.local_filesystem()

    def model_post_init(self, context: Any) -> None:
        """Reject invalid attributes.

        Raises:
            AttributeRefusedError: The root is relative, a policy is invalid, or an
                attribute of `WatchAttributes` is.
        """
        validate_address("root", self.root)
        policies_from(self.policies)
        for attribute, patterns in (("include", self.include), ("exclude", self.exclude)):
            for number, pattern in enumerate(patterns):
                validate_pattern(f"{attribute}.{number}", pattern)
        if not self.include:
            raise AttributeRefusedError(
                "include", "no pattern, so no table matches; give a pattern, or leave include out"
            )
        if self._prefix:
            validate_key("key_prefix", self._prefix)
        super().model_post_init(context)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Describe the component for `dg list components`."""
        return component_spec(
            "The Delta tables below a prefix: assets, their commits, their health.",
            tags=["delta", "lakehouse", "external"],
            produces=["asset", "asset_check", "sensor", "job", "schedule"],
        )

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """The key of the state; each root and each selection of tables has its own state."""
        chosen = ""
        if self._filter != PathFilter():
            chosen = f"[{hashlib.sha256(repr(self._filter).encode()).hexdigest()[:8]}]"
        key = f"{type(self).__name__}[{self.root}]{chosen}"
        return DefsStateConfig.from_args(self.defs_state, default_key=key)

    def write_state_to_path(self, state_path: Path) -> None:
        """Find the tables and write the state.

        Raises:
            DeltaOpsError: As for `find_lake_tables`.
        """
        options = resolve_options(validate_options(self.storage_options))
        write_lake_state(state_path, find_lake_tables(self.root, options, self._filter))

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None
    ) -> dg.Definitions:
        """Build assets, sensors, checks and jobs for the tables in the state."""
        if state_path is None:
            logger.warning(
                "%s has no state yet, so no table is an asset; create the state with: dg utils "
                "refresh-defs-state",
                self.defs_state_config.key,
            )
            return dg.Definitions()
        found = read_lake_state(state_path)
        if not found:
            return dg.Definitions()
        tables = self._table_refs(found)
        name = self.name or plain_name("_".join(self._prefix) or self._folder)
        policies = self._policies_of(tables)
        with naming("policies", str(context.path)):
            assigned = assign_policies(tables, policies)
        watch = build_watch_checks(
            assigned,
            name=name,
            cron=self.check_cron,
            switched_on=self.switched_on,
            jobs={
                table.name: maintenance_job_name(name, each.policy)
                for each in assigned
                for table in each.tables
                if policies
            },
        )
        assets = dg.Definitions(assets=list(map(self.get_asset_spec, tables, found)))
        if not policies:
            sensor = build_watch_sensor(tables, name=name, switched_on=self.switched_on)
            return dg.Definitions.merge(assets, watch, dg.Definitions(sensors=[sensor]))
        kept = delta_ops_definitions(
            DeltaLogResource(root=self.root, storage_options=self.storage_options),
            tables,
            policies,
            name=name,
            resource_key=f"{name}_log",
            with_checks=False,
            switched_on=self.switched_on,
        )
        return dg.Definitions.merge(assets, watch, kept)

    def get_asset_spec(self, ref: TableRef, table: LakeTable) -> dg.AssetSpec:
        """Build the asset of a table; override it for other groups or owners.

        `post_processing` in YAML does the same for a selection of tables.
        """
        described = None if table.description is None else plain_text(table.description)
        spec = external_table(ref, description=described)
        if table.columns is None:
            return spec
        return spec.merge_attributes(metadata={"dagster/column_schema": table.columns})

    def may_have(self, uri: str) -> bool:
        """Whether a table at this address belongs to the component, if the table exists."""
        root = self.root.rstrip("/")
        return uri == root or (
            uri.startswith(f"{root}/") and self._filter.takes(uri.removeprefix(f"{root}/"))
        )

    def _table_refs(self, found: Sequence[LakeTable]) -> list[TableRef]:
        options = validate_options(self.storage_options)
        paths = [table.path or self._folder for table in found]
        keys = asset_keys(paths, self._prefix)
        return [
            TableRef(
                asset_key=keys[path],
                uri=table_address(self.root, table.path),
                storage_options=options,
            )
            for path, table in zip(paths, found, strict=True)
        ]

    def _policies_of(self, tables: Sequence[TableRef]) -> list[MaintenancePolicy]:
        """The policies without missing tables; logs a warning for each missing table."""
        policies, absent = drop_absent_tables(policies_from(self.policies), tables)
        for name in absent:
            logger.warning("%s: a policy names %r, which is not a table", self.root, name)
        return policies

    @property
    def _folder(self) -> str:
        """The last part of the root."""
        return self.root.rstrip("/").rpartition("/")[2]

    @property
    def _prefix(self) -> list[str]:
        return self.key_prefix.split("/") if self.key_prefix else []

    @property
    def _filter(self) -> PathFilter:
        return PathFilter(include=tuple(self.include), exclude=tuple(self.exclude))
