"""Actions as JSON: a line of a commit holds one action under its name.

Source: PROTOCOL.md, "Delta Log Entries" and "Actions". Unknown actions and unknown fields are left
out on reading, as the protocol asks. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, file_table
from delta_ops.protocol.json_file_actions import FILE_LINES, decode_file_lines
from delta_ops.protocol.schema import StructType, schema_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """The actions of one commit: those on files as Arrow, the others as values."""

    adds: pa.Table
    """Schema `arrow_schemas.ADD`."""
    removes: pa.Table
    """Schema `arrow_schemas.REMOVE`."""
    others: tuple[Action | Sidecar | CheckpointMetadata, ...]
    """In the order of the file."""


_BOM = b"\xef\xbb\xbf"
_FEW_LINES = 64
"""Fewer are decoded sooner than Arrow's reader has been set up."""
_FileLine = tuple[int, Mapping[str, Any]]
_MALFORMED = (
    pa.ArrowException,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class LineError(ValueError):
    """A line of a commit cannot be read; `line` counts from 1, `commit` from 0."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line, self.reason, self.commit = line, reason, 0


def decode_commit(data: bytes) -> CommitActions:
    """The actions of a commit file's bytes.

    Raises:
        LineError: A line is not a JSON object, or an action lacks a field it must have.
    """
    (actions,) = decode_commits([data])
    return actions


def decode_commits(commits: Sequence[bytes]) -> list[CommitActions]:
    """The actions of each of several commit files; many at once take less time than one by one.

    Raises:
        LineError: As `decode_commit`; `commit` says in which.
    """
    return _decode_in_bulk(commits) or [_decode_lines(data, i) for i, data in enumerate(commits)]


def encode_action(action: Action) -> str:
    """The action as one line of JSON, without the line's end."""
    name, body = _encoded(action)
    return json.dumps({name: body}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file.

    Raises:
        InvalidRequestError: A value has no JSON, such as half of a surrogate pair.
    """
    try:
        return "".join(encode_action(action) + "\n" for action in actions).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequestError(f"the commit cannot be written as JSON: {error}") from error


def metadata_from_json(body: Mapping[str, Any]) -> Metadata:
    """The body of a `metaData` action, of JSON or of a checkpoint row."""
    stored = _mapping(body.get("format"))
    return Metadata(
        id=_text(body["id"]),
        name=_text_or_none(body.get("name")),
        description=_text_or_none(body.get("description")),
        format=Format(
            provider=_text(stored.get("provider") or "parquet"),
            options=_mapping(stored.get("options")),
        ),
        # Tables that are set up before their columns are known have none at first.
        schema_string=_text(body.get("schemaString") or schema_to_json(StructType())),
        partition_columns=_names(body.get("partitionColumns")) or (),
        # Some writers have a null for a property that is not set.
        configuration={
            name: _text(value)
            for name, value in _mapping(body.get("configuration")).items()
            if value is not None
        },
        created_time=_long_or_none(body.get("createdTime")),
    )


def protocol_from_json(body: Mapping[str, Any]) -> Protocol:
    """The body of a `protocol` action, of JSON or of a checkpoint row."""
    return Protocol(
        min_reader_version=_long(body["minReaderVersion"]),
        min_writer_version=_long(body["minWriterVersion"]),
        reader_features=_names(body.get("readerFeatures")),
        writer_features=_names(body.get("writerFeatures")),
    )


def set_transaction_from_json(body: Mapping[str, Any]) -> SetTransaction:
    """The body of a `txn` action, of JSON or of a checkpoint row."""
    return SetTransaction(
        app_id=_text(body["appId"]),
        version=_long(body["version"]),
        last_updated=_long_or_none(body.get("lastUpdated")),
    )


def domain_metadata_from_json(body: Mapping[str, Any]) -> DomainMetadata:
    """The body of a `domainMetadata` action, of JSON or of a checkpoint row."""
    return DomainMetadata(
        domain=_text(body["domain"]),
        configuration=_text(body.get("configuration") or ""),
        removed=_flag(body.get("removed")),
    )


def sidecar_from_json(body: Mapping[str, Any]) -> Sidecar:
    """The body of a `sidecar` action, of JSON or of a checkpoint row."""
    return Sidecar(
        path=_text(body["path"]),
        size_in_bytes=_long(body["sizeInBytes"]),
        modification_time=_long(body.get("modificationTime") or 0),
    )


def checkpoint_metadata_from_json(body: Mapping[str, Any]) -> CheckpointMetadata:
    """The body of a `checkpointMetadata` action, of JSON or of a checkpoint row."""
    return CheckpointMetadata(version=_long(body["version"]))


def json_body(action: Action) -> dict[str, Any]:
    """The action's body by JSON name, absent fields left out."""
    return _encoded(action)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SplitCommit:
    """A commit's lines by how they are decoded."""

    files: Sequence[bytes | memoryview]
    """Lines of adds and removes, to be joined; the last has its end."""
    num_adds: int
    num_removes: int
    others: Sequence[bytes]


def _decode_in_bulk(commits: Sequence[bytes]) -> list[CommitActions] | None:
    """All that `_decode_lines` gives, or None where that is for it to say."""
    split = [_split(data.removeprefix(_BOM)) for data in commits]
    if sum(each.num_adds + each.num_removes for each in split) < _FEW_LINES:
        return None
    kinds = [
        name
        for name, total in (
            ("add", sum(each.num_adds for each in split)),
            ("remove", sum(each.num_removes for each in split)),
        )
        if total
    ]
    files = decode_file_lines(b"".join(part for each in split for part in each.files), kinds)
    try:
        others = [tuple(_other_actions(each.others)) for each in split]
    except (LineError, *_MALFORMED):
        return None
    if files is None:
        return None
    decoded, add, remove = [], 0, 0
    for each, of_each in zip(split, others, strict=True):
        adds = files.adds.slice(add, each.num_adds)
        removes = files.removes.slice(remove, each.num_removes)
        decoded.append(CommitActions(adds=adds, removes=removes, others=of_each))
        add, remove = add + each.num_adds, remove + each.num_removes
    return decoded


def _split(data: bytes) -> _SplitCommit:
    """Lines on files mostly follow each other, so that they can be cut out and counted as one."""
    begin, end = 0, len(data)
    while begin < end and not data.startswith(FILE_LINES, begin):
        begin = data.find(b"\n", begin) + 1 or end
    while begin < end:
        last = max(data.rfind(b"\n", begin, end - 1) + 1, begin)
        if data.startswith(FILE_LINES, last):
            break
        end = last
    files: list[bytes | memoryview] = [memoryview(data)[begin:end]]
    if begin < end and not data.endswith(b"\n", begin, end):
        files.append(b"\n")
    between: list[bytes] = []
    num_lines = data.count(b"\n", begin, end) + len(files) - 1
    adds = _count(data, FILE_LINES[0], begin, end)
    removes = _count(data, FILE_LINES[1], begin, end) if adds < num_lines else 0
    if adds + removes != num_lines:
        lines = data[begin:end].split(b"\n")
        between = [line for line in lines if not line.startswith(FILE_LINES)]
        kept = [line for line in lines if line.startswith(FILE_LINES)]
        adds = sum(line.startswith(FILE_LINES[0]) for line in kept)
        files, removes = [b"".join(line + b"\n" for line in kept)], len(kept) - adds
    others = [data[:begin], *between, data[end:]]
    return _SplitCommit(
        files=files,
        num_adds=adds,
        num_removes=removes,
        others=[line for lines in others for line in lines.split(b"\n") if line.strip()],
    )


def _count(data: bytes, start: bytes, begin: int, end: int) -> int:
    """How many lines start so."""
    return data.count(b"\n" + start, begin, end) + data.startswith(start, begin, end)


def _other_actions(lines: Iterable[bytes]) -> Iterator[Action | Sidecar | CheckpointMetadata]:
    for line in lines:
        for name, body in _objects(line, 0):
            if name not in _DECODERS:
                raise LineError(0, "spelled in a way that is not for the bulk")
            yield _DECODERS[name](body)


def _decode_lines(data: bytes, commit: int) -> CommitActions:
    adds: list[_FileLine] = []
    removes: list[_FileLine] = []
    others: list[Action | Sidecar | CheckpointMetadata] = []
    try:
        for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), start=1):
            for name, body in _objects(line, number) if line.strip() else ():
                if name in _DECODERS:
                    others.append(_decoded(name, body, number))
                else:
                    kept = adds if name == "add" else removes
                    kept.append((number, _decoded(name, body, number)))
        return CommitActions(
            adds=_files(adds, ADD), removes=_files(removes, REMOVE), others=tuple(others)
        )
    except LineError as error:
        error.commit = commit
        raise


