"""The IO managers of dagster-deltalake and its fork dagster-delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from delta_ops.orchestration.swap_in.io_manager import (
    RenamedIOManager,
    reject_type_handlers,
    reject_versions,
)
from delta_ops.orchestration.swap_in.merge_translations import OUR_MERGE, translate_merge_config
from delta_ops.orchestration.swap_in.translations import (
    Translations,
    reject,
    rename,
    translate_commit_properties,
    translate_schema_mode,
)

_SETTINGS: Translations = {
    # Settings of fields also count in metadata, where both packages ignore some of them.
    "mode": rename("delta/mode"),
    "schema_mode": translate_schema_mode,
    "custom_metadata": rename("delta/user_metadata"),
    "commit_properties": translate_commit_properties,
    "overwrite_schema": rename("delta/overwrite_schema"),
    "merge_config": translate_merge_config,
    "writer_engine": reject("delta_ops has a writer of its own; leave it out"),
    "parquet_read_options": reject(
        "delta_ops has a reader of its own; columns and partitions choose what it reads"
    ),
    "writer_properties": reject(
        "these are settings of another writer; the table property delta.parquet.compression.codec "
        "chooses the codec"
    ),
}


class TypesOfForks:
    """A type handler of these packages; delta_ops supports its types by itself."""


class DeltaLakeIOManager(RenamedIOManager):
    """Accepts the fields and metadata of both packages. Subclasses name the type of inputs."""

    output_translations: ClassVar[Translations] = {
        **_SETTINGS,
        "table_config": rename("delta/configuration"),
        "table_configuration": rename("delta/configuration"),
        "merge_predicate": rename("delta/merge_predicate"),
        "merge_operations_config": reject(OUR_MERGE),
    }
    input_translations: ClassVar[Translations] = {
        **reject_versions("table_version"),
        "predicate": rename("delta/predicate"),
    }
    field_translations: ClassVar[Translations] = {
        **_SETTINGS,
        "table_config": rename("delta/configuration"),
    }

    def __init__(self, **given: Any) -> None:
        reject_type_handlers(type(self).__name__, self.type_handlers(), TypesOfForks)
        super().__init__(**given)

    @staticmethod
    def type_handlers() -> Sequence[TypesOfForks]:
        """No further type handlers."""
        return []


class DeltaLakePyarrowIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are Arrow tables."""

    def __init__(self, **given: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**given)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        table: type = pa.Table
        return table


class DeltaLakePandasIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are pandas frames."""

    def __init__(self, **given: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**given)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        import pandas as pd

        frame: type = pd.DataFrame
        return frame


class DeltaLakePolarsIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are polars frames."""

    def __init__(self, **given: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**given)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        import polars as pl

        return pl.DataFrame
