"""Resources: the tables under one root, for assets, the IO manager, jobs, sensors and checks.

Spark sessions come from dagster-pyspark's `LazyPySparkResource`, so no JVM starts before rows are
read or written.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.orchestration.dagster_versions import run_of_resource
from delta_ops.orchestration.storage_options import (
    config_options,
    resolve_options,
    resolve_text,
    validate_root,
)
from delta_ops.orchestration.tables import TableName, TableRef
from delta_ops.orchestration.tags import reject_reproduction
from delta_ops.protocol.change_data import CHANGE_DATA_DIRECTORY
from delta_ops.storage import Lock, RangeCache
from delta_ops.storage.paths import OWN_DIRECTORY, is_valid
from delta_ops.transaction import Transaction, begin

_FOLDERS_OF_TABLES = frozenset({LOG_DIRECTORY, CHANGE_DATA_DIRECTORY, OWN_DIRECTORY})
"""Folders inside a table; no other table can be there."""


def table_log(
    root: str,
    storage_options: Mapping[str, Any],
    table: TableName,
    *,
    lock: Lock | None = None,
    cache: RangeCache | None = None,
) -> DeltaLog:
    """The log of a table; the parts of its name or asset key are folders under root."""
    uri = _table_uri(root, table)
    return DeltaLog(uri, resolve_options(storage_options), lock=lock, cache=cache)


def range_cache(directory: str | None, max_bytes: int) -> RangeCache | None:
    """The cache in a directory; None without a directory."""
    return None if directory is None else RangeCache(directory, max_bytes)


STORAGE_OPTIONS = (
    "Options of fsspec's file system, which Spark uses too. Secrets, at any depth, come from the "
    'environment: dg.EnvVar("NAME"), or in YAML {env: NAME}; a literal secret is rejected.'
)


def lake_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the storage options in a resource's fields to config.

    Raises:
        InvalidRequestError: A secret is in plain text in root or storage_options.
    """
    validate_root(config.get("root"))
    if "storage_options" not in config:
        return dict(config)
    return {**config, "storage_options": config_options(config["storage_options"])}


def validate_fields(resource: type[Any], config: Mapping[str, Any]) -> None:
    """Reject unknown fields, because pydantic ignores some of them.

    Raises:
        InvalidRequestError: A field is unknown; the error lists the known fields.
    """
    for name in config:
        if name not in resource.model_fields:
            raise InvalidRequestError(
                f"{resource.__name__} has no field {name}; its fields are "
                f"{', '.join(resource.model_fields)}. Settings of outputs belong in metadata"
            )


def validate_place(config: Mapping[str, Any], *, needs_root: bool = True) -> None:
    """Reject fields of an IO manager that name no location, or two locations.

    Raises:
        InvalidRequestError: Neither root nor lake is set, or lake is set together with a field that
            it replaces.
    """
    if needs_root and config.get("lake") is None and config.get("root") is None:
        raise InvalidRequestError(
            "DeltaIOManager has no location for its tables; give root, or lake with a "
            "DeltaLogResource"
        )
    of_lake = ("root", "storage_options", "cache_directory", "lock")
    twice = [name for name in of_lake if config.get(name)]
    if config.get("lake") is not None and twice:
        raise InvalidRequestError(
            f"DeltaIOManager has lake and {', '.join(twice)}; set {', '.join(twice)} only in the "
            "DeltaLogResource of lake"
        )


class DeltaLogResource(dg.ConfigurableResource[None]):
    """Snapshots and transactions of the tables under `root`.

    It also configures `DeltaIOManager(lake=...)`, and `table` returns a table for jobs, sensors and
    checks.

    Examples:
        >>> lake = DeltaLogResource(root="lake")
        >>> lake.snapshot("orders").version
        0
        >>> lake.table("orders").asset_key
        AssetKey(['orders'])
    """

    root: str = Field(description="Folder or URI that contains the tables of the assets.")
    storage_options: dict[str, Any] = Field(default={}, description=STORAGE_OPTIONS)
    cache_directory: str | None = Field(
        default=None,
        description="Local directory that caches data of checkpoints read from object stores.",
    )
    cache_max_bytes: int = Field(
        default=1 << 30, gt=0, description="Maximum disk space of the cache, in bytes."
    )
    lock: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="Lock to hold while a commit is created, for stores without exclusive create; "
        "a function, as for DeltaLog.",
    )

    _run_tags: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, **config: Any) -> None:
        validate_fields(type(self), config)
        super().__init__(**lake_config(config))

    @classmethod
    def configure_at_launch(cls, **config: Any) -> Any:
        """The resource with more fields from the run config, as in Dagster."""
        return super().configure_at_launch(**lake_config(config))

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember whether the run reproduces another run."""
        run = run_of_resource(context)
        self._run_tags = {} if run is None else run.tags

    def log(self, table: TableName) -> DeltaLog:
        """The table's handle.

        Raises:
            InvalidRequestError: The run reproduces another run. It is not recorded which versions a
                resource has read, and a handle could change main.
        """
        reject_reproduction(
            self._run_tags,
            "a table of DeltaLogResource, whose versions are not recorded, as those of inputs are,",
        )
        return self.open_log(table)

    def open_log(self, table: TableName) -> DeltaLog:
        """The table's handle in any run, for IO managers."""
        cache = range_cache(self.cache_directory, self.cache_max_bytes)
        return table_log(self.root, self.storage_options, table, lock=self.lock, cache=cache)

    def table(self, table: TableName) -> TableRef:
        """The table for jobs, sensors and checks; its name is the asset key.

        An environment variable as root is resolved here. Jobs and sensors resolve the variables in
        storage options.
        """
        return TableRef(
            asset_key=dg.AssetKey(_name_parts(table)),
            uri=_table_uri(self.root, table),
            storage_options=self.storage_options,
            lock=self.lock,
            cache=range_cache(self.cache_directory, self.cache_max_bytes),
        )

    def snapshot(
        self,
        table: TableName,
        version: int | None = None,
        timestamp: str | date | None = None,
    ) -> Snapshot:
        """The snapshot at a version or a time; by default the latest."""
        return self.log(table).snapshot(version, timestamp)

    def begin(self, table: TableName) -> Transaction:
        """Begin a transaction on the table's latest version."""
        return begin(self.log(table))


def _table_uri(root: str, table: TableName) -> str:
    return "/".join([resolve_text(root, "root").rstrip("/"), *_name_parts(table)])


def _name_parts(table: TableName) -> Sequence[str]:
    """The folders of a table below root.

    Raises:
        InvalidRequestError: The folders lie outside root, or inside a table.
    """
    match table:
        case str():
            parts: Sequence[str] = [table.rstrip("/")]
        case dg.AssetKey():
            parts = table.path
        case _:
            parts = table
    name = "/".join(parts)
    owned = [folder for folder in name.lower().split("/") if folder in _FOLDERS_OF_TABLES]
    if owned or "" in parts or not is_valid(name):
        problem = f"{owned[0]} is a folder inside a table" if owned else "it names no folder below"
        what = "asset key" if isinstance(table, dg.AssetKey) else "table name"
        raise InvalidRequestError(
            f"the {what} {list(parts)} has no table below root, because {problem}; give it parts "
            "that name folders, without '..'. Nothing was read or written"
        )
    return parts
