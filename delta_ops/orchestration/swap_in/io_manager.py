"""RenamedIOManager: `DeltaIOManager` with the setting names of another integration.

The table of an asset is `<root>/<schema>/<name>`. The schema comes from the asset's metadata, else
from the IO manager, else it is the last part of the asset's prefix, else `public`. The name is
`root_name` of the metadata, else the last part of the asset's key. Both come from the asset's
definition, which also decides where the asset is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import dagster as dg
from pydantic import Field

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.swap_in.storage_configs import ClientConfig, StorageConfig
from delta_ops.orchestration.swap_in.translations import Translations, reject, translate


class RenamedIOManager(DeltaIOManager):
    """Stores assets as `DeltaIOManager` does, and also accepts its fields."""

    schema_name: str | None = Field(
        default=None, description="Folder of the tables whose assets name no other one."
    )

    output_translations: ClassVar[Translations] = {}
    """Metadata of outputs and of assets' definitions."""
    input_translations: ClassVar[Translations] = {}
    """Metadata of inputs, apart from `columns`."""
    field_translations: ClassVar[Translations] = {}
    """Settings that are fields of the IO manager."""
    table_keys: ClassVar[Sequence[str]] = ("schema", "root_name")
    """Metadata of assets' definitions that name a table."""
    root_field: ClassVar[str] = "root_uri"
    schema_field: ClassVar[str] = "schema"

    def __init__(self, **given: Any) -> None:
        fields = self._our_fields(given)
        # Assets of other integrations may have merge settings without a mode.
        metadata = {"delta/mode": "overwrite", **fields.pop("metadata", {})}
        super().__init__(**fields, metadata=metadata)

    @classmethod
    def configure_at_launch(cls, **given: Any) -> Any:
        """The IO manager with further fields from the config of a run."""
        return super().configure_at_launch(**cls._our_fields(given))

    @classmethod
    def _our_fields(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Translate the fields to fields of `DeltaIOManager` and `schema_name`."""
        fields = {
            name: value for name, value in given.items() if name not in cls.field_translations
        }
        renamed = {cls.root_field: "root", cls.schema_field: "schema_name"}
        for theirs, ours in renamed.items():
            if theirs in fields and ours in fields:
                raise InvalidRequestError(f"{cls.__name__} has both {theirs} and {ours}; give one")
            if theirs in fields:
                fields[ours] = fields.pop(theirs)
        if isinstance(fields.get("storage_options"), StorageConfig):
            fields["storage_options"] = fields["storage_options"].storage_options(
                fields.get("root")
            )
        client_options = fields.pop("client_options", None)
        if client_options is not None and not isinstance(client_options, ClientConfig):
            raise InvalidRequestError(
                f"client_options are of type {type(client_options).__name__}; give a ClientConfig"
            )
        settings = {name: given[name] for name in cls.field_translations if name in given}
        if settings:
            place = f"the fields of {cls.__name__}"
            given_metadata = {**settings, **fields.get("metadata", {})}
            fields["metadata"] = translate(given_metadata, place, cls.field_translations)
        return fields

    def table_name(self, asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> Sequence[str]:
        """The folders of the table below the root."""
        return table_folders(asset_key, metadata, self.schema_name)

    def read_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Metadata with the keys of `DeltaIOManager`."""
        return translate(metadata, place, self.output_translations)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the output. Only the asset's definition may name the table."""
        given = context.output_metadata
        named = [name for name in self.table_keys if isinstance(_plain_value(given.get(name)), str)]
        if named:
            raise InvalidRequestError(
                f"the Output of asset {context.asset_key.to_user_string()} has the metadata "
                f"{' and '.join(named)}, and whoever reads the asset goes by its definition; put "
                "them there. Nothing was written"
            )
        super().handle_output(context, obj)

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
        InvalidRequestError: The schema or the name in the metadata is not a text.
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
        f"{type(value).__name__}; give a text"
    )


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, dg.MetadataValue) else value


def reject_versions(name: str) -> Translations:
    """Translation that rejects a version of an input."""
    reason = (
        "an input is read at the version that Dagster records as its provenance; open another one "
        "with DeltaLogResource.snapshot(table, version)"
    )
    return {name: reject(reason, unless=(), outcome="Nothing was read")}


def reject_type_handlers(io_manager: str, handlers: Iterable[object], known: type) -> None:
    """Reject type handlers of other packages.

    Raises:
        InvalidRequestError: A handler is not of the `known` class.
    """
    for handler in handlers:
        if not isinstance(handler, known):
            raise InvalidRequestError(
                f"{io_manager}.type_handlers() has a {type(handler).__name__}, which is none of "
                "delta_ops; write a TypeHandler and call register_type_handler with it"
            )
