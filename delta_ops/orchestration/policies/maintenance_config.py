"""Maintenance config: the run config of the maintenance jobs.

It has a field `<operation>_<option>` for each option of an operation. The defaults come from the
policy of the job, so that the launchpad shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from delta_ops.maintenance import Operation
from delta_ops.maintenance.operation import OperationEntry, Option
from delta_ops.maintenance.registry import OPERATIONS
from delta_ops.orchestration.run_config import StrictConfig

MAINTENANCE_OP = "maintain_tables"
ALL = "*"
"""All tables of the job, in a config's `tables`."""
DUE = "due"
"""The operations that are due, in a config's `operations`."""
Options = Mapping[Operation, Mapping[str, Any]]


class MaintenanceSettings(StrictConfig):
    """Run config of a maintenance job, without the options of operations."""

    tables: list[str] = Field(
        default=[ALL],
        description='Asset keys of the tables, such as [sales/orders]. ["*"]: all tables of the '
        "job.",
    )
    operations: list[Any] = Field(
        default=[DUE],
        description="Operations to run, whether or not they are due, such as [vacuum]. [due]: the "
        "operations that are due.",
    )
    keep_versions: dict[str, list[int]] | None = Field(
        default=None,
        description="Versions that log cleanup keeps readable, by asset key, such as "
        "{sales/orders: [12]}. Not set: only the retention decides.",
    )
    dry_run: bool = Field(default=False, description="Only report what would be done.")

    @property
    def names_tables(self) -> bool:
        """Whether the config chooses tables; otherwise it means all tables of the job."""
        return bool(self.tables) and ALL not in self.tables

    @property
    def runs_due(self) -> bool:
        """Whether the due operations run."""
        return not self.operations or DUE in self._names()

    def chosen_operations(self) -> list[Operation]:
        """The operations to run, due or not."""
        return [name for name in self._names() if name != DUE]

    def _names(self) -> list[Any]:
        return [each.value if isinstance(each, Enum) else each for each in self.operations]

    def options(self, entry: OperationEntry[Any]) -> dict[str, Any]:
        """The options of an operation, by argument name."""
        values = {each.name: getattr(self, _field(entry, each)) for each in entry.options}
        return {n: v.value if isinstance(v, Enum) else v for n, v in values.items()}


def maintenance_config_class(
    entries: Sequence[OperationEntry[Any]], defaults: Options | None = None
) -> type[MaintenanceSettings]:
    """Make the config class of a job, with a field for each option of its operations.

    Args:
        defaults: Options whose defaults differ from the operation's defaults.
    """
    names = _enum("OperationName", [DUE, *(entry.name for entry in entries)])
    chosen = MaintenanceSettings.model_fields["operations"]
    fields: dict[str, Any] = {"operations": (GenericAlias(list, (names,)), chosen)}
    for entry in entries:
        chosen_defaults = (defaults or {}).get(entry.name, {})
        for option in entry.options:
            name = _field(entry, option)
            kind, default = option.kind, chosen_defaults.get(option.name, option.default)
            if option.choices:
                kind = _enum(f"{name.title().replace('_', '')}Name", option.choices)
                default = kind(default)
            fields[name] = (
                kind,
                Field(default=default, ge=option.at_least, description=option.description),
            )
    about = "The tables of a run, and what it does."
    return create_model("MaintenanceConfig", __base__=MaintenanceSettings, __doc__=about, **fields)


def _enum(name: str, values: Sequence[str]) -> Any:
    make: Any = Enum  # mypy requires literal values in a call of Enum
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
        tables: Asset keys, such as a/b; if empty, or `["*"]`, all tables of the job.
        settings: Fields of `MaintenanceConfig`.

    Examples:
        >>> maintenance_config(["orders"], operations=["vacuum"], vacuum_keep_last=10)
        {'ops': {'maintain_tables': {'config': {'tables': ['orders'], 'operations': ['vacuum'],
        'vacuum_keep_last': 10}}}}
    """
    return {"ops": {MAINTENANCE_OP: {"config": {"tables": list(tables), **settings}}}}
