"""The metadata names of the package dagster-iceberg, for assets that move to Delta tables.

The assets stay unchanged. The IO manager has a root instead of a catalog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.swap_in.io_manager import RenamedIOManager
from delta_ops.orchestration.swap_in.merge_translations import (
    translate_iceberg_mode,
    translate_upsert_options,
)
from delta_ops.orchestration.swap_in.translations import Translations, ignore_setting, reject

__all__ = ["DeltaLakeIOManager", "UpsertOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertOptions:
    """The keys and clauses of an upsert."""

    join_cols: Sequence[str]
    when_matched_update_all: bool = True
    when_not_matched_insert_all: bool = True


def _translate_schema_update_mode(value: Any, where: str) -> Mapping[str, Any]:
    if value not in ("error", "update"):
        raise InvalidRequestError(f"{where} {value!r}; choose error or update")
    return {"delta/merge_schema": value == "update"}


class DeltaLakeIOManager(RenamedIOManager):
    """Stores assets that have dagster-iceberg's metadata as Delta tables."""

    output_translations: ClassVar[Translations] = {
        "write_mode": translate_iceberg_mode,
        "schema_update_mode": _translate_schema_update_mode,
        # The asset's partitions do not determine the table's layout, so the layout stays.
        "partition_spec_update_mode": ignore_setting,
        "partition_field_name_prefix": reject(
            "a Delta table is laid out by columns, not by partition fields; leave it out"
        ),
        "upsert_options": translate_upsert_options,
        "table_properties": reject(
            "these are Iceberg's; properties of a Delta table are given as delta/configuration"
        ),
    }
    their_words: ClassVar[Mapping[str, str]] = {
        "delta/merge_schema: True": 'schema_update_mode: "update"'
    }
    schema_field: ClassVar[str] = "namespace"

    def __init__(self, **config: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**config)
