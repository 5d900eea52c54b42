"""Scaffolding: writes the first `defs.yaml` of a component, for `dg scaffold defs`.

Writes only the required attributes; `docs/components.md` and `dg list components` describe all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from delta_ops.components.attributes import validate_options
from delta_ops.orchestration.dagster_versions import PROJECT_ROOT
from delta_ops.storage.paths import split_uri


class TableParams(BaseModel):
    """Flags of `dg scaffold defs` for a table."""

    uri: str = Field(description="Location of the table: a URI, or a path relative to here.")
    key: str | None = Field(default=None, description="Asset key; by default the folder's name.")
    storage_options: dict[str, Any] | None = Field(default=None, description="For fsspec.")


class LakeParams(BaseModel):
    """Flags of `dg scaffold defs` for the tables below a prefix."""

    root: str = Field(description="Location of the tables: a URI, or a path relative to here.")
    key_prefix: str | None = Field(default=None, description="Prefix of the asset keys.")
    storage_options: dict[str, Any] | None = Field(default=None, description="For fsspec.")


class MaintenanceParams(BaseModel):
    """Flags of `dg scaffold defs` for maintenance."""

    root: str = Field(description="Location of the tables: a URI, or a path relative to here.")
    tables: list[str] = Field(description="Asset keys of the tables, such as sales/orders.")
    storage_options: dict[str, Any] | None = Field(default=None, description="For fsspec.")


class TableScaffolder(dg.Scaffolder[TableParams]):
    """Writes the component of a table."""

    @classmethod
    def get_scaffold_params(cls) -> type[TableParams]:
        """The flags."""
        return TableParams

    def scaffold(self, request: dg.ScaffoldRequest[TableParams]) -> None:
        """Write the file."""
        params = request.params
        key = params.key or params.uri.rstrip("/").rpartition("/")[2]
        attributes = {"uri": _portable_address(params.uri, request.project_root)}
        _write(request, {**attributes, "asset": {"key": key}})


class LakeScaffolder(dg.Scaffolder[LakeParams]):
    """Writes the component of the tables below a prefix."""

    @classmethod
    def get_scaffold_params(cls) -> type[LakeParams]:
        """The flags."""
        return LakeParams

    def scaffold(self, request: dg.ScaffoldRequest[LakeParams]) -> None:
        """Write the file."""
        params = request.params
        attributes: dict[str, Any] = {"root": _portable_address(params.root, request.project_root)}
        if params.key_prefix is not None:
            attributes["key_prefix"] = params.key_prefix
        _write(request, attributes)


class MaintenanceScaffolder(dg.Scaffolder[MaintenanceParams]):
    """Scaffolds `DeltaMaintenanceComponent`."""

    @classmethod
    def get_scaffold_params(cls) -> type[MaintenanceParams]:
        """The flags."""
        return MaintenanceParams

    def scaffold(self, request: dg.ScaffoldRequest[MaintenanceParams]) -> None:
        """Write the file."""
        params = request.params
        attributes: dict[str, Any] = {"root": _portable_address(params.root, request.project_root)}
        _write(request, {**attributes, "tables": params.tables, "policies": [{"tables": "*"}]})


def _write(request: dg.ScaffoldRequest[Any], attributes: dict[str, Any]) -> None:
    options = request.params.storage_options
    if options:
        validate_options(options)
        attributes = {**attributes, "storage_options": options}
    dg.scaffold_component(request, attributes)


def _portable_address(address: str, project_root: Path | None) -> str:
    """Make a local path valid in every process of the project, wherever the project lies."""
    scheme, path = split_uri(address)
    if scheme or path.startswith("{{"):
        return address
    place = Path(os.path.expanduser(path)).absolute()
    root = None if project_root is None else project_root.absolute()
    if root is None or Path(path).is_absolute() or not place.is_relative_to(root):
        return str(place)
    return f"{PROJECT_ROOT}/{place.relative_to(root).as_posix()}"
