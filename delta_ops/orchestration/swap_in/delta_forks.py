"""What dagster-deltalake and its fork dagster-delta have in common: the names and settings of IO
managers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from delta_ops.orchestration.swap_in.io_manager import (
    RenamedIOManager,
    refuse_type_handlers,
    refuse_versions,
)
from delta_ops.orchestration.swap_in.merge_words import OUR_MERGE, read_merge_config
from delta_ops.orchestration.swap_in.words import (
    Words,
    read_commit_properties,
    read_schema_mode,
    refuse,
    rename,
)

_SETTINGS: Words = {
    # Those of fields count in metadata, too, where both packages would pass over some.
    "mode": rename("delta/mode"),
    "schema_mode": read_schema_mode,
    "custom_metadata": rename("delta/user_metadata"),
    "commit_properties": read_commit_properties,
    "overwrite_schema": rename("delta/overwrite_schema"),
    "merge_config": read_merge_config,
    "writer_engine": refuse("delta_ops has a writer of its own; leave it out"),
    "parquet_read_options": refuse(
        "delta_ops has a reader of its own; columns and partitions choose what it reads"
    ),
    "writer_properties": refuse(
        "these are settings of another writer; the table property delta.parquet.compression.codec "
        "chooses the codec"
    ),
}


class TypesOfForks:
    """Stands for a type handler of theirs; its types are handled anyway."""


class DeltaLakeIOManager(RenamedIOManager):
    """Takes the fields and metadata of both; for subclasses that name types."""

    output_words: ClassVar[Words] = {
        **_SETTINGS,
        "table_config": rename("delta/configuration"),
        "table_configuration": rename("delta/configuration"),
        "merge_predicate": rename("delta/merge_predicate"),
        "merge_operations_config": refuse(OUR_MERGE),
    }
    input_words: ClassVar[Words] = {
        **refuse_versions("table_version"),
        "predicate": rename("delta/predicate"),
    }
    field_words: ClassVar[Words] = {
        **_SETTINGS,
        "table_config": rename("delta/configuration"),
    }

    def __init__(self, **given: Any) -> None:
        refuse_type_handlers(type(self).__name__, self.type_handlers(), TypesOfForks)
        super().__init__(**given)

    @staticmethod
    def type_handlers() -> Sequence[TypesOfForks]:
        """No more types than are handled anyway."""
        return []


class DeltaLakePyarrowIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are Arrow tables."""

    def __init__(self, **given: Any) -> None:  # or type checkers expect fields alone
        super().__init__(**given)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        table: type = pa.Table
        return table


class DeltaLakePandasIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are pandas frames."""

    def __init__(self, **given: Any) -> None:  # or type checkers expect fields alone
        super().__init__(**given)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        import pandas as pd

        frame: type = pd.DataFrame
        return frame


class DeltaLakePolarsIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are polars frames."""

    def __init__(self, **given: Any) -> None:  # or type checkers expect fields alone
        super().__init__(**given)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        import polars as pl

        return pl.DataFrame
