"""Actions as JSON: a line of a commit holds one action under its name.

Source: PROTOCOL.md, "Delta Log Entries" and "Actions". Reading skips unknown actions and unknown
fields, as the protocol requires. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Format,
    Metadata,
    OtherAction,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from delta_ops.protocol.json.file_actions import (
    MALFORMED_LINE,
    ParsedLines,
    file_tables,
    line_decoder,
    parse_lines,
)
from delta_ops.protocol.json.file_lines import encode_lines
from delta_ops.protocol.schema import StructType, schema_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """The actions of one commit: file actions as Arrow tables, other actions as values."""

    adds: pa.Table
    """Schema `arrow_schemas.ADD`, with a `PATH_HASH`."""
    removes: pa.Table
    """Schema `arrow_schemas.REMOVE`, with a `PATH_HASH`."""
    others: tuple[Action | Sidecar | CheckpointMetadata, ...]
    """In file order."""


_BOM = b"\xef\xbb\xbf"
_REASON_CHARS = 200
_SHOWN_BEFORE = 20
"""Characters of a text that an error shows before the place that it is about."""
_MALFORMED = (*MALFORMED_LINE, KeyError, TypeError, ValueError, AttributeError, OverflowError)


class LineError(ValueError):
    """A line of a commit cannot be read; `line` counts from 1, `commit` from 0."""

    def __init__(self, line: int, reason: str, commit: int = 0) -> None:
        super().__init__(line, reason)
        self.line, self.reason, self.commit = line, reason, commit


def decode_commits(commits: Iterable[bytes]) -> list[CommitActions]:
    """Decode commit files; many at once are faster than one by one.

    Raises:
        LineError: A line is not a JSON object, or an action lacks a required field.
    """
    datas = [data.removeprefix(_BOM) for data in commits]
    try:
        parsed = [parse_lines(data, _LINES) for data in datas]
        others = [tuple(_DECODERS[name](body) for name, body in lines.others) for lines in parsed]
        adds, removes = file_tables(parsed)
    except _MALFORMED as error:
        raise _first_error(datas) from error
    return list(_split_commits(parsed, others, adds, removes))


def json_object(action: OtherAction | Sidecar | CheckpointMetadata) -> dict[str, dict[str, Any]]:
    """The action's body under its name, without absent fields."""
    name, body = _name_and_body(action)
    return {name: body}


