"""RenamedIOManager: `DeltaIOManager` with the setting names of another integration.

The table of an asset is `<root>/<schema>/<name>`. The schema comes from the asset's metadata, else
from the IO manager, else it is the last part of the asset's prefix, else `public`. The name is
`root_name` of the metadata, else the last part of the asset's key. Both come from the asset's
definition, which also decides where the asset is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import dagster as dg
import pyarrow as pa
from pydantic import Field

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.io_manager.output_report import WrittenOutput
from delta_ops.orchestration.swap_in.storage_configs import (
    ClientConfig,
    StorageConfig,
    config_of_provider,
)
from delta_ops.orchestration.swap_in.translations import Translations, translate
from delta_ops.orchestration.tables import table_parts

_T = TypeVar("_T")


class RenamedIOManager(DeltaIOManager):
    """A `DeltaIOManager` that also accepts the setting names of another integration."""

    schema_name: str | None = Field(
        default=None, description="Folder of the tables, for assets without a folder of their own."
    )

    output_translations: ClassVar[Translations] = {}
    """Metadata of outputs and of assets' definitions."""
    input_translations: ClassVar[Translations] = {}
    """Metadata of inputs, apart from `columns`."""
    field_translations: ClassVar[Translations] = {}
    """Settings that are fields of the IO manager."""
    table_keys: ClassVar[Sequence[str]] = ("schema", "root_name")
    """Metadata of assets' definitions that name a table."""
    defaults: ClassVar[Mapping[str, Any]] = {"delta/mode": "overwrite", "delta/read": "latest"}
    """Assets of other integrations may have merge settings without a mode, and their inputs are
    read at the latest version."""
    their_words: ClassVar[Mapping[str, str]] = {}
    """Names of the other integration for ours, in messages."""
    their_hooks: ClassVar[Sequence[str]] = ()
    """Methods that the other integration calls, and delta_ops does not."""
    root_field: ClassVar[str] = "root_uri"
    schema_field: ClassVar[str] = "schema"

    def __init_subclass__(cls, **options: Any) -> None:
        """Reject a subclass whose methods nothing would call.

        Raises:
            InvalidRequestError: The subclass overrides a method of the other integration.
        """
        super().__init_subclass__(**options)
        hooks = getattr(super(cls, cls), "their_hooks", ())
        overridden = [name for name in hooks if name in vars(cls)]
        if overridden:
            raise InvalidRequestError(
                f"class {cls.__name__} overrides {', '.join(overridden)}, which delta_ops does not "
                "call; change rows in the asset, name tables in table_name, add metadata in "
                "event_metadata, or add a type with register_type_handler"
            )

    def __init__(self, **config: Any) -> None:
        super().__init__(**self._our_fields(config))

    def default_metadata(self) -> Mapping[str, Any]:
        """The default settings of outputs and inputs; their own metadata override them."""
        return {**self.defaults, **self.metadata}

    @classmethod
    def configure_at_launch(cls, **config: Any) -> Any:
        """The IO manager with further fields from the config of a run."""
        return super().configure_at_launch(**cls._our_fields(config))

    @classmethod
    def _our_fields(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Translate the fields to fields of `DeltaIOManager` and `schema_name`."""
        config = {name: value for name, value in config.items() if value is not None}
        cls._validate_names(config)
        fields = {
            name: value for name, value in config.items() if name not in cls.field_translations
        }
        renamed = {cls.root_field: "root", cls.schema_field: "schema_name"}
        for theirs, ours in renamed.items():
            if theirs in fields and ours in fields:
                raise InvalidRequestError(f"{cls.__name__} has both {theirs} and {ours}; give one")
            if theirs in fields:
                fields[ours] = fields.pop(theirs)
        options = config_of_provider(fields.get("storage_options"))
        if isinstance(options, StorageConfig):
            fields["storage_options"] = options.storage_options(fields.get("root"))
        client_options = fields.pop("client_options", None)
        if isinstance(client_options, Mapping):
            client_options = ClientConfig(**client_options)
        if client_options is not None and not isinstance(client_options, ClientConfig):
            raise InvalidRequestError(
                f"client_options are of type {type(client_options).__name__}; give a ClientConfig"
            )
        if client_options is not None:
            try:
                client_options.storage_options(None)
            except InvalidRequestError as error:
                raise InvalidRequestError(f"client_options: {error}") from error
        settings = {name: config[name] for name in cls.field_translations if name in config}
        if settings:
            place = f"the fields of {cls.__name__}"
            given_metadata = {**settings, **fields.get("metadata", {})}
            fields["metadata"] = translate(given_metadata, place, cls.field_translations)
        return fields

    @classmethod
    def _validate_names(cls, config: Mapping[str, Any]) -> None:
        """Reject unknown fields, and list the fields by the names of the other integration.

        Raises:
            InvalidRequestError: A field is unknown.
        """
        theirs = {"root": cls.root_field, "schema_name": cls.schema_field}
        ours = [theirs.get(name, name) for name in cls.model_fields]
        known = dict.fromkeys([*ours, *cls.field_translations, "client_options"])
        for name in config:
            if name not in known and name not in cls.model_fields:
                raise InvalidRequestError(
                    f"{cls.__name__} has no field {name}; its fields are {', '.join(known)}. "
                    "Settings of outputs belong in metadata"
                )

    def table_name(self, asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> Sequence[str]:
        """The folders of the table below the root."""
        named = table_parts(asset_key, metadata)
        return named or table_folders(asset_key, metadata, self.schema_name)

    def read_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Metadata with the keys of `DeltaIOManager`."""
        return translate(metadata, place, self.output_translations)

    @spoken_on(Surface.ASSET)
    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the output. Only the asset's definition may name the table."""
        metadata = context.output_metadata if context.has_asset_key else {}
        named = [
            name for name in self.table_keys if isinstance(_plain_value(metadata.get(name)), str)
        ]
        if named:
            raise InvalidRequestError(
                f"the Output of asset {context.asset_key.to_user_string()} has the metadata "
                f"{' and '.join(named)}, but readers find the table by the metadata of the asset's "
                "definition; set them there. Nothing was written"
            )
        self.rephrase_errors(lambda: super(RenamedIOManager, self).handle_output(context, obj))

    @spoken_on(Surface.ASSET)
    def load_input(self, context: dg.InputContext) -> Any:
        """Read the upstream."""
        return self.rephrase_errors(lambda: super(RenamedIOManager, self).load_input(context))

    def rephrase_errors(self, call: Callable[[], _T]) -> _T:
        """Call a function; an error names settings as the other integration does.

        Raises:
            InvalidRequestError: The function raises one.
        """
        try:
            return call()
        except InvalidRequestError as error:
            text = str(error)
            for ours, theirs in self.their_words.items():
                text = text.replace(ours, theirs)
            if type(error) is not InvalidRequestError or text == str(error):
                raise
            raise InvalidRequestError(text) from error

    def read_input_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Metadata of an input with the keys of `DeltaIOManager`."""
        return translate(metadata, place, self.input_translations)


def table_folders(
    asset_key: dg.AssetKey, metadata: Mapping[str, Any], schema: str | None
) -> Sequence[str]:
    """The schema and the name of an asset's table.

    Args:
        metadata: Metadata of the asset's definition.
        schema: The schema of the IO manager.

    Raises:
        InvalidRequestError: The schema or the name in the metadata is not a string.
    """
    *prefix, name = asset_key.path
    folder = _text("schema", asset_key, metadata) or schema or (prefix[-1] if prefix else "public")
    return folder, _text("root_name", asset_key, metadata) or name


def _text(name: str, asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> str | None:
    value = _plain_value(metadata.get(name))
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequestError(
        f"the metadata of asset {asset_key.to_user_string()} have the {name} {value!r}, of type "
        f"{type(value).__name__}; give a string"
    )


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, dg.MetadataValue) else value


def translate_version(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of the version of an input, a number or its text."""
    text = str(value)
    if not text.isdecimal():
        raise InvalidRequestError(
            f"{where} {value!r}; give the number of a version of the table. Nothing was read"
        )
    return {"delta/read": int(text)}


def reject_type_handlers(io_manager: str, handlers: Iterable[object], known: type) -> None:
    """Reject type handlers of other packages.

    Raises:
        InvalidRequestError: A handler is not of the `known` class.
    """
    for handler in handlers:
        if not isinstance(handler, known):
            raise InvalidRequestError(
                f"{io_manager}.type_handlers() has a {type(handler).__name__}, which is not a "
                "handler of delta_ops; write a TypeHandler and call register_type_handler with it"
            )


def num_rows_of(output: WrittenOutput) -> int | None:
    """The number of rows that the asset returned; None if unknown, as for a RecordBatchReader."""
    rows = output.rows
    return len(rows) if isinstance(rows, pa.Table | pa.RecordBatch) else None
