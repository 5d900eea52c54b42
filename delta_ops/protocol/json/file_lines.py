"""Lines of commits: encodes add and remove actions.

Source: PROTOCOL.md, "Add File and Remove File". A commit may have hundreds of thousands of file
actions: msgspec encodes them in a tenth of the time of the standard library. Fields are in the
reference's order; fields that are None are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from delta_ops.protocol.actions import AddFile, DeletionVector, RemoveFile


def encode_lines(lines: Iterable[AddFile | RemoveFile | bytes]) -> bytes:
    """Encode actions as JSON lines with newlines; bytes are an already encoded line.

    Raises `ValueError` or `TypeError` if a value has no JSON form.
    """
    return _ENCODER.encode_lines([_body(line) for line in lines])  # a list: other iterables leak


_ENCODER = msgspec.json.Encoder(enc_hook=dict)  # for mappings that are not dicts
_Mapping = Mapping[str, str | None]


class _Vector(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int
    cardinality: int
    max_row_index: int | None = None


class _Add(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    path: str
    partition_values: _Mapping
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: _Mapping | None = None
    deletion_vector: _Vector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None


class _Remove(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    path: str
    deletion_timestamp: int | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: _Mapping | None = None
    size: int | None = None
    stats: str | None = None
    tags: _Mapping | None = None
    deletion_vector: _Vector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


def _body(line: AddFile | RemoveFile | bytes) -> object:
    if isinstance(line, RemoveFile):
        return _remove(line)
    return _add(line) if isinstance(line, AddFile) else msgspec.Raw(line)


def _add(action: AddFile) -> dict[str, _Add]:
    return {
        "add": _Add(
            path=action.path,
            partition_values=action.partition_values,
            size=action.size,
            modification_time=action.modification_time,
            data_change=action.data_change,
            stats=action.stats,
            tags=action.tags,
            deletion_vector=_vector(action.deletion_vector),
            base_row_id=action.base_row_id,
            default_row_commit_version=action.default_row_commit_version,
            clustering_provider=action.clustering_provider,
        )
    }


def _remove(action: RemoveFile) -> dict[str, _Remove]:
    return {
        "remove": _Remove(
            path=action.path,
            deletion_timestamp=action.deletion_timestamp,
            data_change=action.data_change,
            extended_file_metadata=action.extended_file_metadata,
            partition_values=action.partition_values,
            size=action.size,
            stats=action.stats,
            tags=action.tags,
            deletion_vector=_vector(action.deletion_vector),
            base_row_id=action.base_row_id,
            default_row_commit_version=action.default_row_commit_version,
        )
    }


def _vector(vector: DeletionVector | None) -> _Vector | None:
    if vector is None:
        return None
    return _Vector(
        storage_type=vector.storage_type,
        path_or_inline_dv=vector.path_or_inline_dv,
        offset=vector.offset,
        size_in_bytes=vector.size_in_bytes,
        cardinality=vector.cardinality,
        max_row_index=vector.max_row_index,
    )
