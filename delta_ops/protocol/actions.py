"""Actions: the contents of a commit's lines and a checkpoint's rows.

Source: PROTOCOL.md, "Actions". Field names are the JSON names in snake_case. `json.codec` reads and
writes the JSON form, `arrow_schemas` the Parquet form. Values only.

A table may have millions of file actions. They are therefore msgspec structs, created in a tenth of
the time of dataclasses. The garbage collector skips them: they hold texts and numbers, and cannot
be part of a cycle. The functions of `dataclasses` accept them as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from typing import Any, TypeVar

import msgspec

_S = TypeVar("_S", bound=type[msgspec.Struct])


def _take_as_dataclass(struct: _S) -> _S:
    """Make `dataclasses.replace`, `fields` and `asdict` accept a struct's values."""
    members = [
        (each.name, each.type, field() if each.required else field(default=each.default))
        for each in msgspec.structs.fields(struct)
    ]
    twin = make_dataclass(struct.__name__, members, frozen=True, kw_only=True)
    struct.__dataclass_fields__ = twin.__dataclass_fields__  # type: ignore[attr-defined]
    return struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The file format of data files. Only Parquet without options is supported."""

    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Schema, partitioning and properties of the table from this version on.

    Source: PROTOCOL.md, "Change Metadata".
    """

    id: str
    """A UUID that never changes."""
    schema_string: str
    """The schema as JSON; `schema.schema_from_json` parses it."""
    partition_columns: tuple[str, ...] = ()
    """Logical names."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    format: Format = field(default_factory=Format)
    created_time: int | None = None
    """Milliseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Requirements for clients that read or write the table.

    Source: PROTOCOL.md, "Protocol Evolution".
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    """None below reader version 3."""
    writer_features: tuple[str, ...] | None = None
    """None below writer version 7."""

    def requires_same(self, other: Protocol) -> bool:
        """Whether another protocol requires the same versions and features.

        The order of the features does not matter: some writers repeat a table's protocol with its
        features in another order.
        """
        return (
            self.min_reader_version == other.min_reader_version
            and self.min_writer_version == other.min_writer_version
            and {*(self.reader_features or ())} == {*(other.reader_features or ())}
            and {*(self.writer_features or ())} == {*(other.writer_features or ())}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """Location of the deleted rows of a file.

    Source: PROTOCOL.md, "Deletion Vectors".
    """

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None
    max_row_index: int | None = None

    @property
    def unique_id(self) -> str:
        """An id that distinguishes the vectors of one file.

        Source: PROTOCOL.md, "Derived Fields".
        """
        where = f"{self.storage_type}{self.path_or_inline_dv}"
        return where if self.offset is None else f"{where}@{self.offset}"


@_take_as_dataclass
class AddFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A data file that belongs to the table from this version on.

    Source: PROTOCOL.md, "Add File and Remove File".
    """

    path: str
    """URI-encoded; relative to the table root unless it has a scheme."""
    size: int
    """Bytes."""
    partition_values: Mapping[str, str | None]
    """Serialized strings by physical column name; None is null."""
    modification_time: int
    """Milliseconds since the Unix epoch."""
    data_change: bool = True
    """False if the commit only rearranges existing rows, as compaction does."""
    stats: str | None = None
    """Statistics as JSON; see `stats`."""
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None


@_take_as_dataclass
class RemoveFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A data file that no longer belongs to the table; kept as a tombstone until it expires.

    Source: PROTOCOL.md, "Add File and Remove File".
    """

    path: str
    """Exactly as in the add that it cancels: some engines compare the encoded text."""
    deletion_timestamp: int | None = None
    """Milliseconds since the Unix epoch; None counts as long expired."""
    data_change: bool = True
    extended_file_metadata: bool | None = None
    """True: `partition_values`, `size` and `tags` are present."""
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCdcFile:
    """A file of row changes for the change data feed; its rows are not in the table.

    Source: PROTOCOL.md, "Add CDC File".
    """

    path: str
    size: int
    partition_values: Mapping[str, str | None]
    tags: Mapping[str, str | None] | None = None
    data_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction:
    """An application's progress in writing to the table.

    Source: PROTOCOL.md, "Transaction Identifiers".
    """

    app_id: str
    version: int
    last_updated: int | None = None
    """Milliseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """Configuration of one domain; checkpoints omit a removed domain.

    Source: PROTOCOL.md, "Domain Metadata".
    """

    domain: str
    configuration: str
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """Provenance of a commit; arbitrary JSON, so it is kept unchanged.

    Source: PROTOCOL.md, "Commit Provenance Information".
    """

    values: Mapping[str, Any]
    """By JSON name: `timestamp`, `operation`, `operationParameters`, `txnId`, ..."""

    @property
    def txn_id(self) -> str | None:
        """The UUID that lets a writer recognize its own commit."""
        value = self.values.get("txnId")
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A file with some of the file actions of a V2 checkpoint.

    Source: PROTOCOL.md, "Sidecar File Information".
    """

    path: str
    """The file's name in the sidecar directory; URI-encoded."""
    size_in_bytes: int
    modification_time: int = 0
    """Milliseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata:
    """The version that a V2 checkpoint records of itself.

    Source: PROTOCOL.md, "Checkpoint Metadata".
    """

    version: int


FileAction = AddFile | RemoveFile
OtherAction = Metadata | Protocol | AddCdcFile | SetTransaction | DomainMetadata | CommitInfo
Action = FileAction | OtherAction
