"""The IO managers of dagster-deltalake and its fork dagster-delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import dagster as dg
import pyarrow as pa
from pydantic import Field

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.input_versions import InputVersion
from delta_ops.orchestration.io_manager.op_values import load_op_value, store_op_value
from delta_ops.orchestration.io_manager.output_report import WrittenOutput
from delta_ops.orchestration.io_manager.output_settings import OutputSettings
from delta_ops.orchestration.swap_in.io_manager import (
    RenamedIOManager,
    num_rows_of,
    reject_type_handlers,
    translate_version,
)
from delta_ops.orchestration.swap_in.merge_translations import (
    translate_merge_config,
    translate_merge_operations,
)
from delta_ops.orchestration.swap_in.op_tables import OpTable, op_table_name, validate_is_rows
from delta_ops.orchestration.swap_in.translations import (
    WORDS_OF_SCHEMA_MODE,
    Translations,
    ignore_with_warning,
    rename,
    translate_commit_properties,
    translate_custom_metadata,
    translate_schema_mode,
    translate_writer_properties,
)
from delta_ops.storage.paths import redact


def _translate_engine(value: Any, where: str) -> Mapping[str, Any]:
    if value not in ("pyarrow", "rust"):
        raise InvalidRequestError(f"{where} {value!r}; choose pyarrow or rust")
    return {}  # both write the same rows, as our writer does


_SETTINGS: Translations = {
    # Settings of fields also count in metadata, where both packages ignore some of them.
    "mode": rename("delta/mode"),
    "schema_mode": translate_schema_mode,
    "custom_metadata": translate_custom_metadata,
    "commit_properties": translate_commit_properties,
    "overwrite_schema": rename("delta/overwrite_schema"),
    "merge_config": translate_merge_config,
    "writer_engine": _translate_engine,
    "parquet_read_options": ignore_with_warning(
        "delta_ops has its own reader; columns and partitions choose what it reads"
    ),
    "writer_properties": translate_writer_properties,
}


_T = TypeVar("_T")
_HANDLER_METHODS = ("from_arrow", "to_arrow", "supported_types", "handle_output", "load_input")


class TypesOfForks(Generic[_T]):
    """A type handler of these packages; delta_ops supports its types by itself."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Reject a subclass whose methods nothing would call.

        Raises:
            InvalidRequestError: The subclass converts rows by itself.
        """
        super().__init_subclass__(**options)
        overridden = [name for name in _HANDLER_METHODS if name in vars(cls)]
        if overridden:
            raise InvalidRequestError(
                f"class {cls.__name__} overrides {', '.join(overridden)}, which delta_ops does not "
                "call; write a TypeHandler and call register_type_handler with it"
            )


class DeltaLakeIOManager(RenamedIOManager):
    """Accepts the fields and metadata of both packages. Subclasses name the type of inputs."""

    output_translations: ClassVar[Translations] = {
        **_SETTINGS,
        "table_config": rename("delta/configuration"),
        "table_configuration": rename("delta/configuration"),
        "merge_predicate": rename("delta/merge_predicate"),
        "merge_operations_config": translate_merge_operations,
    }
    their_words: ClassVar[Mapping[str, str]] = WORDS_OF_SCHEMA_MODE
    their_hooks: ClassVar[Sequence[str]] = ("create_io_manager",)
    input_translations: ClassVar[Translations] = {
        "table_version": translate_version,
        "predicate": rename("delta/predicate"),
    }
    field_translations: ClassVar[Translations] = {
        **_SETTINGS,
        "table_config": rename("delta/configuration"),
    }

    op_outputs: Literal["pickle", "error"] = Field(
        default="error",
        description="Outputs of ops that have no rows. pickle: store them in the storage of the "
        "Dagster instance. error: reject them.",
    )
    # The names of fields in the config of a run; `_our_fields` translates them.
    root_uri: str | None = Field(default=None, description="Folder or URI of the tables.")
    schema_: str | None = Field(default=None, alias="schema", description="Folder of the tables.")
    mode: str | None = Field(default=None, description="How outputs treat existing rows.")
    schema_mode: str | None = Field(default=None, description="How outputs change columns.")
    overwrite_schema: bool | None = Field(
        default=None, description="Same as schema_mode overwrite."
    )
    writer_engine: str | None = Field(default=None, description="pyarrow or rust.")
    table_config: dict[str, str] | None = Field(
        default=None, description="Properties of new tables."
    )
    custom_metadata: dict[str, str] | None = Field(
        default=None, description="Strings to record in each commit."
    )
    writer_properties: dict[str, Any] | None = Field(
        default=None, description="Only the compression of new tables has an effect."
    )
    commit_properties: dict[str, Any] | None = Field(
        default=None, description="Only custom_metadata has an effect."
    )

    def __init__(self, **config: Any) -> None:
        reject_type_handlers(type(self).__name__, self.type_handlers(), TypesOfForks)
        super().__init__(**config)

    @staticmethod
    def type_handlers() -> Sequence[TypesOfForks[Any]]:
        """No further type handlers."""
        return []

    def settings_of(self, context: dg.OutputContext) -> OutputSettings:
        """The settings of an output; a new table is partitioned by the columns of its asset."""
        return replace(super().settings_of(context), partitions_new_table=True)

    def handle_op_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Store the output of an op as a table, if it names one, or else by pickle.

        Raises:
            NoHandlerError: The value has no rows, and `op_outputs` is "error".
        """
        if self.op_outputs == "error":
            validate_is_rows(obj)
        name = op_table_name(context, obj, self.schema_name)
        if name is None:
            store_op_value(context, obj)
            return
        table = self.write_output(context, self.log(name), obj, self.settings_of(context))
        assert table is not None  # rows were written, or the mode is "ignore" and there is a table
        if compat.instance_of(context) is not None:
            store_op_value(context, OpTable(name, table.version))

    def load_op_output(self, context: dg.InputContext) -> Any:
        """Load the value of an op: the version of a table that the op has written.

        The input may name another version.
        """
        value = load_op_value(context)
        if not isinstance(value, OpTable):
            return value
        log, reader = self.log(value.name), self.input_reader(context)
        chosen = reader.settings.read
        snapshot = log.snapshot(chosen if isinstance(chosen, int) else value.version)
        version = InputVersion(snapshot=snapshot, latest_version=value.version)
        return reader.value(log, version)

    def event_metadata(
        self, context: dg.OutputContext, table: Snapshot, output: WrittenOutput
    ) -> dict[str, Any]:
        """The metadata of an output with the names of dagster-delta and dagster-deltalake."""
        numbers = {"num_rows_in_source": num_rows_of(output)}
        return {
            **super().event_metadata(context, table, output),
            "table_uri": dg.MetadataValue.path(redact(table.uri)),
            "table_version": table.version,
            **{name: number for name, number in numbers.items() if number is not None},
        }


class DeltaLakePyarrowIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are Arrow tables."""

    def __init__(self, **config: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**config)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        table: type = pa.Table
        return table


class DeltaLakePandasIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are pandas frames. A new table gets an unnamed index."""

    defaults: ClassVar[Mapping[str, Any]] = {**RenamedIOManager.defaults, "delta/keep_index": True}

    def __init__(self, **config: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**config)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        import pandas as pd

        frame: type = pd.DataFrame
        return frame


class DeltaLakePolarsIOManager(DeltaLakeIOManager):
    """Inputs without an annotation are polars frames."""

    def __init__(self, **config: Any) -> None:  # without it, type checkers accept only fields
        super().__init__(**config)

    @staticmethod
    def default_load_type() -> type | None:
        """The class of inputs that have no annotation."""
        import polars as pl

        return pl.DataFrame
