"""Maintenance settings: what the config of a run of the maintenance jobs says.

The options of operations are fields of it, by `<operation>_<option>`; their defaults are those of
the policy that the job is of, so that the launchpad shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, create_model

from delta_ops.maintenance import Operation
from delta_ops.maintenance.operation import OperationEntry, Option
from delta_ops.maintenance.registry import OPERATIONS

MAINTENANCE_OP = "maintain_tables"
Options = Mapping[Operation, Mapping[str, Any]]


class MaintenanceSettings(dg.Config):
    """What a run of a maintenance job does, whichever operations there are."""

    tables: list[str] = Field(default=[], description="Asset keys, as a/b; all of them if empty.")
    operations: list[Any] = Field(
        default=[], description="Run these, due or not; if empty, those that are due."
    )
    keep_versions: dict[str, list[int]] = Field(
        default={},
        description="Versions that log clean-up keeps readable, however old, by asset key as a/b.",
    )
    dry_run: bool = Field(default=False, description="Say what would be done, and do nothing.")

    def chosen_operations(self) -> list[Operation]:
        """The operations to run, due or not; none: those that are due."""
        return [operation.value for operation in self.operations]

    def options(self, entry: OperationEntry[Any]) -> dict[str, Any]:
        """The options of an operation, by the names of its arguments."""
        values = {each.name: getattr(self, _field(entry, each)) for each in entry.options}
        return {n: v.value if isinstance(v, Enum) else v for n, v in values.items()}


def maintenance_config_class(
    entries: Sequence[OperationEntry[Any]], defaults: Options | None = None
) -> type[MaintenanceSettings]:
    """The config of a job that runs these operations; their options are fields of it.

    Args:
        defaults: Options that have other defaults than the operations' own.
    """
    names = _enum("OperationName", [entry.name for entry in entries])
    chosen = MaintenanceSettings.model_fields["operations"]
    fields: dict[str, Any] = {"operations": (GenericAlias(list, (names,)), chosen)}
    for entry in entries:
        given = (defaults or {}).get(entry.name, {})
        for option in entry.options:
            name = _field(entry, option)
            kind, default = option.kind, given.get(option.name, option.default)
            if option.choices:
                kind = _enum(f"{name.title().replace('_', '')}Name", option.choices)
                default = kind(default)
            fields[name] = (
                kind,
                Field(default=default, ge=option.at_least, description=option.description),
            )
    said = "What a run of a maintenance job does."
    return create_model("MaintenanceConfig", __base__=MaintenanceSettings, __doc__=said, **fields)


def _enum(name: str, values: Sequence[str]) -> Any:
    make: Any = Enum  # whose values mypy wants to read in the call
    return make(name, {value: value for value in values})


def _field(entry: OperationEntry[Any], option: Option) -> str:
    return f"{entry.name}_{option.name}"


if TYPE_CHECKING:
    MaintenanceConfig = MaintenanceSettings
else:
    MaintenanceConfig = maintenance_config_class(OPERATIONS)


def maintenance_config(tables: Sequence[str], **settings: Any) -> dict[str, Any]:
    """Run config of a maintenance job.

    Args:
        tables: Asset keys, as a/b; all of the job's if empty.
        settings: Fields of `MaintenanceConfig`.
    """
    return {"ops": {MAINTENANCE_OP: {"config": {"tables": list(tables), **settings}}}}
