"""RenamedIOManager: `DeltaIOManager` with other words, and tables in schemas.

The table of an asset is `<root>/<schema>/<name>`. The schema is that of the asset's metadata, else
the IO manager's, else the last part of the asset's prefix, else `public`; the name is `root_name`
of the metadata, else the last part of the asset's key. Both come from the asset's definition, by
which it is read, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import dagster as dg
from pydantic import Field

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.swap_in.storage_configs import ClientConfig, StorageConfig
from delta_ops.orchestration.swap_in.words import Words, read_words, refuse


class RenamedIOManager(DeltaIOManager):
    """Stores assets as `DeltaIOManager` does; takes its fields as well."""

    schema_name: str | None = Field(
        default=None, description="Folder of the tables whose assets name no other one."
    )

    output_words: ClassVar[Words] = {}
    """Metadata of outputs and of assets' definitions."""
    input_words: ClassVar[Words] = {}
    """Metadata of inputs, apart from `columns`."""
    field_words: ClassVar[Words] = {}
    """Settings that are fields of the IO manager."""
    table_words: ClassVar[Sequence[str]] = ("schema", "root_name")
    """Metadata of assets' definitions that name a table."""
    root_field: ClassVar[str] = "root_uri"
    schema_field: ClassVar[str] = "schema"

    def __init__(self, **given: Any) -> None:
        fields = self._our_fields(given)
        # Their assets may say how to merge beside a mode that somebody else names, or nobody.
        metadata = {"delta/mode": "overwrite", **fields.pop("metadata", {})}
        super().__init__(**fields, metadata=metadata)

    @classmethod
    def configure_at_launch(cls, **given: Any) -> Any:
        """The IO manager with further fields, in our words, from the config of a run."""
        return super().configure_at_launch(**cls._our_fields(given))

    @classmethod
    def _our_fields(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of `DeltaIOManager`, and `schema_name`; of those that are ours, each as it is."""
        fields = {name: value for name, value in given.items() if name not in cls.field_words}
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
        settings = {name: given[name] for name in cls.field_words if name in given}
        if settings:
            place = f"the fields of {cls.__name__}"
            given_metadata = {**settings, **fields.get("metadata", {})}
            fields["metadata"] = read_words(given_metadata, place, cls.field_words)
        return fields

    def table_name(self, asset_key: dg.AssetKey, metadata: Mapping[str, Any]) -> Sequence[str]:
        """The folders of the table below root; see above."""
        return table_folders(asset_key, metadata, self.schema_name)

    def read_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Metadata in the words of `DeltaIOManager`."""
        return read_words(metadata, place, self.output_words)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """See `DeltaIOManager`; the table is named by the asset's definition alone."""
        given = context.output_metadata
        named = [
            name for name in self.table_words if isinstance(_plain_value(given.get(name)), str)
        ]
        if named:
            raise InvalidRequestError(
                f"the Output of asset {context.asset_key.to_user_string()} has the metadata "
                f"{' and '.join(named)}, and whoever reads the asset goes by its definition; put "
                "them there. Nothing was written"
            )
        super().handle_output(context, obj)

    def read_input_metadata(self, metadata: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Metadata of an input in the words of `DeltaIOManager`."""
        return read_words(metadata, place, self.input_words)


def table_folders(
    asset_key: dg.AssetKey, metadata: Mapping[str, Any], schema: str | None
) -> Sequence[str]:
    """The schema and the name of an asset's table.

    Args:
        metadata: Metadata of the asset's definition.
        schema: The IO manager's.

    Raises:
        InvalidRequestError: The metadata have a schema or a name that is no text.
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


def refuse_versions(name: str) -> Words:
    """The word by which an input would be read at a version of the user's choice."""
    reason = (
        "an input is read at the version that Dagster records as its provenance; open another one "
        "with DeltaLogResource.snapshot(table, version)"
    )
    return {name: refuse(reason, unless=(), outcome="Nothing was read")}


def refuse_type_handlers(io_manager: str, handlers: Iterable[object], known: type) -> None:
    """Refuse type handlers that others have written.

    Raises:
        InvalidRequestError: There is one that is not of the class whose types are handled anyway.
    """
    for handler in handlers:
        if not isinstance(handler, known):
            raise InvalidRequestError(
                f"{io_manager}.type_handlers() has a {type(handler).__name__}, which is none of "
                "delta_ops; write a TypeHandler and call register_type_handler with it"
            )