def encode_commit(actions: Iterable[Action | Sidecar | CheckpointMetadata]) -> bytes:
    """Encode a commit file, or the top-level file of a V2 checkpoint.

    Raises:
        InvalidRequestError: A value has no JSON form, such as half of a surrogate pair.
    """
    try:
        return encode_lines(map(_line, actions))
    except UnicodeEncodeError as error:
        text = error.object[max(error.start - _SHOWN_BEFORE, 0) : error.end]
        raise InvalidRequestError(
            f"the commit cannot be written as JSON: the text that ends with {text!r} has half of a "
            "surrogate pair, which no file can hold; leave it out"
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequestError(f"the commit cannot be written as JSON: {error}") from error


def _line(action: Action | Sidecar | CheckpointMetadata) -> AddFile | RemoveFile | bytes:
    if isinstance(action, (RemoveFile, AddFile)):  # faster than a check against the union
        return action
    return json.dumps(
        json_object(action), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()


def metadata_from_json(body: Mapping[str, Any]) -> Metadata:
    """Parse the body of a `metaData` action, from JSON or a checkpoint row."""
    stored = _mapping(body.get("format"))
    return Metadata(
        id=_text(body["id"]),
        name=_text_or_none(body.get("name")),
        description=_text_or_none(body.get("description")),
        format=Format(
            provider=_text(stored.get("provider") or "parquet"),
            options=_mapping(stored.get("options")),
        ),
        # A table may be created before its columns are known.
        schema_string=_text(body.get("schemaString") or schema_to_json(StructType())),
        partition_columns=_names(body.get("partitionColumns")) or (),
        # Some writers write null for an unset property.
        configuration={
            name: _text(value)
            for name, value in _mapping(body.get("configuration")).items()
            if value is not None
        },
        created_time=_long_or_none(body.get("createdTime")),
    )


def protocol_from_json(body: Mapping[str, Any]) -> Protocol:
    """Parse the body of a `protocol` action, from JSON or a checkpoint row."""
    return Protocol(
        min_reader_version=_long(body["minReaderVersion"]),
        min_writer_version=_long(body["minWriterVersion"]),
        reader_features=_names(body.get("readerFeatures")),
        writer_features=_names(body.get("writerFeatures")),
    )


def set_transaction_from_json(body: Mapping[str, Any]) -> SetTransaction:
    """Parse the body of a `txn` action, from JSON or a checkpoint row."""
    return SetTransaction(
        app_id=_text(body["appId"]),
        version=_long(body["version"]),
        last_updated=_long_or_none(body.get("lastUpdated")),
    )


def domain_metadata_from_json(body: Mapping[str, Any]) -> DomainMetadata:
    """Parse the body of a `domainMetadata` action, from JSON or a checkpoint row."""
    return DomainMetadata(
        domain=_text(body["domain"]),
        configuration=_text(body.get("configuration") or ""),
        removed=_flag(body.get("removed")),
    )


def sidecar_from_json(body: Mapping[str, Any]) -> Sidecar:
    """Parse the body of a `sidecar` action, from JSON or a checkpoint row."""
    return Sidecar(
        path=_text(body["path"]),
        size_in_bytes=_long(body["sizeInBytes"]),
        modification_time=_long(body.get("modificationTime") or 0),
    )


def checkpoint_metadata_from_json(body: Mapping[str, Any]) -> CheckpointMetadata:
    """Parse the body of a `checkpointMetadata` action, from JSON or a checkpoint row."""
    return CheckpointMetadata(version=_long(body["version"]))


def json_body(action: OtherAction | Sidecar | CheckpointMetadata) -> dict[str, Any]:
    """The action's body by JSON name, without absent fields."""
    return _name_and_body(action)[1]


def _split_commits(
    parsed: Iterable[ParsedLines],
    others: Iterable[tuple[Action | Sidecar | CheckpointMetadata, ...]],
    adds: pa.Table,
    removes: pa.Table,
) -> Iterator[CommitActions]:
    add = remove = 0
    for lines, of_commit in zip(parsed, others, strict=True):
        num_adds, num_removes = len(lines.add_hashes), len(lines.remove_hashes)
        yield CommitActions(
            adds=adds.slice(add, num_adds) if len(adds) > num_adds else adds,
            removes=removes.slice(remove, num_removes) if len(removes) > num_removes else removes,
            others=of_commit,
        )
        add, remove = add + num_adds, remove + num_removes


def _first_error(datas: Iterable[bytes]) -> LineError:
    """The error of the first line that cannot be read."""
    for commit, data in enumerate(datas):
        for number, line in enumerate(data.split(b"\n"), start=1):
            reason = _reason(line) if line.strip() else None
            if reason:
                return LineError(number, reason, commit)
    return LineError(1, "not lines of JSON")


def _reason(line: bytes) -> str | None:
    """Why a line cannot be read; None if it can."""
    try:
        parsed = parse_lines(line, _LINES)
        file_tables([parsed])
    except msgspec.ValidationError as error:
        return f"malformed: {error}"
    except pa.ArrowInvalid as error:
        return f"malformed: {str(error).rpartition('Json error: ')[2][:_REASON_CHARS]}"
    except MALFORMED_LINE as error:
        return f"not valid JSON: {error}"
    for name, body in parsed.others:
        try:
            _DECODERS[name](body)
        except _MALFORMED as error:
            return f"{name} is malformed ({error!r})"
    return None


def _text(value: Any) -> str:
    """The value, if it is a text that can be encoded again."""
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
_LINES = line_decoder(_DECODERS)


def _names(values: Any) -> tuple[str, ...] | None:
    if not isinstance(values, list | None):
        raise TypeError(f"{values!r} is not a list of names")
    return None if values is None else tuple(_text(value) for value in values)


def _name_and_body(
    action: OtherAction | Sidecar | CheckpointMetadata,
) -> tuple[str, dict[str, Any]]:
    match action:
        case AddCdcFile():
            return "cdc", _drop_none(
                {
                    "path": action.path,
                    "partitionValues": dict(action.partition_values),
                    "size": action.size,
                    "tags": _dict_or_none(action.tags),
                    "dataChange": False,
                }
            )
        case Metadata():
            return "metaData", _drop_none(_metadata_body(action))
        case Protocol():
            return "protocol", _drop_none(
                {
                    "minReaderVersion": action.min_reader_version,
                    "minWriterVersion": action.min_writer_version,
                    "readerFeatures": _list_or_none(action.reader_features),
                    "writerFeatures": _list_or_none(action.writer_features),
                }
            )
        case SetTransaction():
            return "txn", _drop_none(
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
        case Sidecar():
            return "sidecar", {
                "path": action.path,
                "sizeInBytes": action.size_in_bytes,
                "modificationTime": action.modification_time,
            }
        case CheckpointMetadata():
            return "checkpointMetadata", {"version": action.version}


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


def _drop_none(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _dict_or_none(mapping: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    return None if mapping is None else dict(mapping)


def _list_or_none(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
