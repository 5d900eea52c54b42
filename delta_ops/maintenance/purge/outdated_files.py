"""Files stored otherwise than the table's are written: by their footers, which are read for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from delta_ops.errors import DataFileError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.maintenance.data_footers import read_data_footer
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.parquet_ranges import stored_schema

_CODEC_PROPERTY = "delta.parquet.compression.codec"
LEAST_ROW_GROUP_BYTES = 64 << 20
"""Engines write row groups of up to so many bytes, unless a row is larger."""
_VARIANT = {"metadata", "value", "typed_value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Otherwise:
    """What of a file's footer is a reason to write its rows again."""

    old_schema: bool = False
    """Columns that the table does not have, has beside these, or has with another type."""
    other_codec: bool = False
    """Compression that is not the table's."""
    max_row_group_bytes: int | None = None
    """Row groups of more bytes than this, without compression."""

    @property
    def needs_footers(self) -> bool:
        """Whether there is any."""
        return self.old_schema or self.other_codec or self.max_row_group_bytes is not None


def validate_otherwise(reasons: Otherwise, snapshot: Snapshot) -> None:
    """Refuse reasons that would be there again after a rewrite.

    Raises:
        InvalidRequestError: The table does not say how it is compressed, or row groups would have
            to be smaller than engines make them.
    """
    if reasons.other_codec and _CODEC_PROPERTY not in snapshot.metadata.configuration:
        raise InvalidRequestError(
            f"{snapshot.uri} leaves the compression of files to whoever writes them; set "
            f"{_CODEC_PROPERTY} first"
        )
    most = reasons.max_row_group_bytes
    if most is not None and most < LEAST_ROW_GROUP_BYTES:
        raise InvalidRequestError(
            f"max_row_group_bytes must be at least {LEAST_ROW_GROUP_BYTES}, since row groups of "
            f"that size are written, not {most}"
        )


def files_stored_otherwise(
    snapshot: Snapshot, files: Sequence[AddFile], reasons: Otherwise
) -> set[str]:
    """Paths of the files that have one of the reasons.

    Raises:
        DataFileError: A file is gone or cannot be read.
    """
    is_otherwise = _judge(snapshot, reasons)
    answers = run_parallel(partial(_is_otherwise, snapshot, is_otherwise), files)
    return {add.path for add, answer in zip(files, answers, strict=True) if answer}


def _is_otherwise(
    snapshot: Snapshot, is_otherwise: Callable[[pq.FileMetaData], bool], add: AddFile
) -> bool:
    footer = read_data_footer(snapshot, add)
    path = canonical_path(add.path, snapshot.uri)
    if isinstance(footer, str):
        raise DataFileError(
            snapshot.uri, snapshot.version, path, f"has no footer to read: {footer}"
        )
    try:
        return is_otherwise(footer)
    except ValueError as error:
        reason = f"cannot be read ({error}); restore it from a backup"
        raise DataFileError(snapshot.uri, snapshot.version, path, reason) from error


def _judge(snapshot: Snapshot, reasons: Otherwise) -> Callable[[pq.FileMetaData], bool]:
    definition = snapshot.definition
    codec = str(definition.properties.compression_codec).removesuffix("_raw")
    most = reasons.max_row_group_bytes
    if reasons.old_schema:
        expected = _columns(arrow_schema_from_schema(definition.file_schema))
        tracked = row_columns(definition, snapshot.uri) or ()
        # Files may have these, whatever the table asks for.
        passed_over = {*tracked, *definition.partition_names.values()}

    def is_otherwise(footer: pq.FileMetaData) -> bool:
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        if most is not None and any(group.total_byte_size > most for group in groups):
            return True
        if reasons.other_codec and any(
            _codec(group.column(number).compression) != codec
            for group in groups
            for number in range(group.num_columns)
        ):
            return True
        if not reasons.old_schema:
            return False
        stored = _columns(stored_schema(footer))
        differing = stored ^ expected
        return any(name not in passed_over for name, _ in differing)

    return is_otherwise


def _codec(name: str) -> str:
    return name.lower().removesuffix("_raw")


def _columns(schema: pa.Schema) -> set[tuple[str, object]]:
    return {(field.name, _shape(field.type)) for field in schema}


def _shape(kind: pa.DataType) -> object:
    """A type as far as the table says it: engines name elements and nullability otherwise."""
    if pt.is_struct(kind):
        names = {field.name for field in kind}
        if {"metadata", "value"} <= names <= _VARIANT:
            return "variant"  # shredded as the rows of each file are
        return frozenset((field.name, _shape(field.type)) for field in kind)
    if pt.is_map(kind):
        return "map", _shape(kind.key_type), _shape(kind.item_type)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return "list", _shape(kind.value_type)
    if pt.is_large_string(kind):
        return str(pa.string())
    if pt.is_large_binary(kind):
        return str(pa.binary())
    return str(kind)