def _decoded(name: str, body: Any, number: int) -> Any:
    try:
        return _DECODERS[name](body) if name in _DECODERS else _file_body(body, name)
    except _MALFORMED as error:
        raise LineError(number, f"{name} is malformed ({error!r})") from error


def _objects(line: bytes, number: int) -> list[tuple[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(number, f"not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise LineError(number, "not a JSON object")
    actions = [(n, body) for n, body in value.items() if n in _ACTIONS and body is not None]
    if len(actions) > 1:
        # Readers differ in which they take.
        names = " and ".join(name for name, _ in actions)
        raise LineError(number, f"more than one action ({names})")
    return actions


def _text(value: Any) -> str:
    """The value, if it is a text that can be written again."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    value.encode()
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _long(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} does not fit 64 bits")
    return value


def _long_or_none(value: Any) -> int | None:
    return None if value is None else _long(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | None):
        raise TypeError(f"{value!r} is neither true nor false")
    return bool(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping | None):
        raise TypeError(f"{value!r} is not an object")
    return dict(value or {})


def _file_body(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if not isinstance(body["path"], str):
        raise TypeError("path is not a string")
    if name == "add" and _long(body["size"]) < 0:
        raise ValueError("size is negative")
    return body


def _files(lines: Sequence[_FileLine], schema: pa.Schema) -> pa.Table:
    try:
        return file_table([body for _, body in lines], schema)
    except _MALFORMED:
        for number, body in lines:
            try:
                file_table([body], schema)
            except _MALFORMED as error:
                raise LineError(number, f"{body['path']} is malformed ({error})") from error
        raise


def _commit_info(body: Mapping[str, Any]) -> CommitInfo:
    return CommitInfo(values=_mapping(body))


def _cdc(body: Mapping[str, Any]) -> AddCdcFile:
    return AddCdcFile(
        path=_text(body["path"]),
        size=_long(body["size"]),
        partition_values=_mapping(body.get("partitionValues")),
        tags=None if body.get("tags") is None else _mapping(body["tags"]),
    )


_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], Action | Sidecar | CheckpointMetadata]] = {
    "metaData": metadata_from_json,
    "protocol": protocol_from_json,
    "txn": set_transaction_from_json,
    "domainMetadata": domain_metadata_from_json,
    "sidecar": sidecar_from_json,
    "checkpointMetadata": checkpoint_metadata_from_json,
    "commitInfo": _commit_info,
    "cdc": _cdc,
}
_ACTIONS = frozenset({"add", "remove", *_DECODERS})


def _names(values: Any) -> tuple[str, ...] | None:
    if not isinstance(values, list | None):
        raise TypeError(f"{values!r} is not a list of names")
    return None if values is None else tuple(_text(value) for value in values)


def _encoded(action: Action) -> tuple[str, dict[str, Any]]:
    match action:
        case AddFile():
            return "add", _present(_add_body(action), always=("partitionValues",))
        case RemoveFile():
            return "remove", _present(_remove_body(action))
        case AddCdcFile():
            return "cdc", _present(
                {
                    "path": action.path,
                    "partitionValues": dict(action.partition_values),
                    "size": action.size,
                    "tags": _copied(action.tags),
                    "dataChange": False,
                }
            )
        case Metadata():
            return "metaData", _present(_metadata_body(action))
        case Protocol():
            return "protocol", _present(
                {
                    "minReaderVersion": action.min_reader_version,
                    "minWriterVersion": action.min_writer_version,
                    "readerFeatures": _listed(action.reader_features),
                    "writerFeatures": _listed(action.writer_features),
                }
            )
        case SetTransaction():
            return "txn", _present(
                {
                    "appId": action.app_id,
                    "version": action.version,
                    "lastUpdated": action.last_updated,
                }
            )
        case DomainMetadata():
            return "domainMetadata", {
                "domain": action.domain,
                "configuration": action.configuration,
                "removed": action.removed,
            }
        case CommitInfo():
            return "commitInfo", dict(action.values)


def _add_body(add: AddFile) -> dict[str, Any]:
    return {
        "path": add.path,
        "partitionValues": dict(add.partition_values),
        "size": add.size,
        "modificationTime": add.modification_time,
        "dataChange": add.data_change,
        "stats": add.stats,
        "tags": _copied(add.tags),
        "deletionVector": _deletion_vector_body(add.deletion_vector),
        "baseRowId": add.base_row_id,
        "defaultRowCommitVersion": add.default_row_commit_version,
        "clusteringProvider": add.clustering_provider,
    }


def _remove_body(remove: RemoveFile) -> dict[str, Any]:
    return {
        "path": remove.path,
        "deletionTimestamp": remove.deletion_timestamp,
        "dataChange": remove.data_change,
        "extendedFileMetadata": remove.extended_file_metadata,
        "partitionValues": _copied(remove.partition_values),
        "size": remove.size,
        "stats": remove.stats,
        "tags": _copied(remove.tags),
        "deletionVector": _deletion_vector_body(remove.deletion_vector),
        "baseRowId": remove.base_row_id,
        "defaultRowCommitVersion": remove.default_row_commit_version,
    }


def _metadata_body(metadata: Metadata) -> dict[str, Any]:
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {
            "provider": metadata.format.provider,
            "options": dict(metadata.format.options),
        },
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": metadata.created_time,
    }


def _deletion_vector_body(vector: DeletionVector | None) -> dict[str, Any] | None:
    if vector is None:
        return None
    return _present(
        {
            "storageType": vector.storage_type,
            "pathOrInlineDv": vector.path_or_inline_dv,
            "offset": vector.offset,
            "sizeInBytes": vector.size_in_bytes,
            "cardinality": vector.cardinality,
            "maxRowIndex": vector.max_row_index,
        }
    )


def _present(body: dict[str, Any], always: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None or name in always}


def _copied(mapping: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    return None if mapping is None else dict(mapping)


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
