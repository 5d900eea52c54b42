"""DeltaTableResource: a table at a URL, with the reading methods of deltalake's DeltaTable."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from delta_ops.arrow import to_table
from delta_ops.arrow.read.scan import schema_of_reading
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration.io_manager.frames import pandas_of_table
from delta_ops.orchestration.resources import validate_fields
from delta_ops.orchestration.storage_options import resolve_options
from delta_ops.orchestration.swap_in.storage_configs import ClientConfig, StorageConfig


class LoadedTable:
    """A version of a table, with the read methods of deltalake's DeltaTable."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def version(self) -> int:
        """The version of the table."""
        return self.snapshot.version

    def schema(self) -> pa.Schema:
        """The columns, as an Arrow schema."""
        return schema_of_reading(self.snapshot)

    def to_pyarrow_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows."""
        return to_table(self.snapshot, columns)

    def to_pyarrow_dataset(self) -> Any:
        """The rows as a dataset in memory."""
        import pyarrow.dataset

        return pyarrow.dataset.dataset(self.to_pyarrow_table())

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """The rows as a pandas frame."""
        return pandas_of_table(self.to_pyarrow_table(columns))


class DeltaTableResource(dg.ConfigurableResource[None]):
    """A table at a URL."""

    url: str = Field(description="Path or URI of the table.")
    storage_options: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="LocalConfig, S3Config, AzureConfig, GcsConfig or options of fsspec.",
    )
    client_options: dg.ResourceDependency[Any] = Field(
        default=None,  # type: ignore[arg-type]
        description="ClientConfig.",
    )
    version: int | None = Field(default=None, description="Version to load; the latest if None.")

    def __init__(self, **config: Any) -> None:  # without it, type checkers accept only fields
        """Check the names of the fields.

        Raises:
            InvalidRequestError: A field is unknown; the error lists the known fields.
        """
        validate_fields(type(self), config)
        super().__init__(**config)

    def load(self) -> LoadedTable:
        """Load the table at `version`.

        Raises:
            InvalidRequestError: An option of the store is not supported.
        """
        if isinstance(self.client_options, ClientConfig):
            self.client_options.storage_options(self.url)
        options = self.storage_options
        if isinstance(options, StorageConfig):
            options = options.storage_options(self.url)
        log = DeltaLog(self.url, resolve_options(options or {}))
        return LoadedTable(log.snapshot(self.version))
