"""TableRef: a table by the asset that stands for it and the place where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from delta_ops.log import DeltaLog
from delta_ops.orchestration.storage_options import resolve_options
from delta_ops.storage import Lock, RangeCache
from delta_ops.storage.paths import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table that jobs and sensors look after."""

    asset_key: dg.AssetKey
    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What fsspec's file system takes; `dg.EnvVar`s in it, at any depth, are asked for by `log`."""
    lock: Lock | None = field(default=None, repr=False)
    """As `DeltaLog` takes it; so is `cache`."""
    cache: RangeCache | None = None

    @property
    def name(self) -> str:
        """The asset's key as users write it."""
        return self.asset_key.to_user_string()

    def log(self) -> DeltaLog:
        """The table's handle."""
        options = resolve_options(self.storage_options)
        return DeltaLog(self.uri, options, lock=self.lock, cache=self.cache)


def external_table(table: TableRef, *, description: str | None = None) -> dg.AssetSpec:
    """The asset of a table that others write; `build_commit_sensor` reports its commits."""
    return dg.AssetSpec(
        table.asset_key,
        description=description,
        kinds={"deltalake"},
        metadata={
            "dagster/uri": dg.MetadataValue.text(redact(table.uri)),
            "dagster/table_name": table.name,
            "dagster/storage_kind": "deltalake",
        },
    )
