"""The names of the package dagster-polars for Delta tables.

The table of an asset is `<base_dir>/<asset key>.delta`. The asset's partitions are rows of this
table, so an asset with partitions needs `partition_by`: a column, or a mapping of dimensions to
columns. A new table is also partitioned by these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.swap_in.io_manager import RenamedIOManager, reject_versions
from delta_ops.orchestration.swap_in.merge_translations import (
    translate_merge_options,
    unite_merge_flags,
)
from delta_ops.orchestration.swap_in.translations import (
    Translations,
    ignore_setting,
    reject,
    rename,
    translate,
    translate_schema_mode,
)

__all__ = ["DeltaWriteMode", "PolarsDeltaIOManager"]

_NO_SAMPLE = "a materialization shows no sample of rows; leave it out"
_OWN_READER = "delta_ops has a reader of its own; columns and partitions choose what it reads"


class DeltaWriteMode(StrEnum):
    """How an output treats existing rows."""

    error = "error"
    append = "append"
    overwrite = "overwrite"
    ignore = "ignore"
    merge = "merge"


def _translate_partition_by(value: Any, where: str) -> Mapping[str, Any]:
    match value:
        case str():
            return {"partition_expr": value, "delta/partition_by": [value]}
        case Mapping() if all(isinstance(each, str) for each in value.values()):
            return {"partition_expr": value, "delta/partition_by": list(value.values())}
    raise InvalidRequestError(
        f"{where} {value!r}; give a column, or a mapping of dimensions to such"
    )


_WRITE_OPTIONS: Translations = {
    "schema_mode": translate_schema_mode,
    "configuration": rename("delta/configuration"),
}


def _translate_write_options(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or set(value) - set(_WRITE_OPTIONS):
        raise InvalidRequestError(
            f"{where}, of which only {' and '.join(_WRITE_OPTIONS)} are known here; delta_ops has "
            "a writer of its own. Nothing was written"
        )
    return translate(value, where, _WRITE_OPTIONS)


class PolarsDeltaIOManager(RenamedIOManager):
    """Stores polars frames; an input without an annotation is a polars frame."""

    output_translations: ClassVar[Translations] = {
        "mode": rename("delta/mode"),
        "partition_by": _translate_partition_by,
        "delta_write_options": _translate_write_options,
        "delta_merge_options": translate_merge_options,
        "overwrite_schema": rename("delta/overwrite_schema"),
        "n_rows": reject(_NO_SAMPLE),
        "fraction": reject(_NO_SAMPLE),
        "descriptions": reject("a column's description is its comment in the table; leave it out"),
        "streaming": reject("a lazy frame is collected as a whole; collect it in the asset"),
    }
    input_translations: ClassVar[Translations] = {
        **reject_versions("version"),
        "pyarrow_options": reject(_OWN_READER, outcome="Nothing was read"),
        "delta_table_options": reject(_OWN_READER, outcome="Nothing was read"),
        # A partition without rows is not missing.
        "allow_missing_partitions": ignore_setting,
    }
    field_translations: ClassVar[Translations] = {
        "mode": rename("delta/mode"),
        "overwrite_schema": rename("delta/overwrite_schema"),
        **reject_versions("version"),
        "extension": reject("the folders of the tables end in .delta", unless=(".delta",)),
    }
    table_keys: ClassVar[Sequence[str]] = ()
    root_field: ClassVar[str] = "base_dir"
    schema_field: ClassVar[str] = ""

    def __init__(self, **given: Any) -> None:
        if "cloud_storage_options" in given:
            given["storage_options"] = given.pop("cloud_storage_options")
        super().__init__(**given)

    def table_name(
        self,
        asset_key: dg.AssetKey,
        metadata: Mapping[str, Any],  # noqa: ARG002 - the key says it all
    ) -> Sequence[str]:
        """The asset key; the last part gets the extension .delta."""
        *prefix, name = asset_key.path
        return [*prefix, f"{name}.delta"]

    def read_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Translate metadata to the keys of `DeltaIOManager`."""
        return super().read_metadata(unite_merge_flags(metadata, place), place)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs without an annotation."""
        import polars as pl

        return pl.DataFrame
